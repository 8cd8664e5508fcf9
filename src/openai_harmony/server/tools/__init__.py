"""The server's own tools in a response: `browser` as web search, `python` as code interpreter.

::

    web_search, code_interpreter      what an item shows of a call
    mcp_servers, mcp_call             the MCP servers that a request asks for; their calls
    citations                         an answer as clients see it, and what it cites
    conversation_tools                the sessions of one conversation; runs its calls
"""
