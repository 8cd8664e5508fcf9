"""The server: the APIs of OpenAI and Anthropic over any engine (extra ``serve``).

::

    settings, metrics, logs, telemetry, services
                                        shared by all routes
    observation                         the records of each request: log, metrics, trace
    fair_turns, limited_route           turns between keys, threads by purpose; limits
    private_files                       files that only their owner may read
    store/                              responses, conversations, files and keys in a database
    peers                               messages between the servers of a database
    http/                               errors, JSON, event streams, disconnects, sizes
    auth/                               API keys, their callers and limits
    preparation, sampling, answer       a request to its prompt, tokens, and answer
    tools/                              the tools that the server runs itself
    file_texts                          the files in requests as text
    responses/, chat/, completions, messages
                                        the four APIs; `gpt_oss_harmony.apis` has what is pure
    conversations, containers, files, batches, tokens
                                        what clients use beside them; a batch asks the APIs
    models, status                      the names of the model; the state of server and storage
    app                                 the application, the inspector's page at /, the socket
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ..installation import needing_extra
from .settings import Settings

if TYPE_CHECKING:
    from .app import check_storage, create_app, run_server

__all__ = ["Settings", "check_storage", "create_app", "run_server"]


def __getattr__(name: str) -> Any:
    """Import the application on first use: the settings alone need no extra."""
    if name in __all__:
        with needing_extra("the server needs", "serve"):
            return getattr(import_module(".app", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
