"""The files that code has written in responses."""
