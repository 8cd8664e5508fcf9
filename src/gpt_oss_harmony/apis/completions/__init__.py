"""Completions, of raw prompts: `request`, `writer` (the chunks), `fold` (the whole)."""
