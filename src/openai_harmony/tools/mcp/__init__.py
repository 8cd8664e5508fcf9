"""Servers of the Model Context Protocol: their tools for the model, and ours for their clients.

::

    address → link                       a server, and the connection that is kept to it
    names → listing                      what it lists, as a namespace of harmony
    result, session → mcp_tool           its tools, called like a built-in one
    conversations → tool_server          built-in tools as a server
    key_gate                             what asks for a key before it

Needs the package `mcp`, the official SDK.
"""

from .address import McpAddress
from .key_gate import KeyGate
from .mcp_tool import McpSettings, McpTool
from .server_error import McpServerError
from .tool_server import make_http_app, make_server

__all__ = [
    "KeyGate",
    "McpAddress",
    "McpServerError",
    "McpSettings",
    "McpTool",
    "make_http_app",
    "make_server",
]
