"""The settings of a server, each declared once.

A setting's type, default, bounds and meaning stand in its field. `harmony serve` makes an option of
each setting that has a meaning, and so a variable and a key of the settings file.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from typing import Any, Literal, NamedTuple

from ..apis.current_date import TODAY

_DAY = 24 * 60 * 60  # seconds


class Setting(NamedTuple):
    """What is declared beside a field: its meaning, its values or its least number.

    `off` is the word that stands for None. A setting without a meaning has another form on the
    command line, or none.
    """

    help: str = ""
    choices: tuple[str, ...] = ()
    least: int | None = None
    off: str | None = None


def _setting(default: Any, help: str = "", **more: Any) -> Any:
    return field(default=default, metadata={"setting": Setting(help, **more)})


@dataclass(frozen=True)
class Settings:
    """The settings of a server.

    ``harmony serve --help`` describes each; some have another form here:

    - `model_names` is empty for the engine's own name. `database`: None keeps everything in memory
      until the server ends. `key_file`: None uses a key that is lost when the server ends.
    - `api_keys`: accepted keys in addition to those in the store.
    - `current_date`: ``today`` (UTC), a date as ``YYYY-MM-DD``, or None.
    - `max_stored_bytes`, `keep_days`: None is no limit.
    - `max_request_bytes`: the most bytes of a request's body. `head_seconds`, `body_seconds`: the
      time limits for the head and the body of a request; a large body has more time.
    - `shutdown_seconds`: the time that running requests have to end at shutdown.

    Raises `ValueError` for a number that is too small.
    """

    model_names: tuple[str, ...] = ()
    database: str | None = None
    key_file: str | None = None
    api_keys: tuple[str, ...] = ()
    allowed_hosts: tuple[str, ...] = ()
    allowed_origins: tuple[str, ...] = ()
    open_to_everyone: bool = _setting(
        False,
        "answer everyone who reaches the address, without API keys: they can use the model and its "
        "tools, and read what is stored",
    )
    grammar: bool = _setting(
        True, "constrain tool calls and JSON answers; without it they may be invalid"
    )
    inspector: bool = _setting(True, "serve the inspector, the page at /")
    vllm_metrics: bool = _setting(
        False, "give the metrics vLLM's names as well, for dashboards that know only those"
    )
    trace_contents: bool = _setting(
        False,
        "put what was said into the spans of OpenTelemetry: whoever reads the traces reads it",
    )
    current_date: str | None = TODAY
    event_names: Literal["openai", "open-responses"] = _setting(
        "openai",
        "the names of events about reasoning; OpenAI's SDKs always get those of OpenAI",
        choices=("openai", "open-responses"),
    )
    repetition: int | None = _setting(
        512,
        "end a completion whose last N tokens only repeat those before them, or off",
        least=2,
        off="off",
    )
    json_whitespace: Literal["separators", "compact", "indented", "flexible"] = _setting(
        "separators",
        "the white space in calls and JSON answers",
        choices=("separators", "compact", "indented", "flexible"),
    )
    schema_steps: int | None = _setting(
        None,
        "the most work to compile the schemas of a request; the default takes about a second",
        least=1,
    )
    close_in_time: bool = _setting(
        False,
        "end calls and JSON answers within the limit on tokens, with a model in this process",
    )
    mend_arguments: bool = _setting(
        False,
        "mend arguments of calls that are nearly JSON; calls are then sent when they are complete",
    )
    unknown_fields: Literal["ignore", "refuse"] = _setting(
        "ignore",
        "what to do with fields of requests that no API has; ignored ones are listed in the header "
        "Harmony-Ignored",
        choices=("ignore", "refuse"),
    )
    missing_tools: Literal["refuse", "ignore"] = _setting(
        "refuse",
        "what to do with requested tools that nobody runs, such as a search without --browser; "
        "ignored ones are listed in the header Harmony-Ignored",
        choices=("refuse", "ignore"),
    )
    attachments: Literal["refuse", "note"] = _setting(
        "refuse",
        "what to do with images and other files that the model cannot read, in messages by users: "
        "refuse them, or put a note in their place and list them in the header Harmony-Ignored",
        choices=("refuse", "note"),
    )
    context_length: int | None = _setting(
        None,
        "the most tokens of prompt and answer together (default: the engine's limit, which is "
        "4,096 for a model on the CPU)",
        least=1,
    )
    max_running: int = _setting(16, "the most requests that run at the same time", least=1)
    max_waiting: int = _setting(
        64, "the most requests that wait; further ones are refused", least=0
    )
    max_tool_calls: int = _setting(
        100, "the most calls of the server's own tools in one response", least=0
    )
    max_stored_bytes: int | None = _setting(4 * 1024**3, least=1)
    keep_days: float | None = 30
    max_request_bytes: int = _setting(16 * 1024 * 1024, least=1)
    head_seconds: float = 10
    body_seconds: float = 30
    shutdown_seconds: float = 30

    def __post_init__(self) -> None:
        for name, setting in declared_settings():
            value, least = getattr(self, name), setting.least
            if value is None or least is None:
                continue
            if not isinstance(value, int) or value < least:
                raise ValueError(f"{name} must be an integer from {least}, not {value!r}")

    def expires_at(self, created_at: int) -> int | None:
        """Return the time at which data of that age is deleted, in seconds since 1970."""
        return None if self.keep_days is None else created_at + round(self.keep_days * _DAY)


def declared_settings() -> Iterator[tuple[str, Setting]]:
    """Yield the settings with what is declared beside them, by the names of their fields."""
    for each in fields(Settings):
        if "setting" in each.metadata:
            yield each.name, each.metadata["setting"]
