"""The built-in tools of gpt-oss, `browser` and `python`, and tools of MCP servers."""
