"""The Model Context Protocol: tools of servers for the model, and built-in tools for clients.

::

    connection      the address of a server, and the connection to it
    mcp_tool        the tools of a server, called like a built-in tool
    tool_server     built-in tools as a server

Needs the package `mcp`, the official SDK.
"""

from ...installation import needing_extra

with needing_extra("the tools of MCP servers need", "tools"):
    from .connection import McpAddress, McpServerError
    from .mcp_tool import McpSettings, McpTool
    from .tool_server import KeyGate, make_http_app, make_server

__all__ = [
    "KeyGate",
    "McpAddress",
    "McpServerError",
    "McpSettings",
    "McpTool",
    "make_http_app",
    "make_server",
]
