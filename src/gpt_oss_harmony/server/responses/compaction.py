"""Compaction: a conversation in fewer tokens, for a context that is almost full.

A compacted prompt has at most half of the tokens, or the requested number. The steps, in this
order, until the prompt is short enough: drop what later prompts would not contain, shorten long
outputs of tools, shorten answers, drop old calls, shorten questions, drop the oldest items. The
newest items are changed last. On request, the model writes a summary instead.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Any, NamedTuple

from ...apis.items import HistoryItem, ItemEnded, TurnEnded, Usage
from ...apis.reader import TurnReader
from ...apis.request_body import ReasoningSettings
from ...apis.responses.request import (
    CompactionRequest,
    ResponsesRequest,
    input_items_of,
    turn_of_response,
)
from ...apis.responses.resource import ResponseUsage
from ...encoding import load_harmony_encoding
from ..auth.api_keys import Caller
from ..encryption import OwnerCipher
from ..http.errors import ApiError
from ..preparation import prepare_turn
from ..sampling import sample_turn
from ..services import Services
from ..store import new_id
from .history import History, history_of, with_stored_items

_SMALL = 256  # tokens; a prompt up to this length needs no compaction
_RECENT = 4  # items at the end that stay unchanged as long as possible
_SUMMARY_REQUEST = (
    "Summarise our conversation so far, for yourself: you will see nothing else of it. Keep what I "
    "asked for, what was decided and done, names, numbers, paths and results that still matter, "
    "and what is left to do. Write no more than {words} words."
)
_SUMMARY = "Summary of our conversation so far:\n{}"

Count = Callable[[Sequence[HistoryItem]], int]
"""A function that counts the tokens of the prompt for items."""


class _Limits(NamedTuple):
    """The most tokens of each kind of text (None for no limit), and whether calls stay."""

    outputs: int
    answers: int | None = None
    questions: int | None = None
    keeps_calls: bool = True


_STEPS = (
    _Limits(400),
    _Limits(100, answers=200),
    _Limits(30, answers=60),
    _Limits(30, answers=60, keeps_calls=False),
    _Limits(30, answers=30, questions=100, keeps_calls=False),
)


def compacted_items(
    items: Sequence[HistoryItem], budget: int, count: Count
) -> Sequence[HistoryItem]:
    """Shorten items until their prompt has at most `budget` tokens; this may take a while.

    Instructions stay whole, and so does the last item, unless it is the output of a tool. The
    prompt of these alone may be longer than `budget`.
    """
    kept = _without_past_reasoning(items)
    if count(kept) <= budget:
        return kept
    older, recent = kept[:-_RECENT], kept[-_RECENT:]
    needed = {_call_id(item) for item in recent}
    for limits in _STEPS:
        shorter = [item for item in older if limits.keeps_calls or not _is_call(item, needed)]
        older = [_shortened(item, limits) for item in shorter]
        if count([*older, *recent]) <= budget:
            return [*older, *recent]
    kept = [*older, *(_shortened(item, _STEPS[-1]) for item in recent[:-1]), *recent[-1:]]
    for part in (2, 4, 8):
        if count(kept) > budget:
            kept[-1:] = [_shortened(item, _Limits(budget // part)) for item in kept[-1:]]
    groups = _groups(kept)

    def without(number: int) -> list[HistoryItem]:
        """Leave out this many of the oldest groups."""
        gone = {index for group in groups[:number] for index in group}
        return [item for index, item in enumerate(kept) if index not in gone]

    # Bisected, because each count goes through the whole prompt.
    fewest = bisect_left(
        range(len(groups)), True, key=lambda number: count(without(number)) <= budget
    )
    return without(fewest)


def _groups(items: Sequence[HistoryItem]) -> list[list[int]]:
    """Return groups of items that can be dropped, the oldest first; a call and its results are one.

    Instructions and the last item stay.
    """
    groups: dict[Any, list[int]] = {}
    for index, item in enumerate(items):
        if item.item.get("role") not in ("system", "developer"):
            groups.setdefault(_call_id(item) or index, []).append(index)
    return [group for group in groups.values() if group[-1] != len(items) - 1]


def _is_call(item: HistoryItem, needed: set[Any]) -> bool:
    """Return whether an item is a call or a result that can be dropped."""
    call_id = _call_id(item)
    return bool(item.messages) or (call_id is not None and call_id not in needed)


def _call_id(item: HistoryItem) -> str | None:
    """Return the common id of a call and its result; other items may have any id."""
    call_id = item.item.get("call_id")
    return call_id if isinstance(call_id, str) else None


def _shortened(item: HistoryItem, limits: _Limits) -> HistoryItem:
    if item.messages:
        call, *results = item.messages
        shorter = [
            {**result, "content": _cut(result["content"], limits.outputs)} for result in results
        ]
        return item._replace(messages=[call, *shorter])
    limit, name = None, "content"
    if str(item.item.get("type")).endswith("_output"):
        limit, name = limits.outputs, "output"
    elif item.item.get("role") == "assistant":
        limit = limits.answers
    elif item.item.get("role") == "user":
        limit = limits.questions
    content = item.item.get(name)
    shorter_content = content if limit is None else _cut(content, limit)
    if shorter_content == content:
        return item
    return HistoryItem({**item.item, name: shorter_content})


def _cut(content: Any, limit: int) -> Any:
    """Leave out the middle of a content: a text, or the texts of its parts."""
    if isinstance(content, str):
        encoding = load_harmony_encoding("HarmonyGptOss")
        tokens = encoding.encode(content, disallowed_special=())  # a marker is text here
        if len(tokens) <= limit:
            return content
        head, tail = tokens[: limit * 2 // 3], tokens[len(tokens) - limit // 3 :]
        note = f"\n[... {len(tokens) - len(head) - len(tail):,} tokens left out ...]\n"
        # A token may end within a character, and the rest of it is left out.
        return encoding.decode(head, "ignore") + note + encoding.decode(tail, "ignore")
    if not isinstance(content, list):
        return content
    return [
        {**part, "text": _cut(part["text"], limit)}
        if isinstance(part, Mapping) and isinstance(part.get("text"), str)
        else part
        for part in content
    ]


def _without_past_reasoning(items: Sequence[HistoryItem]) -> list[HistoryItem]:
    """Leave out the reasoning before the last answer, including calls of built-in tools in it."""

    def is_reasoning(item: HistoryItem) -> bool:
        if item.messages:
            return item.messages[0].get("channel") == "analysis"
        return item.item.get("type") == "reasoning"

    answers = [i for i, item in enumerate(items) if item.item.get("phase") == "final_answer"]
    last = answers[-1] if answers else -1
    return [item for i, item in enumerate(items) if i > last or not is_reasoning(item)]


def compaction_item(services: Services, owner: str, items: Sequence[HistoryItem]) -> dict[str, Any]:
    """Encrypt items into one item, which replaces everything before it."""
    encrypted = OwnerCipher(services.cipher, owner).encrypt(items)
    return {"type": "compaction", "id": new_id("cmp"), "encrypted_content": encrypted}


class _Conversation(NamedTuple):
    """The items of a conversation, and the most tokens of its compacted prompt."""

    items: Sequence[HistoryItem]
    budget: int
    count: Count


async def compact(services: Services, caller: Caller, request: CompactionRequest) -> dict[str, Any]:
    """Compact a conversation into one encrypted item. Raises what `plan_response` raises."""
    services.check_model(request.model)
    owner, pool = caller.owner, services.pools.encoding
    request = await services.file_texts.of_response(owner, request)
    conversation = await pool.run(owner, _read, services, owner, request)
    items, usage = conversation.items, Usage()
    if request.summarize:
        summary, usage = await _summary(services, caller, request, conversation)
        instructions = [i for i in items if i.item.get("role") in ("system", "developer")]
        text = {"type": "message", "role": "user", "content": _SUMMARY.format(summary)}
        items = [*instructions, HistoryItem(text)]

    def seal() -> dict[str, Any]:
        kept = compacted_items(items, conversation.budget, conversation.count)
        return compaction_item(services, owner, kept)

    return {
        "id": new_id("resp"),
        "object": "response.compaction",
        "created_at": int(time.time()),
        "output": [await pool.run(owner, seal)],
        "usage": ResponseUsage.of(*usage).model_dump(),
    }


def _read(services: Services, owner: str, request: CompactionRequest) -> _Conversation:
    history = history_of(services, owner, request)
    resolved, references = with_stored_items(services, owner, request)
    cipher = OwnerCipher(services.cipher, owner)
    turn_of_response(  # raises an error that names items that cannot be rendered
        resolved,
        history.items,
        decrypt=cipher.decrypt,
        references=references,
        built_in=services.built_in,
    )
    added = input_items_of(resolved, new_id, references)
    items = opened_items([*history.items, *added], cipher)
    count = prompt_counter(services, owner, request, history)
    before = count(items)
    budget = request.compact_threshold or max(before // 2, min(before, _SMALL))
    return _Conversation(items, budget, count)


def opened_items(items: Sequence[HistoryItem], cipher: OwnerCipher) -> list[HistoryItem]:
    """Return the items that the last compaction replaces, and the items after it."""
    opened: list[HistoryItem] = []
    for item in items:
        if item.item.get("type") == "compaction":
            opened = list(cipher.decrypt(str(item.item.get("encrypted_content"))) or ())
        else:
            opened.append(item)
    return opened


def prompt_counter(
    services: Services, owner: str, request: ResponsesRequest, history: History
) -> Count:
    """Return a function that counts the tokens of the prompt for items, in this request."""
    empty = request.model_copy(update={"input": [], "messages": None, "tool_choice": None})
    decrypt = OwnerCipher(services.cipher, owner).decrypt

    def count(items: Sequence[HistoryItem]) -> int:
        turn = turn_of_response(
            empty, items, date=history.date, decrypt=decrypt, built_in=services.built_in
        )
        return turn.prompt_length()

    return count


async def _summary(
    services: Services, caller: Caller, request: CompactionRequest, conversation: _Conversation
) -> tuple[str, Usage]:
    """Let the model summarise a conversation, which is shortened first if it fills the context."""
    room = min(conversation.budget, services.context_length // 4)
    question = {"role": "user", "content": _SUMMARY_REQUEST.format(words=max(20, room // 2))}
    asked = request.model_copy(
        update={
            "input": [question],
            "messages": None,
            "tools": None,
            "tool_choice": None,
            "text": None,
            "reasoning": ReasoningSettings(effort="low"),
            "max_output_tokens": 2 * room,
        }
    )
    decrypt = OwnerCipher(services.cipher, caller.owner).decrypt

    def prepare() -> Any:
        limit = services.context_length - 3 * room
        items = compacted_items(conversation.items, limit, conversation.count)
        turn = replace(turn_of_response(asked, items, decrypt=decrypt), custom_tools=frozenset())
        return turn, prepare_turn(turn)

    turn, prepared = await services.pools.encoding.run(caller.owner, prepare)
    texts: list[str] = []
    usage = Usage()
    reader = TurnReader(turn, len(prepared.prompt), new_id=new_id, streams=False)
    async with aclosing(sample_turn(services, caller, turn, prepared, reader)) as events:
        async for event in events:
            if isinstance(event, ItemEnded) and event.message.channel != "analysis":
                texts.append(event.message.text)
            elif isinstance(event, TurnEnded):
                usage = event.usage
    if not any(texts):
        problem = "the model wrote no summary; ask again, or leave summarize out"
        raise ApiError(503, problem, kind="server_error", code="no_summary", retry_after=1)
    return "\n\n".join(filter(None, texts)), usage
