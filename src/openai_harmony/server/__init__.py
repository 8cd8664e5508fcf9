"""The server: the Responses and Chat Completions APIs over any engine (extra ``serve``).

::

    settings, metrics, logs, telemetry, services
                                        what all routes share
    observation                         what is recorded of each request
    pools, turns, limited_route         threads by purpose, in turn; requests under limits
    private_files                       files that their owner alone may read
    store/                              responses, conversations, files and keys in a database
    http/                               errors, JSON, ids, event streams, disconnects, sizes
    auth/                               API keys, their callers and limits
    generation/                         a request and an engine to the events of a turn
    tools/                              the tools that the server runs itself
    responses/, conversations, containers, chat/, completions/, tokens
                                        the APIs
    models, health                      what is served, and how it is
    app                                 the application, the inspector's page at /, the socket
"""

from .app import check_storage, create_app, run_server
from .settings import Settings

__all__ = ["Settings", "check_storage", "create_app", "run_server"]
