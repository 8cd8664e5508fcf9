"""The server's own tools in a response: `browser` as web search, `python` as code interpreter, MCP.

::

    mcp                   the MCP servers that a request names, and approvals of their calls
    conversation_tools    sessions of one conversation, their calls, and citations in its answers
"""
