"""The server: the Responses and Chat Completions APIs over any engine (extra ``serve``).

::

    settings, metrics, logs, telemetry, services
                                        shared by all routes
    observation                         the records of each request: log, metrics, trace
    pools, limited_route                threads by purpose, in turn; requests under limits
    private_files                       files that only their owner may read
    store/                              responses, conversations, files and keys in a database
    http/                               errors, JSON, event streams, disconnects, sizes
    auth/                               API keys, their callers and limits
    generation/                         a request and an engine to the events of a turn
    tools/                              the tools that the server runs itself
    file_texts                          the files in requests as text
    responses/, conversations, containers, files, chat/, completions/, messages/, tokens
                                        the APIs
    models, status                      the names of the model; the state of server and storage
    app                                 the application, the inspector's page at /, the socket
"""

from ..installation import needing_extra

with needing_extra("the server needs", "serve"):
    from .app import check_storage, create_app, run_server
    from .settings import Settings

__all__ = ["Settings", "check_storage", "create_app", "run_server"]
