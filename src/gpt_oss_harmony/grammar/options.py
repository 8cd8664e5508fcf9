"""The options of a turn, the calls that they allow, and the schemas of the answer."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, get_args

from ..conversation.content import DeveloperContent
from ..conversation.json_field import JsonField
from ..conversation.messages import Conversation, Message, declared_tools
from ..conversation.tool_choice import ToolChoice, ToolMode, named_tools
from ..errors import ConversationError, wrong_type
from .errors import GrammarError
from .json_schema.budget import STEP_LIMIT
from .json_spelling import WHITE_SPACE
from .text_formats import TextFormat


def _tool_name(tool: JsonField) -> str:
    """Read the name of a function, or the type of a built-in tool."""
    function = tool if tool["function"].is_null else tool["function"]
    name = function["name"]
    if name.is_null and tool["type"].value != "function":
        name = tool["type"]
    return name.text()


@dataclass(frozen=True)
class TurnOptions:
    """The restrictions of a turn.

    - `tool_choice`: in the form of the APIs: ``"none"``, ``"auto"``, ``"required"``, an object that
      names a tool, or an object with the allowed tools.
    - `response_format`: in the form of Chat Completions; None uses the format of the conversation.
      The types ``regex``, ``choice``, ``grammar`` and ``structural_tag`` are also supported.
    - `tool_texts`: recipients whose calls contain text in a format instead of JSON.
    - `reasoning`: False forbids reasoning (``analysis`` messages without a recipient).
    - `reasoning_tokens`: the most tokens in each reasoning message, without its header.
    - `reasoning_messages`: the most reasoning messages.
    - `message_limits`: used instead of these two. It has the most tokens of each message before the
      answer or the call, whether reasoning or preamble; its length is the most such messages.
    - `preambles`: False forbids preambles (``commentary`` messages without a recipient).
    - `text_tokens`: the most tokens in each other body of free text: preambles, code, and an answer
      without a format.
    - `on_unsupported`: ``"error"`` raises `GrammarError` for a schema keyword that no grammar can
      enforce. ``"loosen"`` leaves the keyword out, and `turn_constraint` reports it.
    - `strict_tools`: recipients whose schemas are never loosened. Response formats that are marked
      as strict are never loosened either.
    - `whitespace`: the white space in JSON. ``"separators"`` allows a space after a comma and a
      colon, and a line break after a comma; ``"compact"`` none; ``"indented"`` only printed JSON,
      as of ``json.dumps(value, indent=2)``; ``"flexible"`` all of these and other white space of a
      bounded length. The last two need an engine with llguidance 1.8 or newer.
    - `numbers`: the numbers in JSON. ``"64-bit"``: integers of 64 bits with a sign, and other
      numbers that a double can hold. ``"any"``: also ``1e999``. A bound in a schema is not widened.
    - `schema_steps`: the most work to compile the schemas of a turn; the default takes about a
      second. The schemas beyond it are refused, or loosened to their types and property names; if
      that takes as much work again, `StepLimitError` is raised.
    - `canonical`: allow only one spelling of calls and JSON, the one that models write most often:
      ``<|channel|>commentary to=functions.NAME <|constrain|>json<|message|>`` and JSON without
      white space. More tokens are then forced, which saves steps of the model.

    Raises `GrammarError` for a value that is not valid.
    """

    tool_choice: ToolChoice | str | Mapping[str, Any] | None = None
    response_format: Mapping[str, Any] | None = None
    tool_texts: Mapping[str, TextFormat] = field(default_factory=dict)
    reasoning: bool = True
    reasoning_tokens: int | None = None
    reasoning_messages: int | None = None
    message_limits: tuple[int, ...] | None = None
    preambles: bool = True
    text_tokens: int | None = None
    on_unsupported: Literal["error", "loosen"] = "error"
    strict_tools: frozenset[str] = frozenset()
    whitespace: Literal["separators", "compact", "flexible", "indented"] = "separators"
    numbers: Literal["64-bit", "any"] = "64-bit"
    schema_steps: int = STEP_LIMIT
    canonical: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.response_format, (Mapping, type(None))):
            raise GrammarError(
                f"response_format: expected an object, found {self.response_format!r:.80}",
                remedy='write {"type": "json_schema", "name": "answer", "schema": ...}; a pydantic '
                "model has model_json_schema()",
            )
        self.read_tool_choice()
        bounds = [
            (name, getattr(self, name))
            for name in ("reasoning_tokens", "reasoning_messages", "text_tokens", "schema_steps")
        ]
        bounds += [("message_limits", limit) for limit in self.message_limits or ()]
        for name, value in bounds:
            if value is None and name not in ("message_limits", "schema_steps"):
                continue
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise GrammarError(f"{name}: expected a positive integer, found {value!r}")
        if self.message_limits is not None and (self.reasoning_tokens or self.reasoning_messages):
            raise GrammarError(
                "message_limits: reasoning_tokens and reasoning_messages limit the same messages",
                remedy="leave them out",
            )
        if self.on_unsupported not in ("error", "loosen"):
            raise GrammarError(
                f"on_unsupported: {self.on_unsupported!r} is unknown", remedy="use error or loosen"
            )
        if self.numbers not in ("64-bit", "any"):
            raise GrammarError(
                f"numbers: {self.numbers!r:.80} is unknown", remedy="use 64-bit or any"
            )
        if self.whitespace not in WHITE_SPACE:
            raise GrammarError(
                f"whitespace: {self.whitespace!r} is unknown",
                remedy=f"use one of {', '.join(WHITE_SPACE)}",
            )

    @classmethod
    def checked(cls, options: TurnOptions | None) -> TurnOptions:
        """Return the options, or the default ones; raise `TypeError` for anything else."""
        if options is None or isinstance(options, cls):
            return options or cls()
        raise wrong_type("options", "TurnOptions", options, "write TurnOptions(...)")

    def loosens(self, recipient: str | None) -> bool:
        """Return whether the schema of a call (or, for None, of the answer) may be loosened."""
        if self.on_unsupported == "error":
            return False
        if recipient is not None:
            return recipient not in self.strict_tools
        described = self.response_format or {}
        return not dict(described.get("json_schema", described)).get("strict")

    def read_tool_choice(self) -> ToolChoice:
        """Read the choice in any of its forms.

        >>> TurnOptions(tool_choice={"type": "function", "name": "now"}).read_tool_choice()
        ToolChoice(mode='required', names=('now',))
        """
        if isinstance(self.tool_choice, ToolChoice):
            return self.tool_choice
        try:
            mode, tools, _ = named_tools(JsonField(self.tool_choice, "tool_choice"))
            return ToolChoice(mode, None if tools is None else tuple(map(_tool_name, tools)))
        except ConversationError as error:
            given = self.tool_choice if isinstance(self.tool_choice, str) else ""
            close = difflib.get_close_matches(given, get_args(ToolMode), 1)
            remedy = f"did you mean {close[0]}?" if close else ""
            raise GrammarError(str(error), remedy=remedy) from error


# Calls

NO_ARGUMENTS: dict[str, Any] = {"type": "object", "additionalProperties": False}

# Names that a header and the engine's UTF-8 can contain, and that the parser reads back.
_RECIPIENT = re.compile(r"[^\s<|>\ud800-\udfff]+")


class Call(NamedTuple):
    """A call that the model may write; if `schema` is None, its body is free text, such as code."""

    recipient: str
    schema: dict[str, Any] | None

    @property
    def is_function(self) -> bool:
        """Return whether the call is to a function of the developer and not to a built-in tool."""
        return self.recipient.startswith("functions.")


def declared_calls(messages: Iterable[Message]) -> dict[str, Call]:
    """Return the calls of the tools that system and developer messages declare, by recipient.

    >>> from gpt_oss_harmony import Role, SystemContent
    >>> system = Message.from_role_and_content(Role.SYSTEM, SystemContent().with_python_tool())
    >>> declared_calls([system])
    {'python': Call(recipient='python', schema=None)}
    """
    calls: dict[str, Call] = {}
    for recipient, tool in declared_tools(messages).items():
        if not _RECIPIENT.fullmatch(recipient):
            raise GrammarError(
                f"a header cannot contain the name {recipient!r}",
                remedy="rename the tool, without white space, lone surrogates, '<', '|' and '>'",
            )
        schema = None
        if tool is not None:
            schema = NO_ARGUMENTS if tool.parameters is None else tool.parameters
        calls[recipient] = Call(recipient, schema)
    return calls


def chosen_calls(choice: ToolChoice, declared: Mapping[str, Call]) -> list[Call]:
    """Return the calls that `choice` allows; a name may be that of a namespace.

    Raises `GrammarError` if it names an undeclared tool, or requires a call without any tool.
    """
    if choice.mode == "none":
        return []
    names = declared if choice.names is None else choice.names
    chosen = {call.recipient: call for name in names for call in _named_calls(name, declared)}
    if choice.mode == "required" and not chosen:
        raise GrammarError(
            "tool_choice: a call is required, but no tool is declared",
            remedy="declare a tool, or leave tool_choice out",
        )
    return list(chosen.values())


def _named_calls(name: str, declared: Mapping[str, Call]) -> Iterable[Call]:
    for recipient in (name, f"functions.{name}"):
        if recipient in declared:
            return [declared[recipient]]
    members = [call for call in declared.values() if call.recipient.startswith(f"{name}.")]
    if not members:
        raise GrammarError(
            f"tool_choice: {name!r} is not declared",
            remedy=f"declared tools: {', '.join(declared) or 'none'}",
        )
    return members


# Answers

TEXT_TYPES = ("regex", "choice", "grammar", "structural_tag")
"""The types of response formats whose answers are not one JSON value."""


def requested_schemas(conversation: Conversation, options: TurnOptions) -> list[tuple[str, object]]:
    """Return the JSON Schemas of the options, or else of the prompt, each after its pointer.

    The answer must follow one of them. There are none for free text.

    >>> options = TurnOptions(response_format={"type": "json_object"})
    >>> requested_schemas(Conversation.from_messages([]), options)
    [('#', {'type': 'object'})]
    """
    response_format = options.response_format
    if response_format is None:
        return [
            (f"response_formats/{name}#", requested.json_schema)
            for message in conversation.messages
            for item in message.content
            if isinstance(item, DeveloperContent)
            for name, requested in (item.response_formats or {}).items()
        ]
    kind = response_format.get("type")
    if kind == "text" or kind in TEXT_TYPES:
        return []
    if kind == "json_object":
        return [("#", {"type": "object"})]
    if kind != "json_schema":
        if kind in ("object", "array") or (kind is None and "properties" in response_format):
            raise GrammarError(
                "response_format: this is a schema",
                remedy='write {"type": "json_schema", "name": "answer", "schema": ...}',
            )
        raise GrammarError(
            f"response_format: the type {kind!r:.80} is unknown",
            remedy=f"use text, json_object, json_schema, {', '.join(TEXT_TYPES)}",
        )
    fields = response_format.get("json_schema", response_format)
    if not isinstance(fields, Mapping) or not isinstance(fields.get("schema"), (Mapping, bool)):
        raise GrammarError("response_format: json_schema has no schema", remedy="add a schema")
    return [("response_format#", fields["schema"])]
