"""The server's own tools in a response: `browser` as web search, `python` as code interpreter, MCP.

::

    citations             an answer in the form for clients, and its citations
    mcp                   the MCP servers that a request names, and approvals of their calls
    conversation_tools    the sessions of one conversation; runs its calls
"""
