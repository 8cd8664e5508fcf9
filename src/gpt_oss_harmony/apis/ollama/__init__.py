"""Ollama's API: `request` (to a chat request), `writer` (the lines), `fold` (the whole)."""
