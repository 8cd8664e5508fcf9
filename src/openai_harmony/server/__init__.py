"""The server: the Responses and Chat Completions APIs over any engine (extra ``serve``).

::

    settings, api_error                     what the server is told, what clients are told
    store/, sealed_reasoning                what is kept, and what clients keep for it
    keys/, admission, metrics → services    who may ask and run; what the routes share
    turns/                                  a request and an engine to events
    answers/                                how answers leave
    tools/                                  the tools that the server runs itself
    responses/, conversations/, containers/, chat/, completions/, tokens/
    models_routes, health_routes            the routes
    inspector_page                          the page at /
    app → run_server                        the application, and the socket
"""

from .app import create_app
from .run_server import run_server
from .settings import Settings

__all__ = ["Settings", "create_app", "run_server"]
