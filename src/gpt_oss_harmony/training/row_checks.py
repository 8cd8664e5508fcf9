"""Checks of what a row would teach: findings that are counted, or for which it is rejected.

A finding is about text that is trained on; the same text with weight 0 gives none.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from ..conversation.content import CHANNELS, DeveloperContent
from ..conversation.json_field import strict_json
from ..conversation.messages import Conversation, Message, Role, declared_tools, is_answer

FindingKind: TypeAlias = Literal[
    "markup",
    "calls",
    "channels",
    "empty",
    "opening",
    "format",
    "undeclared",
    "unanswered",
    "damaged",
]
FINDINGS: Mapping[str, str] = {
    "markup": "marks of a format in text, such as <|end|>, <|im_end|> or <think>",
    "calls": "arguments that are not a JSON object, or that break the declared parameters",
    "channels": "messages on no channel, or on one that the models do not have",
    "empty": "answers without text",
    "opening": "conversations that begin with the assistant",
    "format": "answers that break the response format of their conversation",
    "undeclared": "calls of tools in conversations that declare none",
    "damaged": "rendered texts that were repaired to be read; half characters, learned as U+FFFD",
    "unanswered": "reasoning without a call or an answer after it",
}
"""The kinds of findings, and what they are."""

REJECTED_FINDINGS: frozenset[FindingKind] = frozenset({"markup", "calls", "channels"})
"""The findings for which rows are rejected by default: no model should write such text. An empty
answer, or one to no question, may be meant."""


@dataclass(frozen=True)
class Finding:
    """A finding: its kind, and the problem with the remedy."""

    kind: FindingKind
    problem: str


_MARK = re.compile(
    r"<\|[\w.:-]{1,64}\|>"  # of harmony, ChatML, Llama and others
    r"|<｜[^｜<>]{1,64}｜>"  # of DeepSeek
    r"|</?(?:think|tool_call|tool_response)>"
    r"|</?(?:start|end)_of_turn>|\[/?INST\]|</s>\s*$"
)


_HALF_CHARACTER = re.compile(
    "[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]"
)


def find_in_trained(message: Message, opening: Sequence[Message]) -> list[Finding]:
    """Check a message of the assistant that is trained on; `opening` declares the tools."""
    body = message.text
    found: list[Finding] = []
    # Most texts have none of the first characters; the pattern is slower.
    mark = _MARK.search(body) if "<" in body or "[" in body else None
    if mark is not None:
        found.append(
            Finding(
                "markup",
                f"{mark[0]} in an assistant's text would be learned as text; put what it marks in "
                "fields, or accept such text",
            )
        )
    half = None if body.isascii() else _HALF_CHARACTER.search(body)
    if half is not None:
        learned = f"half of a character, \\u{ord(half[0]):04x}, would be learned as U+FFFD"
        found.append(Finding("damaged", f"{learned}; write the whole character, or remove it"))
    if message.channel not in CHANNELS:
        named = "no channel" if message.channel is None else f"the channel {message.channel!r:.40}"
        found.append(
            Finding(
                "channels",
                f"a message by the assistant is on {named}; write one of {', '.join(CHANNELS)}",
            )
        )
    if message.recipient is not None and message.recipient != "all":
        problem = _call_problem(message, body, opening)
        if problem is not None:
            found.append(
                Finding("calls", f"{problem}; correct it, or give the message the weight 0")
            )
        # A prompt that is rendered already declares tools in its text.
        if not declared_tools(opening) and not any("namespace " in m.text for m in opening):
            called = f"{message.recipient!r:.60} is called, but no tool is declared"
            found.append(Finding("undeclared", f"{called}; write the row's tools"))
    elif is_answer(message) and not body.strip():
        found.append(Finding("empty", "an answer has no text; remove it, or write one"))
    elif is_answer(message) and _has_format(opening):
        problem = _schema_problem(message, "an answer breaks its response format", opening)
        if problem is not None:
            found.append(Finding("format", f"{problem}; correct it, or remove the format"))
    return found


def find_after_trained(
    messages: Sequence[Message], index: int, *, wants_json: bool
) -> list[Finding]:
    """Check what follows a message that is trained on, and JSON that has no schema."""
    message = messages[index]
    found: list[Finding] = []
    if message.channel == "analysis" and message.recipient is None:
        after = messages[index + 1] if index + 1 < len(messages) else None
        if after is None or after.author.role is not Role.ASSISTANT:
            problem = "reasoning has no call or answer after it"
            found.append(Finding("unanswered", f"{problem}; write one, or remove the reasoning"))
    elif wants_json and is_answer(message) and message.text.strip():
        try:
            is_object = isinstance(json.loads(message.text), dict)
        except (ValueError, RecursionError):
            is_object = False
        if not is_object:
            problem = "an answer is not the JSON object that its response format requests"
            found.append(Finding("format", f"{problem}; correct it, or remove the format"))
    return found


def _has_format(opening: Iterable[Message]) -> bool:
    """Return whether developer messages request a format of answers."""
    contents = (item for message in opening for item in message.content)
    return any(isinstance(c, DeveloperContent) and c.response_formats for c in contents)


def find_in_opening(messages: Iterable[Message]) -> list[Finding]:
    """Check how a conversation begins."""
    openings = (Role.SYSTEM, Role.DEVELOPER)
    first = next((m for m in messages if m.author.role not in openings), None)
    if first is None or first.author.role is not Role.ASSISTANT:
        return []
    return [
        Finding("opening", "the conversation begins with the assistant; write the question first")
    ]


def find_in_repairs(repairs: Sequence[str]) -> list[Finding]:
    """Report a rendered text that is not what the model writes; `repairs` are of the parser."""
    if not repairs:
        return []
    kinds = ", ".join(sorted(set(repairs)))
    problem = f"the rendered text is damaged ({kinds}), and was repaired; render it anew"
    return [Finding("damaged", problem)]


# Calls


def _call_problem(message: Message, body: str, opening: Sequence[Message]) -> str | None:
    """Return what is wrong with a call, or None; its arguments are `body`."""
    if message.content_type is not None and "json" not in message.content_type:
        return None  # code, or the text of a custom tool
    recipient = message.recipient or ""
    tools = declared_tools(opening)
    if recipient in tools and tools[recipient] is None:
        return None  # it takes text
    try:
        value = strict_json(body, object_pairs_hook=_object)
    except (ValueError, RecursionError) as error:
        return f"the arguments of a call of {recipient!r:.60} are not valid JSON ({error!s:.80})"
    if not isinstance(value, dict):
        return f"the arguments of a call of {recipient!r:.60} are not a JSON object"
    if recipient not in tools:
        if tools and recipient.startswith("functions."):
            return f"the function {recipient.partition('.')[2]!r:.60} is called, but not declared"
        return None
    broken = f"the arguments of a call of {recipient!r:.60} break its declared parameters"
    return _schema_problem(message, broken, opening)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the name {twice!r:.40} occurs twice")
    return fields


def _schema_problem(message: Message, broken: str, opening: Sequence[Message]) -> str | None:
    """Say `broken` with the first violation of a schema; this needs the extra ``train``."""
    try:
        from ..grammar.errors import GrammarError
        from ..grammar.violations import find_violations
    except ModuleNotFoundError:
        return None
    try:
        violations = find_violations([message], Conversation(messages=list(opening)))
    except GrammarError as error:  # a tool's name that no header can contain
        return f"nothing can be checked against the declared tools ({error!s:.120})"
    if not violations:
        return None
    where = violations[0].instance.removeprefix("#") or "the whole value"
    return f"{broken} ({where}: {violations[0].message:.120})"
