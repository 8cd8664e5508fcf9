"""The common fields and checks of all request bodies, and errors that name a field."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias, TypeVar, get_args

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    ValidationError,
    WithJsonSchema,
    model_validator,
)
from pydantic_core import CoreSchema
from pydantic_core.core_schema import no_info_before_validator_function

from ..conversation.json_field import invalid_value
from ..engines.engine import Sampling
from ..errors import ConversationError

_Body = TypeVar("_Body", bound="RequestBody")

Metadata: TypeAlias = Annotated[
    dict[Annotated[str, Field(max_length=64)], Annotated[str, Field(max_length=512)]],
    Field(max_length=16),
]
"""Data for the client's own use: up to 16 keys (of 64 characters) with texts (of 512)."""


MANY_ERRORS = 1000
"""The most errors that are listed; more would take seconds, during which no other thread runs."""

NESTING_LIMIT = 200
"""The deepest nesting of a field: Python writes JSON by recursion."""


class Ignored(NamedTuple):
    """Marks a field that changes nothing, for a reason.

    `accepted` are the values that ask for what happens anyway.
    """

    reason: str
    accepted: tuple[Any, ...] = ()

    def __get_pydantic_json_schema__(self, schema: Any, handler: Any) -> dict[str, Any]:
        return {**handler(schema), "description": f"Changes nothing: {self.reason}."}


EMPTY: tuple[Any, ...] = (None, False, 0, "", [], {})
"""Values that request nothing: `min_tokens: 0` is the same as no such field."""


@dataclass(frozen=True, eq=False)
class Refused:
    """Marks a field that a request must not use; its error is the `problem`, without backquotes.

    The `accepted` values mean nothing, and are read as null. By default, the description in the
    API's document is the end of the problem.
    """

    problem: str
    accepted: tuple[Any, ...] = EMPTY
    description: str = ""

    def check(self, value: Any) -> None:
        """Raise `ValueError` for a value that means something."""
        # In Python, true equals 1, which some fields accept.
        if value is True or value not in self.accepted:
            raise ValueError(self.problem.replace("`", ""))

    def __get_pydantic_core_schema__(self, kind: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return no_info_before_validator_function(self.check, handler(kind))

    def __get_pydantic_json_schema__(self, schema: Any, handler: Any) -> dict[str, Any]:
        remedy = self.problem.rpartition("; ")[2]
        described = self.description or f"{remedy[0].upper()}{remedy[1:]}."
        return {"enum": [*self.accepted], "description": described}


def elsewhere(remedy: str, accepted: tuple[Any, ...] = EMPTY) -> Refused:
    """Mark a field of another API; the `remedy` names the field of this one."""
    return Refused(f"this API has no such field; {remedy}", accepted)


class RequestBody(BaseModel):
    """A request. Unknown fields are ignored, and null is the same as a missing field."""

    # Strict, because pydantic would read the text "0.5" as a number, and 1 as true.
    model_config = ConfigDict(extra="ignore", strict=True, allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _can_be_written_again(cls, data: Any) -> Any:
        for name, value in data.items() if isinstance(data, dict) else ():
            if is_deeper(value, NESTING_LIMIT):
                raise ValueError(f"{name} is nested deeper than {NESTING_LIMIT} levels; flatten it")
        return data


class MetadataUpdate(RequestBody):
    """The new metadata, which replace the old."""

    metadata: Metadata | None


def read_body(body: type[_Body], raw: object) -> _Body:
    """Read a request from parsed JSON; raise `ConversationError`, which names the wrong field.

    >>> from gpt_oss_harmony.apis import ChatRequest
    >>> read_body(ChatRequest, {"messages": [{}], "n": 0})
    Traceback (most recent call last):
    gpt_oss_harmony.errors.ConversationError: n: expected a number from 1, found 0
    """
    if not isinstance(raw, Mapping):
        raise ConversationError(f"expected an object, found {type(raw).__name__}")
    try:
        return body.model_validate(raw)
    except ValidationError as error:
        if error.error_count() > MANY_ERRORS:
            problem = f"the request has {error.error_count():,} values that are not valid"
            raise ConversationError(problem) from None
        path, problem = validation_problem(error.errors(include_url=False))
        raise ConversationError(problem, field=path) from None


def ignored_field(body: type[BaseModel], name: str) -> Ignored | None:
    """Return why a field of a body changes nothing; None if it is not known to."""
    field = body.model_fields.get(name)
    marks = () if field is None else field.metadata
    return next((mark for mark in marks if isinstance(mark, Ignored)), None)


def unknown_fields(body: type[BaseModel], raw: Mapping[str, Any], path: str = "") -> list[str]:
    """List the fields of a request that its API does not have, or that are `Ignored`.

    Null counts as missing.

    >>> from gpt_oss_harmony.apis import ChatRequest
    >>> unknown_fields(ChatRequest, {"temprature": 0, "reasoning": {"effrot": "low"}})
    ['temprature', 'reasoning.effrot']
    """
    found = []
    for name, value in raw.items():
        field = body.model_fields.get(name)
        mark = ignored_field(body, name)
        if field is None or mark is not None:
            is_accepted = value is None or (mark is not None and value in mark.accepted)
            found += [] if is_accepted else [f"{path}{name}"]
        elif isinstance(value, Mapping):
            for part in get_args(field.annotation):
                if isinstance(part, type) and issubclass(part, BaseModel):
                    found += unknown_fields(part, value, f"{path}{name}.")
    return found


def validation_problem(errors: Sequence[Mapping[str, Any]]) -> tuple[str, str]:
    """Return the path of the first field that pydantic rejects, and the problem.

    >>> from gpt_oss_harmony.apis import ChatRequest
    >>> read_body(ChatRequest, {"mesages": []})
    Traceback (most recent call last):
    gpt_oss_harmony.errors.ConversationError: messages: the field is missing, but there is 'mesages'
    """
    first = errors[0]
    if first["type"] == "missing" and not first["loc"]:
        return "", "the request has no body; send a JSON object"
    return field_path(first["loc"]), invalid_value(first)


def field_path(location: Sequence[str | int]) -> str:
    """Write a location as a JSON path.

    >>> field_path(("input", 0, "content"))
    'input[0].content'
    """
    path = ""
    for part in location:
        if isinstance(part, int):
            path += f"[{part}]"
        elif part != "[key]":  # pydantic's mark for the key of an object itself
            path += f".{part}" if path else part
    return path


def is_deeper(value: object, limit: int) -> bool:
    """Return whether lists and objects are nested deeper than `limit`."""
    # Level by level, because recursion would fail at the very depth that is looked for.
    level = [value]
    for _ in range(limit + 1):
        level = [
            inner
            for outer in level
            if isinstance(outer, (dict, list))
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, (dict, list))
        ]
        if not level:
            return False
    return True


# An excluded bound, because it is a float as well: programs that read the limits of the API's
# document as floats would read 2**63 - 1 as 2**63.
_SEEDS = 2**63


_StopText: TypeAlias = Annotated[str, Field(min_length=1)]

StopTexts: TypeAlias = Annotated[
    list[_StopText],
    Field(max_length=16),
    BeforeValidator(lambda value: [value] if isinstance(value, str) else value),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string", "minLength": 1},
                {"type": "array", "items": {"type": "string", "minLength": 1}, "maxItems": 16},
            ]
        }
    ),
]
"""One text, or a list of texts."""


Whitespace: TypeAlias = Literal["separators", "compact", "indented", "flexible"]
"""The white space in JSON, as in `gpt_oss_harmony.grammar.TurnOptions`."""


class SamplingFields(RequestBody):
    """What all requests for an answer have; the server has defaults for missing settings."""

    model: str | None = None
    stream: bool | None = Field(
        default=None, description="Whether to answer with server-sent events."
    )
    temperature: float | None = Field(default=None, ge=0, le=2, description="0 is greedy.")
    top_p: float | None = Field(default=None, ge=0, le=1)
    top_k: int | None = Field(default=None, ge=-1, description="0 and -1 keep all tokens.")
    min_p: float | None = Field(default=None, ge=0, le=1)
    seed: int | None = Field(default=None, ge=-_SEEDS, lt=_SEEDS)
    frequency_penalty: float | None = Field(default=None, ge=-2, le=2)
    presence_penalty: float | None = Field(default=None, ge=-2, le=2)
    repetition_penalty: float | None = Field(default=None, ge=0.01, le=100)
    stop: StopTexts | None = Field(
        default=None, description="Texts that end the answer; the answer does not contain them."
    )
    close_in_time: bool | None = Field(
        default=None,
        description="Whether calls and JSON answers end within the limit on tokens.",
    )

    def settings(
        self, defaults: Sampling, *, max_tokens: int | None, logprobs: int | None
    ) -> Sampling:
        """Override the defaults with the settings of the request."""
        requested = {name: getattr(self, name) for name in _SETTINGS}
        requested |= {"max_tokens": max_tokens, "logprobs": logprobs}
        if self.top_k == -1:
            requested["top_k"] = 0
        return replace(defaults, **{k: v for k, v in requested.items() if v is not None})

    @property
    def stop_texts(self) -> tuple[str, ...]:
        """The texts that end the answer."""
        return tuple(self.stop or ())

    @property
    def is_short_chat(self) -> bool:
        """Return whether the request is a short conversation of plain texts, and nothing else.

        Its prompt is rendered in less than a millisecond, without reading anything that is stored.
        Tools, schemas, files, and everything that is named by an id may take longer.
        """
        fields = vars(self)
        if not self.model_fields_set <= _SIMPLE_FIELDS:
            return False
        length = 0
        for name in ("input", "messages", "instructions", "system"):
            said = fields.get(name) or ()
            for item in [{"content": said}] if isinstance(said, str) else said:
                content = item.get("content")
                if not (item.keys() <= {"type", "role", "content"} and isinstance(content, str)):
                    return False
                length += len(content) + _ITEM
                if length > _SHORT:  # of a long chat, no more is read
                    return False
        return True


_SETTINGS = tuple(SamplingFields.model_fields.keys() - {"model", "stream", "stop"})
_SHORT = 4096  # characters of text
_ITEM = 100  # characters that an item counts for, besides its text
_SIMPLE_FIELDS = frozenset(SamplingFields.model_fields) | {
    *("input", "messages", "instructions", "system", "reasoning", "reasoning_effort"),
    *("max_tokens", "max_output_tokens", "max_completion_tokens", "n", "stop_sequences"),
    *("store", "stream_options", "metadata", "user", "prompt_cache_key"),
    *("safety_identifier", "service_tier"),
}


# Fields of several APIs

Effort: TypeAlias = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]
"""The efforts that clients send; the model has only low, medium and high."""


class RequestSettings(BaseModel):
    """An object inside a request. Unknown fields are ignored."""

    model_config = ConfigDict(extra="ignore", strict=True, allow_inf_nan=False)


class ReasoningSettings(RequestSettings):
    """The amount of reasoning, and the reasoning that the client sees."""

    effort: Effort | None = None
    summary: Literal["auto", "concise", "detailed"] | None = Field(
        default=None, description="Whether reasoning has a summary, which is its first sentences."
    )
    generate_summary: Literal["auto", "concise", "detailed"] | None = Field(
        default=None, description="Another name for `summary`."
    )
    max_tokens: int | None = Field(
        default=None, ge=0, description="The most tokens of reasoning in a turn."
    )
    enabled: bool | None = Field(default=None, description="False forbids reasoning.")
    exclude: bool | None = Field(default=None, description="True hides the reasoning.")


class StreamOptions(RequestSettings):
    """Options of a stream."""

    include_usage: bool | None = Field(default=None, description="Send the usage in a last chunk.")
    include_obfuscation: Annotated[
        bool | None, Ignored("events are as long as their texts", accepted=(False,))
    ] = None


Unsupported: TypeAlias = Annotated[
    Any,
    Refused(
        "this server does not support this field; leave it out",
        description="Not supported: leave it out.",
    ),
]
"""A field that would change the answer but that no engine supports."""

OneAnswer: TypeAlias = Annotated[
    Any, elsewhere("send a request for each answer", accepted=(*EMPTY, 1))
]
"""The number of answers in an API that has one; some clients always send 1."""

NoBias: TypeAlias = Annotated[Any, Refused("no engine supports this setting; leave it out")]
"""The biases of tokens."""

OWNER = "the owner of a request is its API key"
"""The reason why the other names of a client change nothing."""

ServiceTier: TypeAlias = Annotated[
    str | None, Ignored("there is one tier", accepted=("auto", "default"))
]
"""The tier of a request, of which there is one."""

PromptCacheRetention: TypeAlias = Annotated[
    Literal["in_memory", "in-memory", "24h"] | None,
    Ignored("the engine's cache is in memory", accepted=("in_memory", "in-memory")),
]
"""How long a prompt is cached, which the engine decides."""


ParallelCalls: TypeAlias = Annotated[
    bool | None, Ignored("the model writes one call in a turn", accepted=(False,))
]
"""Whether a turn may have several calls."""


class ConstraintFields(SamplingFields):
    """Constraints on the answer and the reasoning, as in vLLM and similar servers."""

    reasoning: ReasoningSettings | None = None
    reasoning_effort: Effort | None = None
    thinking_token_budget: int | None = Field(
        default=None, ge=-1, description="The most tokens of reasoning in a turn."
    )
    include_reasoning: bool | None = Field(
        default=None, description="False hides the reasoning, in Chat Completions."
    )
    chat_template_kwargs: dict[str, Any] | None = Field(
        default=None, description="`reasoning_effort`, `enable_thinking`."
    )
    structured_outputs: dict[str, Any] | None = Field(
        default=None,
        description="One of `json`, `json_object`, `regex`, `choice`, `grammar`, `structural_tag`.",
        json_schema_extra={
            "properties": {
                name: {}
                for name in ("json", "json_object", "regex", "choice", "grammar", "structural_tag")
            },
            "additionalProperties": {"enum": [None, False]},
        },
    )
    json_whitespace: Whitespace | None = Field(
        default=None, description="The white space in calls and JSON answers."
    )
    guided_json: dict[str, Any] | str | None = None
    guided_regex: str | None = None
    guided_choice: list[str] | None = None
    guided_grammar: str | None = None
    guided_json_object: bool | None = None
    min_tokens: Unsupported = None
    bad_words: Unsupported = None
    allowed_token_ids: Unsupported = None
    stop_token_ids: Unsupported = None
    ignore_eos: Unsupported = None
    use_beam_search: Unsupported = None
    truncate_prompt_tokens: Unsupported = None
    prompt_logprobs: Unsupported = None
    chat_template: Unsupported = None
    documents: Unsupported = None
    logit_bias: NoBias = None
