"""The settings of a server."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ..apis.current_date import TODAY

__all__ = ["Settings"]

_DAY = 24 * 60 * 60  # seconds

_LEAST = {
    "context_length": 1,
    "max_running": 1,
    "max_waiting": 0,
    "max_request_bytes": 1,
    "max_tool_calls": 0,
}


@dataclass(frozen=True)
class Settings:
    """The settings of a server: what it serves, stores and limits.

    - `model_names`: the names that requests may use; the first stands in responses to requests
      that name none. Empty is the engine's own name.
    - `database`: the URL of the store; ``sqlite:///PATH`` or ``postgresql://...``. None keeps
      responses in memory, until the server ends.
    - `key_file`: the file with the key that encrypts reasoning; made where there is none. None
      makes a key that is forgotten when the server ends.
    - `api_keys`: keys that are accepted beside those in the store.
    - `allowed_hosts`: names by which a server without keys may be asked, beside ``localhost``.
    - `allowed_origins`: web pages that may use the server, as ``https://app.example``.
    - `open_to_everyone`: whether a server without keys answers at addresses that others reach.
    - `grammar`: whether turns with tools or a response format are sampled under the grammar.
    - `current_date`: what the model reads: ``today`` (UTC), a date as ``YYYY-MM-DD``, or None.
    - `inspector`: whether the inspector's page is at ``/``.
    - `event_names`: reasoning events as OpenAI's SDKs read them, or as Open Responses names them.
    - `context_length`: the most tokens of a prompt with its output; None is the engine's limit.
    - `max_running`, `max_waiting`: requests at the engine, and in the queue before it.
    - `max_request_bytes`: the size of a request's body.
    - `head_seconds`, `body_seconds`: how long a client may take to send a request; a large body
      has more time.
    - `max_tool_calls`: calls of the server's own tools in one response; a request may allow fewer.
    - `keep_days`: days after which stored responses are deleted; None keeps them.
    - `shutdown_seconds`: how long requests under way may go on when the server is told to end.

    Raises `ValueError` for a number that is too small.
    """

    model_names: tuple[str, ...] = ()
    database: str | None = None
    key_file: str | None = None
    api_keys: tuple[str, ...] = ()
    allowed_hosts: tuple[str, ...] = ()
    allowed_origins: tuple[str, ...] = ()
    open_to_everyone: bool = False
    grammar: bool = True
    current_date: str | None = TODAY
    inspector: bool = True
    event_names: Literal["openai", "open-responses"] = "openai"
    context_length: int | None = None
    max_running: int = 16
    max_waiting: int = 64
    max_request_bytes: int = 16 * 1024 * 1024
    head_seconds: float = 10
    body_seconds: float = 30
    max_tool_calls: int = 100
    keep_days: float | None = 30
    shutdown_seconds: float = 30

    def __post_init__(self) -> None:
        for name, least in _LEAST.items():
            value = getattr(self, name)
            if value is not None and (not isinstance(value, int) or value < least):
                raise ValueError(f"{name} must be an integer from {least}, not {value!r}")

    def expires_at(self, created_at: int) -> int | None:
        """Return when something is deleted that was stored then, in seconds since 1970."""
        return None if self.keep_days is None else created_at + round(self.keep_days * _DAY)
