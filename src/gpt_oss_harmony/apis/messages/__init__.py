"""Anthropic's Messages: `request`, `input` (its blocks), `writer` (events), `fold` (the whole)."""
