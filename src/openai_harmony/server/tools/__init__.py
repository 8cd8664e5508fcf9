"""The server's own tools in a response: `browser` as web search, `python` as code interpreter, MCP.

::

    call_items            the fields that an item shows of a call and its result
    citations             an answer as clients see it, and the citations in it
    mcp_servers           the MCP servers that a request names
    conversation_tools    the sessions of one conversation; runs its calls
"""
