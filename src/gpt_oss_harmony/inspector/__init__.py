"""The inspector: a page that shows how conversations become tokens, and what tokens mean.

::

    wire → source → append    bodies of requests, errors; conversations of three forms
    rendering → comparison    a conversation as tokens, and under each choice
    parse, allowed            tokens to messages; a completion beside a grammar
    export                    a conversation as JSON, a vector or a program
    routes                    the page (in `page`: no build, no framework) and its API

Needs the extra ``inspect``.
"""

from .routes import LiveModel, Run, create_inspector, inspector_routes

__all__ = ["LiveModel", "Run", "create_inspector", "inspector_routes"]
