"""A chat as tokens with the message of each token, as trainers of other projects need it.

Messages are numbered as in the chat. The prompt's system and developer messages may come from
several messages; their tokens belong to the first message with instructions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from ...apis.chat.fold import chat_message_of
from ...apis.chat.input import read_chat
from ...apis.turn import ParsedRequest
from ...conversation.json_field import JsonField
from ...conversation.messages import Conversation, Message, Role
from ...encoding import load_harmony_encoding
from ...errors import ConversationError
from ...parsing.parser import StreamableParser
from ...rendering.renderer import SegmentKind
from ...tokens.special_tokens import CALL, RETURN
from ..chat_rows import completed_chat
from ..examples import training_examples
from ..options import TrainingOptions
from ..rows import later_openings
from ..sequence_plan import kept_in_prompt

NO_MESSAGE = -1
"""The index of tokens that do not belong to a message of the chat."""

_OPTIONS = TrainingOptions()


@dataclass(frozen=True)
class ChatTokens:
    """Tokens, and for each its message, whether it is sampled, and whether it is text of a body."""

    token_ids: list[int]
    messages: list[int]
    is_sampled: list[bool]
    is_body: list[bool]


def parsed_chat(
    messages: Sequence[Mapping[str, Any]],
    tools: Sequence[Mapping[str, Any]] | None = None,
    *,
    effort: str | None = None,
    start_date: str | None = None,
) -> ParsedRequest:
    """Read a chat like a row of training data; tools that change after an answer are refused.

    The `sources` of the result are indices of `messages`.
    """
    fields = {
        "messages": [dict(message) for message in messages],
        "tools": None if tools is None else [dict(tool) for tool in tools],
        "reasoning_effort": effort,
    }
    request = completed_chat(JsonField(fields))
    origins = request["origins"]
    for end, _ in request["earlier_tools"]:
        problem = "the tools change after an answer; give each part of the chat by itself"
        raise ConversationError(problem, field=f"messages[{origins[end]}].tools")
    read = read_chat(request, conversation_start_date=start_date)
    sources = [None if source is None else origins[source] for source in read.sources]
    return read._replace(sources=sources)


def chat_prompt(
    messages: Sequence[Mapping[str, Any]],
    tools: Sequence[Mapping[str, Any]] | None = None,
    *,
    effort: str | None = None,
    start_date: str | None = None,
    opens: bool = True,
) -> ChatTokens:
    """Render the prompt for the next message, as the server does; `opens` adds the message's start.

    >>> prompt = chat_prompt([{"role": "user", "content": "hi"}])
    >>> load_harmony_encoding("HarmonyGptOss").decode(prompt.token_ids)[-51:]
    '<|start|>user<|message|>hi<|end|><|start|>assistant'
    """
    read = parsed_chat(messages, tools, effort=effort, start_date=start_date)
    said = read.conversation.messages
    kept = kept_in_prompt(said, range(len(said)), _OPTIONS)
    chosen = Conversation(messages=[said[index] for index in kept])
    role = Role.ASSISTANT if opens else None
    encoding = load_harmony_encoding("HarmonyGptOss")
    segments = encoding.segments_for_completion(chosen, role, _OPTIONS.rendering())
    origins = [*_origins(messages, read), NO_MESSAGE]
    indices = [*kept, len(said)]
    result = ChatTokens([], [], [], [])
    for kind, index, _, tokens in segments:
        result.token_ids.extend(tokens)
        result.messages.extend([origins[indices[index]]] * len(tokens))
        result.is_sampled.extend([False] * len(tokens))
        result.is_body.extend([kind is SegmentKind.BODY] * len(tokens))
    return result


def chat_sequence(
    messages: Sequence[Mapping[str, Any]],
    tools: Sequence[Mapping[str, Any]] | None = None,
    *,
    effort: str | None = None,
    start_date: str | None = None,
) -> ChatTokens:
    """Render a chat that ends with the assistant, as the last sequence of its training examples.

    A token counts as sampled if the model samples the same token: the ``<|end|>`` of an earlier
    answer does not, because the model samples ``<|return|>`` there. Answers before later
    instructions do not either, because the model gave them without these. Raises
    `ConversationError` for a chat with another end.
    """
    read = parsed_chat(messages, tools, effort=effort, start_date=start_date)
    if not read.sources or read.conversation.messages[-1].author.role is not Role.ASSISTANT:
        raise ConversationError("the last message is not by the assistant; render a prompt instead")
    said = read.conversation.messages
    late = max(later_openings(messages), default=0)  # earlier answers were given without them
    weights = {
        index: 0.0
        for index, source in enumerate(read.sources)
        if source is not None and source < late and said[index].author.role is Role.ASSISTANT
    }
    example = training_examples(read.conversation, weights=weights)[-1]
    learned = {part.message for part in filter(example.is_trainable, example.messages)}
    origins = _origins(messages, read)
    result = ChatTokens(example.input_ids, [], [], [])
    for start, end, message, kind, is_sampled in example.spans:
        result.messages.extend([origins[message]] * (end - start))
        result.is_body.extend([kind is SegmentKind.BODY] * (end - start))
        is_answer = read.conversation.messages[message].channel == "final"
        is_earlier = kind is SegmentKind.STOP and is_answer and end < len(example)
        is_learned = is_sampled and not is_earlier and message in learned
        result.is_sampled.extend([is_learned] * (end - start))
    return result


def training_chats(
    messages: Sequence[Mapping[str, Any]],
) -> Iterator[tuple[list[Mapping[str, Any]], list[bool]]]:
    """Yield the chat up to the end of each turn, and for each message whether it is of that turn.

    A trainer that renders one sequence of a chat loses the earlier turns, because their prompts
    had reasoning that later prompts leave out. `chat_sequence` of each of these chats has every
    token that the model samples, once, after the prompt that inference has.

    >>> chat = [{"role": role} for role in ("user", "assistant", "user", "assistant", "user")]
    >>> [(len(turn), is_trained) for turn, is_trained in training_chats(chat)]
    [(2, [False, True]), (4, [False, False, False, True])]
    """
    going_on = (Role.ASSISTANT.value, Role.TOOL.value, "function")
    start = 0
    for end in range(1, len(messages) + 1):
        if end < len(messages) and messages[end]["role"] in going_on:
            continue
        last = next((i for i in range(end, start, -1) if _is_own(messages[i - 1])), None)
        if last is not None:
            is_trained = [i >= start and _is_own(messages[i]) for i in range(last)]
            yield list(messages[:last]), is_trained
        start = end


def _is_own(message: Mapping[str, Any]) -> bool:
    return bool(message["role"] == Role.ASSISTANT.value)


def _origins(messages: Sequence[Mapping[str, Any]], read: ParsedRequest) -> list[int]:
    """Return the index in the chat for each message of the conversation."""
    instructing = (Role.SYSTEM.value, Role.DEVELOPER.value)
    first = next((i for i, m in enumerate(messages) if m.get("role") in instructing), NO_MESSAGE)
    return [first if source is None else source for source in read.sources]


class ReadCompletion(NamedTuple):
    """A completion, read by the lenient parser.

    `chat_message` is a message of Chat Completions, and `spans` are the tokens of its calls.
    `is_stopped` is true if the model ended the completion, and false if a limit did.
    """

    messages: list[Message]
    chat_message: dict[str, Any]
    spans: list[tuple[int, int]]
    is_stopped: bool


def read_completion(
    tokens: Sequence[int], tools: Sequence[Mapping[str, Any]] | None = None
) -> ReadCompletion:
    """Read a completion; `tools` help to repair the names of calls.

    >>> encoding = load_harmony_encoding("HarmonyGptOss")
    >>> tokens = encoding.encode("<|channel|>analysis<|message|>hm", allowed_special="all")
    >>> read = read_completion(tokens)
    >>> read.chat_message["reasoning"], read.is_stopped
    ('hm', False)
    """
    encoding = load_harmony_encoding("HarmonyGptOss")
    declared = parsed_chat([], tools).tools.recipients if tools else ()
    parser = StreamableParser(encoding, Role.ASSISTANT, strict=False, tools=declared)
    spans: list[tuple[int, int]] = []
    start = count = 0
    # None is the end, which may complete a message without a token of its own.
    for end, token in enumerate([*tokens, None], 1):
        if token is None:
            end -= 1
            parser.process_eos()
        else:
            parser.process(token)
        for message in parser.messages[count:]:
            if message.recipient is not None:
                spans.append((start, end))
            start = end
        count = len(parser.messages)
    made = parser.messages
    numbers = iter(range(len(made)))
    chat_message = chat_message_of(made, lambda prefix: f"{prefix}_{next(numbers)}")
    return ReadCompletion(made, chat_message, spans, bool(tokens) and tokens[-1] in (RETURN, CALL))
