"""Fields of requests that change nothing: counted, logged and named, never ignored in silence.

They are fields that no API has, those that are marked as `Ignored`, and those inside of messages
and tools that nothing has read. Clients send fields of other servers, so such a field is no error
by default. The response lists it in the header ``Harmony-Ignored``. A misspelt ``temprature`` is
then seen.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias
from urllib.parse import quote

from ..apis.request_body import RequestBody, ignored_field, unknown_fields
from ..apis.turn import TurnRequest
from ..errors import closest, did_you_mean
from .http.errors import ApiError
from .metrics import Metrics

_LOG = logging.getLogger(__name__)

UnknownFieldPolicy: TypeAlias = Literal["ignore", "refuse"]

IGNORED_HEADER = "Harmony-Ignored"
"""The header that names them."""

IGNORED_FIELDS = "gpt_oss_harmony.ignored_fields"
"""The key in a request's scope of the list that becomes the header."""

# Clients choose the names, so everything that is kept of them has a limit.
_SHOWN_FIELDS = 20
_NAME_LENGTH = 64
_COUNTED_NAMES = 100
_LOGGED = 10_000
_OTHER = "other"

_OF_OTHER_SERVERS = frozenset(
    [
        "add_generation_prompt",
        "best_of",
        "cache_prompt",
        "enable_thinking",
        "guided_choice",
        "guided_grammar",
        "guided_json",
        "guided_regex",
        "ignore_eos",
        "keep_alive",
        "length_penalty",
        "min_p",
        "min_tokens",
        "num_ctx",
        "num_predict",
        "options",
        "plugins",
        "provider",
        "repetition_penalty",
        "route",
        "skip_special_tokens",
        "top_k",
        "transforms",
        "typical_p",
        "use_beam_search",
    ]
)
"""Fields that clients send to other servers."""


class UnknownFields:
    """Handles the unknown fields of requests, as the server's policy says."""

    def __init__(
        self, metrics: Metrics, policy: UnknownFieldPolicy, *, refuses_tools: bool = True
    ) -> None:
        self._metrics = metrics
        self._policy = policy
        self._refuses_tools = refuses_tools
        self._counted: set[str] = set()
        self._logged: set[tuple[str, str]] = set()

    def check(self, model: type[RequestBody], raw: Any, owner: str) -> list[str]:
        """Return the fields that are ignored; raise `ApiError` if the policy refuses them."""
        return self.report(
            model, unknown_fields(model, raw) if isinstance(raw, Mapping) else (), owner
        )

    def check_turn(
        self, model: type[RequestBody], turn: TurnRequest, owner: str, listed: str = ""
    ) -> None:
        """Report what a turn leaves out of its request, as `turn.unread` names it.

        `listed` is a type of tools that the answer itself lists as missing. Raises the error of
        another missing tool, if the settings refuse those.
        """
        for kind, error in turn.missing_tools.items():
            if kind != listed and self._refuses_tools:
                raise error
        self.report(model, turn.unread, owner)

    def report(self, model: type[RequestBody], found: Sequence[str], owner: str) -> list[str]:
        """Return fields as the header shows them; raise `ApiError` if the policy refuses them."""
        if not found:
            return []
        if self._policy == "refuse":
            raise _unknown_parameter(model, found[0])
        shown = shown_fields(found)
        for name, field in zip(shown, found, strict=False):
            is_name = len(field) <= _NAME_LENGTH and _is_like_a_field(model, field)
            is_known = "[" in field or ignored_field(model, field) is not None
            self._note(
                name if is_name else _OTHER, owner, logging.INFO if is_known else logging.WARNING
            )
        return shown

    def _note(self, field: str, owner: str, level: int) -> None:
        if len(self._counted) < _COUNTED_NAMES:
            self._counted.add(field)
        self._metrics.ignored_fields.labels(field if field in self._counted else _OTHER).inc()
        if (field, owner) not in self._logged and len(self._logged) < _LOGGED:
            self._logged.add((field, owner))
            fields = {"field": field, "key": owner}
            _LOG.log(level, "a request has an ignored or unknown field", extra={"fields": fields})


def shown_fields(found: Sequence[str]) -> list[str]:
    """Write the first fields so that they fit into a header.

    >>> shown_fields(["temprature", "tools[].a b"])
    ['temprature', 'tools[].a%20b']
    """
    # A header must not end in a space, so an empty name is shown as quotes.
    return [
        quote(field[:_NAME_LENGTH], safe=".[]", errors="replace") or '""'
        for field in found[:_SHOWN_FIELDS]
    ]


@functools.lru_cache(maxsize=1024)
def _is_like_a_field(model: type[RequestBody], field: str) -> bool:
    """Return whether a name may stand in logs and metrics, which must hold nothing that was said.

    Any other key may be a person's words, since a client can write anything into a request.
    """
    word = field.rpartition(".")[2]
    names = [name for one in (model, *RequestBody.__subclasses__()) for name in one.model_fields]
    return closest(word, names, 0.7) is not None or word in _OF_OTHER_SERVERS


def _unknown_parameter(model: type[RequestBody], field: str) -> ApiError:
    mark = ignored_field(model, field)
    if mark is not None:
        problem = f"{field} changes nothing: {mark.reason}; leave it out"
    elif "[" in field:
        problem = "nothing reads this field; leave it out"
    else:
        remedy = did_you_mean(field, model.model_fields, "leave it out")
        problem = f"there is no such field; {remedy}"
    return ApiError(400, problem, param=field[:_NAME_LENGTH], code="unknown_parameter")
