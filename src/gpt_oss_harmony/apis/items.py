"""The items of a turn: what every API makes of the model's messages, decided once.

A turn is written as events, in this order::

    (ItemBegun, ItemText..., ItemEnded)..., TurnEnded

`ItemRules.begin` is the only place that decides what a message is: reasoning, a text for the user,
or a call, and of which tool. `gpt_oss_harmony.apis.reader` makes the events, and the writer of each
API puts them into the API's words.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from typing_extensions import TypedDict  # pydantic needs that of Python 3.12

from ..conversation.messages import NOT_TOOLS, Message, is_reasoning
from ..conversation.tool_namespaces import namespace_of
from ..engines.engine import FinishReason
from ..parsing.recovery import Recovery

if TYPE_CHECKING:  # it needs the extra `grammar`
    from ..grammar import Violation

NewId: TypeAlias = "Callable[[str], str]"
"""A function that makes an id with a prefix such as ``msg``."""


class ItemKind(str, Enum):
    """The kinds of items: three kinds of text, and kinds of calls.

    A `SERVER_CALL` calls a tool that the server runs; `call_item` describes its item. A
    `CLIENT_CALL` calls one of `CLIENT_TOOLS`.
    """

    REASONING = "reasoning"
    COMMENTARY = "commentary"
    FINAL_ANSWER = "final_answer"
    FUNCTION_CALL = "function_call"
    CUSTOM_TOOL_CALL = "custom_tool_call"
    SERVER_CALL = "server_call"
    CLIENT_CALL = "client_call"
    MCP_APPROVAL_REQUEST = "mcp_approval_request"

    @cached_property
    def is_message(self) -> bool:
        """Return whether the item is text for the user; its value is then the phase."""
        return self in (ItemKind.COMMENTARY, ItemKind.FINAL_ANSWER)

    @cached_property
    def is_call(self) -> bool:
        """Return whether the item calls a tool."""
        return not self.is_message and self is not ItemKind.REASONING

    @cached_property
    def is_of_server(self) -> bool:
        """Return whether the item calls a tool of the server."""
        return self in (ItemKind.SERVER_CALL, ItemKind.MCP_APPROVAL_REQUEST)


# Events


class ItemBegun(NamedTuple):
    """An item has begun: the header of its message has been read.

    - `position`: the place among the items of the turn, which all events of the item have.
    - `recipient`: that of the message; `name`, `namespace`: the called function, and its namespace
      unless that is ``functions``. None if the item is no call.
    - `call_id`: the id of a call that the client answers.
    - `is_hidden`: the client asked to see no reasoning.
    - `is_text`: a call of a custom tool whose body is plain text instead of JSON.
    """

    position: int
    kind: ItemKind
    recipient: str | None = None
    name: str | None = None
    namespace: str | None = None
    call_id: str | None = None
    is_hidden: bool = False
    is_text: bool = False

    @property
    def full_name(self) -> str:
        """The called name for APIs without namespaces: outside `functions`, the recipient."""
        return f"{self.namespace}.{self.name}" if self.namespace else self.name or ""


class ItemText(NamedTuple):
    """Text of an item as clients get it; `logprobs` are those of the tokens since the last text.

    A raw completion, which has no items, has the ids of its `tokens`, too; `is_last` says that its
    end follows.
    """

    position: int
    text: str
    logprobs: tuple[TokenLogprob, ...] = ()
    tokens: tuple[int, ...] = ()
    is_last: bool = False


class ItemEnded(NamedTuple):
    """An item has ended with this whole text; `is_complete` is False if the tokens ended inside it.

    `message` is a `SampledMessage` unless it was repaired.
    """

    position: int
    text: str
    message: Message
    is_complete: bool = True


class Usage(NamedTuple):
    """Numbers of tokens; cached tokens are part of the input, the last two of the output."""

    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    reasoning_tokens: int = 0
    forced_tokens: int = 0

    def plus(self, other: Usage) -> Usage:
        """Add the usage of a further turn."""
        return Usage(*(mine + its for mine, its in zip(self, other, strict=True)))


class Ending(Enum):
    """How a turn ended. Messages and Responses have words of their own for it."""

    ANSWER = "the model ended its turn"
    CALL = "the model called a tool"
    STOP_TEXT = "a stop text was found"
    LIMIT = "the turn has as many tokens as it may have"
    CONTEXT = "the context is full"
    REPETITION = "the model ran in circles, and the server ended the turn"

    @property
    def is_early(self) -> bool:
        """Whether something else than the model, or a stop text, ended the turn."""
        return self in (Ending.LIMIT, Ending.CONTEXT, Ending.REPETITION)

    @property
    def finish_reason(self) -> Literal["stop", "length"]:
        """The reason in Completions and Ollama's API, and in Chat Completions without a call."""
        return "length" if self.is_early else "stop"


class RepetitionDetail(TypedDict, total=False):
    """The reason why the server ended a turn early; clients get it as a limit on tokens."""

    stop_reason: Literal["repetition"]


def repetition_detail(ending: Ending) -> RepetitionDetail:
    """Return the field that names a repetition in an answer; none for any other ending."""
    return {"stop_reason": "repetition"} if ending is Ending.REPETITION else {}


class TurnEnded(NamedTuple):
    """The end of the turn, and everything that was sampled.

    `violations` are those of schemas that the grammar does not enforce in full. `stop_text` is the
    stop text that ended the turn, if one did.
    """

    ending: Ending
    usage: Usage = Usage()
    tokens: Sequence[int] = ()
    recoveries: Sequence[Recovery] = ()
    violations: tuple[Violation, ...] = ()
    stop_text: str | None = None

    @property
    def reason(self) -> FinishReason:
        """The reason as an engine names it."""
        return FinishReason.LENGTH if self.ending.is_early else FinishReason.STOP


ItemEvent: TypeAlias = "ItemBegun | ItemText | ItemEnded | TurnEnded"


# Log-probabilities

LEAST_LOGPROB = -9999.0
"""The logarithm of a probability of zero in all APIs: JSON has no infinity."""


def shown_logprob(value: float) -> float:
    """Return a log-probability as JSON can write it; that of broken logits may be no number.

    >>> shown_logprob(-0.5), shown_logprob(float("-inf")), shown_logprob(float("nan"))
    (-0.5, -9999.0, -9999.0)
    """
    return value if LEAST_LOGPROB < value < 1 else LEAST_LOGPROB


class TokenJson(TypedDict):
    """A token, its bytes as numbers, and the natural logarithm of its probability."""

    token: str
    bytes: list[int]
    logprob: float


class LogprobJson(TokenJson):
    """A token of the content, and the likeliest tokens in its place."""

    top_logprobs: list[TokenJson]


class TokenLogprob(NamedTuple):
    """A token of a text: its bytes, its log-probability, and the likeliest tokens in its place.

    `offset` is the number of characters before it. The first token of a prompt has no probability.
    """

    token: int
    data: bytes
    logprob: float | None
    top: tuple[tuple[int, bytes, float], ...] = ()
    offset: int = 0

    def to_json(self) -> LogprobJson:
        """Write the token as Chat Completions and Responses do.

        >>> TokenLogprob(3686, b"hi", -0.5).to_json()
        {'token': 'hi', 'bytes': [104, 105], 'logprob': -0.5, 'top_logprobs': []}
        """
        token, *top = (
            TokenJson(
                token=data.decode("utf-8", errors="replace"),
                bytes=list(data),
                logprob=shown_logprob(logprob or 0.0),
            )
            for _, data, logprob in ((self.token, self.data, self.logprob), *self.top)
        )
        return {**token, "top_logprobs": top}


# The decision


@dataclass(frozen=True)
class ItemRules:
    """What a request says about the items of its turn.

    - `custom_tools`: the recipients of custom tools, whose input is text; `text_tools`: those of
      them that get plain text instead of JSON.
    - `server_tools`: the names of the server's own tools: built-in tools, and those of MCP servers.
      `approvals`: the recipients whose calls a client must approve.
    - `client_tools`: the recipients of `CLIENT_TOOLS`.
    - `namespaces`: those of the developer's tools.
    - `shows_reasoning`: whether the client sees the reasoning.

    >>> ItemRules().begin(0, "analysis", None).kind
    <ItemKind.REASONING: 'reasoning'>
    >>> begun = ItemRules(namespaces={"files"}).begin(1, "commentary", "files.ls", str)
    >>> begun.kind.value, begun.name, begun.namespace, begun.call_id
    ('function_call', 'ls', 'files', 'call')
    """

    custom_tools: Collection[str] = ()
    text_tools: Collection[str] = ()
    server_tools: Collection[str] = ()
    approvals: Collection[str] = ()
    namespaces: Collection[str] = ()
    shows_reasoning: bool = True
    client_tools: Collection[str] = ()

    def begin(
        self,
        position: int,
        channel: str | None,
        recipient: str | None,
        new_id: NewId | None = None,
        *,
        id_prefix: str = "call",
    ) -> ItemBegun:
        """Begin the item of a message by the assistant; only its header decides what it is.

        A message with a recipient is a call on any channel. A call of an undeclared tool is a
        function call, so the client can report that the function does not exist.
        """
        if is_reasoning(channel, recipient):
            return ItemBegun(position, ItemKind.REASONING, is_hidden=not self.shows_reasoning)
        if recipient is None or recipient in NOT_TOOLS:
            is_commentary = channel == "commentary"
            return ItemBegun(
                position, ItemKind.COMMENTARY if is_commentary else ItemKind.FINAL_ANSWER
            )
        name, namespace = called_name(recipient, self.namespaces)
        if recipient in self.custom_tools:
            kind = ItemKind.CUSTOM_TOOL_CALL
        elif recipient in self.client_tools:
            kind = ItemKind.CLIENT_CALL
        elif namespace_of(recipient) not in self.server_tools:
            kind = ItemKind.FUNCTION_CALL
        elif recipient in self.approvals:
            kind = ItemKind.MCP_APPROVAL_REQUEST
        else:
            kind = ItemKind.SERVER_CALL
        call_id = None if new_id is None or kind.is_of_server else new_id(id_prefix)
        is_text = recipient in self.text_tools
        return ItemBegun(position, kind, recipient, name, namespace, call_id, is_text=is_text)


def called_name(recipient: str, namespaces: Collection[str] = ()) -> tuple[str, str | None]:
    """Return the name of a called function, and its namespace unless that is `functions`.

    The name of an undeclared tool is its whole recipient.

    >>> called_name("functions.now"), called_name("files.ls", {"files"}), called_name("python")
    (('now', None), ('ls', 'files'), ('python', None))
    """
    function = recipient.removeprefix("functions.")
    if function and function != recipient:
        return function, None
    # One namespace may be called `a` and another `a.b`.
    for namespace in sorted(namespaces, key=len, reverse=True):
        name = recipient.removeprefix(f"{namespace}.")
        if name and name != recipient:
            return name, namespace
    return recipient, None


# Items that a server keeps


class HistoryItem(NamedTuple):
    """An item of the Responses API, with fields that only the server stores.

    - `tokens`: the sampled tokens of the item, if they are stored.
    - `messages`: for a call of a built-in tool that the server ran, the call and the tool's
      messages, as the JSON of harmony messages.
    """

    item: Mapping[str, Any]
    tokens: tuple[int, ...] | None = None
    messages: Sequence[Mapping[str, Any]] = ()


Decrypt: TypeAlias = "Callable[[str], Sequence[HistoryItem] | None]"
"""A function that decrypts `encrypted_content`; None if this server did not encrypt the text."""
