"""Fields of requests that no API has: they are counted, logged and named, never ignored in silence.

Clients send fields of other servers, so such a field is no error by default. The response lists it
in the header ``Harmony-Ignored``. A misspelt ``temprature`` is then seen.
"""

from __future__ import annotations

import difflib
import logging
from collections.abc import Mapping
from typing import Any, Literal, TypeAlias
from urllib.parse import quote

from ..apis.request_body import RequestBody, unknown_fields
from .http.errors import ApiError
from .metrics import Metrics

__all__ = ["IGNORED_FIELDS", "UnknownFieldPolicy", "UnknownFields"]

_LOG = logging.getLogger(__name__)

UnknownFieldPolicy: TypeAlias = Literal["ignore", "refuse"]

IGNORED_FIELDS = "gpt_oss_harmony.ignored_fields"
"""The key in a request's scope of the list that becomes the header."""

# Clients choose the names, so everything that is kept of them has a limit.
_SHOWN_FIELDS = 20
_NAME_LENGTH = 64
_COUNTED_NAMES = 100
_LOGGED = 10_000


class UnknownFields:
    """Handles the unknown fields of requests, as the server's policy says."""

    def __init__(self, metrics: Metrics, policy: UnknownFieldPolicy) -> None:
        self._metrics = metrics
        self._policy = policy
        self._counted: set[str] = set()
        self._logged: set[tuple[str, str]] = set()

    def check(self, model: type[RequestBody], raw: Any, owner: str) -> list[str]:
        """Return the fields that are ignored; raise `ApiError` if the policy refuses them."""
        if not isinstance(raw, Mapping):
            return []
        found = unknown_fields(model, raw)
        if found and self._policy == "refuse":
            raise _unknown_parameter(model, found[0])
        # A header must not end in a space, so an empty name is shown as quotes.
        shown = [quote(field[:_NAME_LENGTH], safe=".") or '""' for field in found[:_SHOWN_FIELDS]]
        for field in shown:
            self._note(field, owner)
        return shown

    def _note(self, field: str, owner: str) -> None:
        if len(self._counted) < _COUNTED_NAMES:
            self._counted.add(field)
        self._metrics.ignored_fields.labels(field if field in self._counted else "other").inc()
        if (field, owner) not in self._logged and len(self._logged) < _LOGGED:
            self._logged.add((field, owner))
            fields = {"field": field, "key": owner}
            _LOG.warning("a request has an unknown field", extra={"fields": fields})


def _unknown_parameter(model: type[RequestBody], field: str) -> ApiError:
    close = difflib.get_close_matches(field, list(model.model_fields), n=1)
    remedy = f"did you mean {close[0]}?" if close else "leave it out"
    problem = f"there is no field {field!r:.80}; {remedy}"
    return ApiError(400, problem, param=field[:_NAME_LENGTH], code="unknown_parameter")
