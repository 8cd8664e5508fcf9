"""Trials of schemas in the engine: a schema as JSON text in, whether the engine can follow it out.

llguidance builds its lexer while the model samples. Each token has a fixed amount of fuel for that;
a grammar that runs out of it fails for good. A pattern does not show how much fuel it needs,
because that depends on how its counts overlap. So the engine itself follows the schema for a few
tokens, with less fuel than it has in use.

Of the 486 different texts with counts in JSONSchemaBench, five fail, all of them when they are
compiled or at the first token. Patterns that were made to fail do so within four tokens. So a few
tokens are enough.
"""

from __future__ import annotations

import json
import random
import re
from functools import lru_cache
from typing import NamedTuple

from llguidance import LLInterpreter, LLParserLimits

from ..tokens.special_tokens import FIRST_SPECIAL
from ..tokens.vocabulary import load_vocabulary
from .json_spelling import JSON_OPTIONS
from .token_table import token_table

ENGINE_FUEL = 200_000
"""The fuel for one token in vLLM and other engines; it is the default of llguidance."""

TRIAL_FUEL = 180_000
"""The fuel for one token of a trial; less than `ENGINE_FUEL`, because no trial meets every text."""

_WALKS = 2
_TOKENS_OF_A_WALK = 16
_CHEAP = 1_000
_CHEAP_TOKENS = 8
_FUEL_OF_A_STEP = 10
_MOST_STEPS = 100_000
_STEPS_TO_COMPILE = 2_000
_STEPS_OF_A_TOKEN = 300
_ALLOWED = re.compile(rb"[^\0]")


class Trial(NamedTuple):
    """The result of a trial, and its price in steps of a `Budget`."""

    succeeds: bool
    steps: int


@lru_cache(maxsize=4096)
def try_schema(schema: str, *, follows: bool = True) -> Trial:
    """Let the engine follow a schema for a few tokens; equal schemas have equal results.

    Without `follows`, it only compiles the schema.

    >>> try_schema('{"type": "string", "pattern": "^a{1,9}$"}').succeeds
    True
    """
    options = json.dumps(JSON_OPTIONS)
    # The patterns of names apply inside a name, so the walk begins in one.
    begun = token_table().tokenize_str('{"') if '"patternProperties"' in schema else []
    # Seeded with the schema: an equal one takes the same walks on every machine.
    choices = random.Random(schema)
    steps = _STEPS_TO_COMPILE
    try:
        start = LLInterpreter(
            token_table(),
            f'start: %json {{"allOf": [{schema}], "x-guidance": {options}}}\n',
            enable_backtrack=False,
            enable_ff_tokens=False,
            log_level=0,
            limits=LLParserLimits(step_lexer_fuel=TRIAL_FUEL, verbose_errors=False),
        )
        start.start_without_prompt()
        for walk in range(_WALKS if follows else 0):
            interpreter = start.deep_copy()
            cheap_tokens = 0
            for index in range(_TOKENS_OF_A_WALK):
                mask, progress = interpreter.compute_mask()
                if mask is None:
                    break
                fuel = int(json.loads(progress)["progress"][0]["stats"]["lexer_cost"])
                steps += _STEPS_OF_A_TOKEN + fuel // _FUEL_OF_A_STEP
                cheap_tokens = 0 if fuel > _CHEAP else cheap_tokens + 1
                token = _choose(mask, choices, longest=walk == 0)
                if index < len(begun):
                    token = begun[index]
                if cheap_tokens == _CHEAP_TOKENS or token is None or steps > _MOST_STEPS:
                    break  # the lexer is built for this walk
                interpreter.commit_token(token)
            if cheap_tokens == _CHEAP_TOKENS or steps > _MOST_STEPS:
                break
    except ValueError:  # the engine failed
        return Trial(False, steps + ENGINE_FUEL // _FUEL_OF_A_STEP)
    return Trial(True, steps)


def _choose(mask: bytes, choices: random.Random, *, longest: bool) -> int | None:
    """Draw tokens that the mask allows; return the longest or the first of them."""
    vocabulary = load_vocabulary()
    first = _ALLOWED.search(mask, 0, FIRST_SPECIAL)
    if first is None:
        return None
    drawn: list[int] = []
    for _ in range(8 if longest else 1):
        # All tokens that are allowed have the same byte, and `find` is much faster than `search`.
        place = mask.find(first.group(), choices.randrange(FIRST_SPECIAL), FIRST_SPECIAL)
        drawn.append(first.start() if place < 0 else place)
    return max(drawn, key=lambda token: len(vocabulary[token]))
