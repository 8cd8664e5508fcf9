"""The server: the Responses and Chat Completions APIs over any engine (extra ``serve``).

::

    settings, api_error                what the server is told, what clients are told
    turn_events → turn_reader → turn   a request and an engine to messages, while they are sampled
    admission, caller, services        who may run, who asks, what the routes share
    app → run_server                   the application, and the socket
"""

from .app import create_app
from .run_server import run_server
from .settings import Settings

__all__ = ["Settings", "create_app", "run_server"]
