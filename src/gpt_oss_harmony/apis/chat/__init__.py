"""Chat Completions: `request`, `input` (its messages), `writer` (chunks), `fold` (the whole)."""
