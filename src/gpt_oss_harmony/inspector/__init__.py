"""The inspector: a page that shows how conversations become tokens, and what tokens mean.

::

    wire → source             bodies of requests, errors; conversations of three forms
    rendering                 a conversation as tokens, also under each choice
    parse, allowed            tokens to messages; a completion beside a grammar
    export                    a conversation as JSON, a vector or a program
    calls                     all of this as functions from JSON to JSON
    routes                    the page (in `page`: no build, no framework), and the calls over HTTP

`routes` needs the extra ``inspect``, `allowed` the extra ``grammar``. The rest needs the core
alone, so a browser can run it.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .routes import LiveModel as LiveModel
    from .routes import Run as Run
    from .routes import create_inspector as create_inspector
    from .routes import inspector_routes as inspector_routes

__all__ = ["LiveModel", "Run", "create_inspector", "inspector_routes"]


def __getattr__(name: str) -> Any:
    """Import the routes on first use, because they need starlette."""
    if name in __all__:
        from . import routes

        return getattr(routes, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
