"""The inspector: a page that shows what a conversation becomes, and what tokens mean (extra
``inspect``).

::

    wire → source                 JSON of the page in; conversations of three forms
    token_list, errors            what all answers share
    rendering → render, compare   a conversation to tokens, under each choice
    parse, allowed                tokens to messages, and beside a grammar
    python_layout → python_program → export
                                  a conversation to take away
    page_files                    the page itself, which `page` holds: no build, no framework
    json_endpoint → routes → application
                                  all of it on a server of its own, or as a part of another
"""

from .application import LOOPBACK_NAMES, create_inspector
from .routes import LiveModel, inspector_routes

__all__ = ["LOOPBACK_NAMES", "LiveModel", "create_inspector", "inspector_routes"]
