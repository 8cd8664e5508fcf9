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
    "max_stored_bytes": 1,
    "repetition": 2,
    "schema_steps": 1,
}


@dataclass(frozen=True)
class Settings:
    """The settings of a server.

    - `model_names`: the names of the model that requests may use. The first is in responses to
      requests without a name. If empty, the engine's own name is used.
    - `database`: the URL of the store, ``sqlite:///PATH`` or ``postgresql://...``. None keeps
      responses in memory until the server ends.
    - `key_file`: the file with the key that encrypts reasoning; it is made if it is missing. None
      uses a key that is lost when the server ends.
    - `api_keys`: accepted keys in addition to those in the store.
    - `allowed_hosts`: host names of a server without keys, in addition to ``localhost``.
    - `allowed_origins`: web pages that may use the server, such as ``https://app.example``.
    - `open_to_everyone`: whether a server without keys answers at addresses that other machines can
      reach.
    - `grammar`: whether a grammar constrains turns with tools or a response format.
    - `json_whitespace`: the white space in calls and JSON answers, unless a request names another
      (see `gpt_oss_harmony.grammar.TurnOptions`).
    - `schema_steps`: the most work to compile one schema; None is the default of `TurnOptions`.
    - `close_in_time`: whether turns end within the limit on tokens, so that it cuts no call and no
      JSON answer. Engines behind a server ignore this.
    - `current_date`: the date in prompts: ``today`` (UTC), a date as ``YYYY-MM-DD``, or None.
    - `inspector`: whether the inspector's page is at ``/``.
    - `event_names`: the names of reasoning events, those of OpenAI or of Open Responses. OpenAI's
      SDKs always get those of OpenAI, as their helpers fail with others.
    - `unknown_fields`: whether requests with unknown fields are answered without them, or refused.
    - `repetition`: a turn ends when its last tokens, of this number, repeat those before (see
      `RepetitionDetector`); None lets it repeat itself.
    - `reasoning_summaries`: how requested summaries are made: from sentences of the reasoning, or
      by the model, with one more short completion for each.
    - `context_length`: the most tokens of a prompt with its output; None is the engine's limit.
    - `max_running`, `max_waiting`: the most requests at the engine, and in the queue.
    - `max_request_bytes`: the most bytes of a request's body.
    - `head_seconds`, `body_seconds`: the time limits for the head and the body of a request; a
      large body has more time.
    - `max_tool_calls`: the most calls of the server's own tools in one response; a request may set
      a lower limit.
    - `max_stored_bytes`: the most bytes that one API key may have stored: files, containers,
      responses, conversations and chat completions together. None is no limit.
    - `keep_days`: days after which stored responses are deleted; None keeps them.
    - `shutdown_seconds`: the time that running requests have to end at shutdown.

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
    json_whitespace: Literal["separators", "compact", "indented", "flexible"] = "separators"
    schema_steps: int | None = None
    close_in_time: bool = False
    current_date: str | None = TODAY
    inspector: bool = True
    event_names: Literal["openai", "open-responses"] = "openai"
    unknown_fields: Literal["ignore", "refuse"] = "ignore"
    repetition: int | None = 512
    reasoning_summaries: Literal["sentences", "model"] = "sentences"
    context_length: int | None = None
    max_running: int = 16
    max_waiting: int = 64
    max_request_bytes: int = 16 * 1024 * 1024
    head_seconds: float = 10
    body_seconds: float = 30
    max_tool_calls: int = 100
    max_stored_bytes: int | None = 4 * 1024**3
    keep_days: float | None = 30
    shutdown_seconds: float = 30

    def __post_init__(self) -> None:
        for name, least in _LEAST.items():
            value = getattr(self, name)
            if value is not None and (not isinstance(value, int) or value < least):
                raise ValueError(f"{name} must be an integer from {least}, not {value!r}")

    def expires_at(self, created_at: int) -> int | None:
        """Return the time at which data of that age is deleted, in seconds since 1970."""
        return None if self.keep_days is None else created_at + round(self.keep_days * _DAY)
