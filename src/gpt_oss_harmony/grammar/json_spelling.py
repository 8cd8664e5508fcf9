"""How JSON is spelled under a grammar: its white space and escapes."""

from __future__ import annotations

import json
from typing import Any

JSON_OPTIONS: dict[str, Any] = {
    # White space is part of the separators: a space, or after a comma a new line with its indent.
    # `whitespace_pattern` would allow it elsewhere, but before llguidance 1.8 without a limit, and
    # a model may then write white space without end.
    "whitespace_flexible": False,
    "item_separator": ",(?: |\\r?\\n[ \\t]{0,64})?",
    "key_separator": ": ?",
    # No \uXXXX: with it, a listed name could be written as an unlisted one.
    "json_allowed_escapes": 'nrbtf\\"',
    "coerce_one_of": False,
    "lenient": False,
}
"""The ``x-guidance`` to pass with a schema from `enforceable_schema`."""

COMPACT_JSON_OPTIONS = {**JSON_OPTIONS, "item_separator": ",", "key_separator": ":"}
"""The same for JSON without white space."""

WHITE_SPACE: dict[str, dict[str, Any]] = {
    "separators": JSON_OPTIONS,
    "compact": COMPACT_JSON_OPTIONS,
    # From llguidance 1.8 on, the pattern holds for all the white space between two signs.
    "flexible": {
        **COMPACT_JSON_OPTIONS,
        "whitespace_pattern": "[ \\t]{1,4}|(?:\\r?\\n){1,2}[ \\t]{0,64}",
    },
    "indented": {
        **COMPACT_JSON_OPTIONS,
        "whitespace_pattern": "\\r?\\n[ \\t]{0,64}",
        "item_separator": ",\\r?\\n[ \\t]{0,64}",
        "key_separator": ": ",
    },
}
"""The ``x-guidance`` for each value of `TurnOptions.whitespace`."""

_OPTIONS_OF_1_0 = {
    "whitespace_flexible",
    "item_separator",
    "key_separator",
    "coerce_one_of",
    "lenient",
}


def with_any_spelling(grammar: str) -> str:
    """Return a grammar of `turn_grammar` that allows JSON with any white space and escapes.

    Use it to check a sampled turn, in which another spelling is harmless, and not to sample.
    """
    any_spelling = json.dumps({"coerce_one_of": False, "lenient": False})
    for options in WHITE_SPACE.values():
        grammar = grammar.replace(json.dumps(options), any_spelling)
    return grammar


def for_llguidance_1_0(grammar: str) -> str:
    """Return a grammar of `turn_grammar` that llguidance 1.0 reads, which llama.cpp builds.

    In this version, JSON has no white space, and the allowed escapes cannot be chosen.
    """
    plain = {name: value for name, value in COMPACT_JSON_OPTIONS.items() if name in _OPTIONS_OF_1_0}
    for options in WHITE_SPACE.values():
        grammar = grammar.replace(json.dumps(options), json.dumps(plain))
    return grammar
