"""vLLM's harmony parser, with our lenient parser inside.

vLLM makes one parser for each request. It calls `parse` and `parse_delta` for Chat Completions,
`process_chunk` and `flush` for Responses, and `adjust_request` before the prompt is rendered.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import cache, lru_cache
from typing import Any, NamedTuple

from gpt_oss_harmony.conversation.built_in_tools import BUILT_IN_TOOLS, requested_tool
from gpt_oss_harmony.errors import HarmonyError
from gpt_oss_harmony.installation import missing_package
from gpt_oss_harmony.parsing.recovery import Recovery
from gpt_oss_harmony.parsing.state import MendCheck

from .constraint import constrain, schema_check
from .rendering import vllm_message
from .settings import Settings
from .turn import Piece, TurnFollower

__all__ = ["JOINT", "RecoveringParser", "parser_class"]

logger = logging.getLogger("vllm.plugins.harmony")  # vLLM shows the loggers below its own name

JOINT = "\n"
"""The separator between several texts of a turn, and between several pieces of reasoning."""

_LOGGED = 20  # keywords of a request that are left out

_OF_VLLM = {"container": ["container.exec"]}
"""Recipients of tools that only vLLM has, by the type of the tool in a request."""


class VllmTypes(NamedTuple):
    """vLLM's types that its parsers return, and its functions about recipients."""

    message: Any
    segment: Callable[..., Any]
    chunk_result: Callable[..., Any]
    delta_message: Callable[..., Any]
    delta_tool_call: Callable[..., Any]
    delta_function_call: Callable[..., Any]
    function_call: Callable[..., Any]
    structured_outputs: Callable[..., Any]
    is_function_recipient: Callable[[str], bool]
    make_tool_call_id: Callable[[], str]


class RecoveringParser:
    """The methods that replace the methods of vLLM's parser; see `parser_class`."""

    vllm: VllmTypes
    settings = Settings()
    backend: str | None = None
    """The backend with which the server enforces grammars; None until it is known."""

    reasoning_parser: Any
    tool_parser: Any

    def __init__(self, tokenizer: Any, tools: Any = None, *args: Any, **kwargs: Any) -> None:
        super().__init__(tokenizer, tools, *args, **kwargs)  # type: ignore[call-arg]
        self._recipients = frozenset(declared_recipients(tools or ()))
        self._mends: bool | MendCheck = self.settings.mends and schema_check(tools or ())
        self._turn: TurnFollower | None = None
        self._taken = 0  # tokens of all turns
        self._reasoning_tokens = 0  # of the turns that have ended
        self._calls = 0
        self._in_call = False
        self._shown: set[str] = set()  # kinds of text that were already in the stream
        self._in_text: str | None = None  # the kind of the open message

    # Responses

    def process_chunk(self, token_ids: Sequence[int]) -> Any:
        """Parse some tokens of a turn."""
        before = self._counted()
        segments = [self._segment(piece) for piece in self._take(token_ids)]
        return self.vllm.chunk_result(
            segments=segments, reasoning_token_count=self._counted() - before
        )

    def flush(self) -> list[Any]:
        """End the turn; the next tokens begin another one.

        A call that was cut off before its arguments is left out: vLLM streams no call without text.
        """
        return [self._segment(piece) for piece in self._end() if not _is_empty_call(piece)]

    def _segment(self, piece: Piece) -> Any:
        message = piece.completed_message
        theirs = message and vllm_message(message, self.vllm.message)
        return self.vllm.segment(piece.channel, piece.recipient, piece.delta, theirs)

    # Chat Completions

    def parse(
        self,
        model_output: str,
        request: Any,
        enable_auto_tools: bool = False,
        model_output_token_ids: Sequence[int] = (),
    ) -> tuple[str | None, str | None, list[Any] | None]:
        """Parse a whole turn: its reasoning, its content, its calls."""
        reasoning: list[str] = []
        content: list[str] = []
        calls: list[Any] = []
        for piece in (*self._take(model_output_token_ids), *self._end()):
            message = piece.completed_message
            if message is None:
                continue
            text, kind = message.text, self._kind(piece, request)
            if kind == "call":
                name = (piece.recipient or "").removeprefix("functions.")
                arguments = _plain_json(text, message.content_type)
                calls.append(self.vllm.function_call(name=name, arguments=arguments))
            elif text:
                (reasoning if kind == "reasoning" else content).append(text)
        shown = JOINT.join(reasoning) if self.reasoning_parser else ""
        return shown or None, JOINT.join(content) or None, calls or None

    def parse_delta(
        self,
        delta_text: str,
        delta_token_ids: list[int],
        request: Any,
        prompt_token_ids: list[int] | None = None,
        *,
        finished: bool,
    ) -> Any:
        """Parse some tokens of a turn; return what they add, or None for nothing."""
        texts = {"reasoning": "", "content": ""}
        calls: list[Any] = []
        for piece in (*self._take(delta_token_ids), *(self._end() if finished else ())):
            if piece.completed_message is not None:
                self._in_call, self._in_text = False, None
                continue
            kind = self._kind(piece, request)
            if kind == "call":
                self._add_call(piece, calls)
            elif piece.delta:
                texts[kind] += self._joint(kind) + piece.delta
        if finished:
            self._calls = 0
            self._shown.clear()
        is_shown = self.reasoning_parser and request.include_reasoning
        reasoning, content = texts["reasoning"] if is_shown else "", texts["content"]
        if not (reasoning or content or calls):
            return None
        delta = self.vllm.delta_message()
        if reasoning:
            delta.reasoning = reasoning
        if content:
            delta.content = content
        if calls:
            delta.tool_calls = calls
        return delta

    def count_reasoning_tokens(self, token_ids: Sequence[int]) -> int:
        """Count the tokens of reasoning, and those of calls on ``commentary``, as vLLM does."""
        if len(token_ids) == self._taken:
            return self._counted()
        turn = TurnFollower(self._recipients)
        turn.take(token_ids)
        return turn.reasoning_tokens

    # Before the turn

    def adjust_request(self, request: Any) -> Any:
        """Constrain the whole turn; if that is impossible, leave the constraint to vLLM.

        This takes up to some seconds; see `patches`. Raises `ValueError`, which vLLM answers with
        the status 400, for a seed on the CPU and for schemas that are too much work.
        """
        _refuse_seed_on_cpu(request)
        level = getattr(self, "tool_strict_level", None)  # 0 derives it from the request
        is_strict = bool(level) or request.parallel_tool_calls is False
        try:
            grammar = constrain(request, self.settings, self.backend, is_strict=is_strict)
        except (HarmonyError, ImportError) as error:
            text = str(error)
            if isinstance(error, ImportError):
                text = missing_package("grammars need", error, "grammar")
            _log_once("harmony: vLLM's own constraint is used: " + text)
            grammar = None
        if grammar is None:
            return super().adjust_request(request)  # type: ignore[misc]
        for left_out in grammar.unenforced[:_LOGGED]:
            _log_once(f"harmony: left out of the grammar: {left_out}")
        if len(grammar.unenforced) > _LOGGED:
            _log_once(f"harmony: left out of one grammar: {len(grammar.unenforced)} keywords")
        request.structured_outputs = self.vllm.structured_outputs(**grammar.fields)
        for field in ("text", "response_format"):
            if field in type(request).model_fields:
                setattr(request, field, None)
        request._grammar_from_parser = True  # apply it from the first token, not after reasoning
        return request

    # Both APIs

    def _take(self, token_ids: Iterable[int]) -> list[Piece]:
        if self._turn is None:
            self._turn = TurnFollower(self._recipients, mend_arguments=self._mends)
        tokens = list(token_ids)
        self._taken += len(tokens)
        return self._turn.take(tokens)

    def _end(self) -> list[Piece]:
        turn, self._turn = self._turn, None
        if turn is None:
            return []
        pieces = turn.end()
        self._reasoning_tokens += turn.reasoning_tokens
        _count_recoveries(turn.recoveries)
        return pieces

    def _counted(self) -> int:
        return self._reasoning_tokens + (self._turn.reasoning_tokens if self._turn else 0)

    def _kind(self, piece: Piece, request: Any) -> str:
        """Return whether a piece is reasoning, content or a call.

        vLLM does not pass calls of built-in tools to its clients. If a request has no tools, the
        text of such a call is content, so that it is not lost.
        """
        if piece.recipient is not None:
            is_function = self.vllm.is_function_recipient(piece.recipient)
            if self.tool_parser and (is_function or request.tools):
                return "call"
            return "content"
        return "reasoning" if piece.channel == "analysis" else "content"

    def _joint(self, kind: str) -> str:
        """Return the separator at the beginning of a text, if another text came before it."""
        if self._in_text == kind:
            return ""
        self._in_text = kind
        joint = JOINT if kind in self._shown else ""
        self._shown.add(kind)
        return joint

    def _add_call(self, piece: Piece, calls: list[Any]) -> None:
        """Add a piece of a call to a delta; the first piece of a call has its name and its id."""
        types = self.vllm
        if not self._in_call:
            self._in_call = True
            name = (piece.recipient or "").removeprefix("functions.")
            function = types.delta_function_call(name=name, arguments=piece.delta)
            call_id = types.make_tool_call_id()
            calls.append(
                types.delta_tool_call(
                    id=call_id, type="function", function=function, index=self._calls
                )
            )
            self._calls += 1
        elif calls and calls[-1].index == self._calls - 1:
            calls[-1].function.arguments += piece.delta
        elif piece.delta:
            function = types.delta_function_call(arguments=piece.delta)
            calls.append(types.delta_tool_call(index=self._calls - 1, function=function))


def parser_class(own: type, types: VllmTypes, settings: Settings) -> type:
    """Make the subclass that replaces vLLM's own parser."""
    fields = {"vllm": types, "settings": settings, "__doc__": own.__doc__}
    return type(own.__name__, (RecoveringParser, own), {**fields, "__module__": own.__module__})


def declared_recipients(tools: Iterable[Any]) -> Iterable[str]:
    """Return the recipients of the tools in a request to either API."""
    for tool in tools:
        name = getattr(getattr(tool, "function", tool), "name", None)
        if tool.type == "function" and name:
            yield f"functions.{name}"
        built_in = BUILT_IN_TOOLS.get(requested_tool(tool.type))
        yield from _OF_VLLM.get(tool.type, ()) if built_in is None else built_in.recipients


def _refuse_seed_on_cpu(request: Any) -> None:
    """Raise for a seed where vLLM would end its engine, and with it all other requests.

    With several seeded requests at once, vLLM 0.32 fails on the CPU: "CPU Generator does not use
    offset". One request cannot know of the next, so each seed is refused.
    """
    platform = getattr(sys.modules.get("vllm.platforms"), "current_platform", None)
    if getattr(request, "seed", None) is not None and platform is not None and platform.is_cpu():
        raise ValueError(
            "seed: on the CPU, several requests with a seed at once end vLLM's engine; "
            "leave the seed out"
        )


def _is_empty_call(piece: Piece) -> bool:
    message = piece.completed_message
    return message is not None and piece.recipient is not None and not message.text


def _plain_json(text: str, content_type: str | None) -> str:
    """Write arguments without line breaks, as vLLM does; leave text that is not JSON unchanged."""
    if content_type is not None and "json" not in content_type:
        return text
    try:
        return json.dumps(json.loads(text), allow_nan=False)
    except (ValueError, RecursionError):
        return text


# Metrics and logs


@cache
def _recovery_counter() -> Any:
    """Register the metric at the first repair, after vLLM has set up its own metrics."""
    from prometheus_client import Counter

    text = "Repairs of output that does not follow the format, by kind."
    return Counter("harmony_recoveries", text, ("kind",))


def _count_recoveries(recoveries: Iterable[Recovery]) -> None:
    for kind, position, text in recoveries:
        _recovery_counter().labels(kind.value).inc()
        logger.debug("harmony: repaired %s at token %d: %r", kind.value, position, text)


@lru_cache(maxsize=1000)
def _log_once(text: str) -> None:
    logger.warning("%s", text)
