"""The built-in tool `python`: a notebook for each conversation, in a sandbox."""
