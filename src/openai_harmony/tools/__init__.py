"""The built-in tools of gpt-oss, `browser` and `python`, really working."""
