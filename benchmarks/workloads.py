"""The work that is timed, written against the API that all three libraries share.

Each workload is a function that prepares its input and returns a callable; calling that does the
work once and returns how many units it did. A fresh input is made for every call where the
work must not have been seen before.
"""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Callable, Iterator
from typing import Any

from openai_harmony import (
    Author,
    Conversation,
    DeveloperContent,
    Message,
    RenderConversationConfig,
    Role,
    StreamableParser,
    SystemContent,
    ToolDescription,
    load_harmony_encoding,
)

Work = Callable[[], int]

ENCODING = load_harmony_encoding("HarmonyGptOss")
KEEP = RenderConversationConfig(auto_drop_analysis=False)
_WORDS = (
    "the model reads a prompt and writes tokens about weather in Tokyo where clouds move over "
    "mountains while people ask questions like how many trains leave before noon or what is the "
    "square root of numbers such as 144 and 1024 because reasoning takes several steps and every "
    "step should be checked against facts that were given earlier in this conversation"
).split()


def prose(rng: random.Random, words: int) -> str:
    """Text that was never seen: common words, some of them new, with punctuation."""
    out = []
    for at in range(words):
        word = rng.choice(_WORDS)
        if rng.random() < 0.08:
            word = word.capitalize() + str(rng.randrange(1000))
        out.append(word + rng.choice([",", ".", ""]) if at % 9 == 8 else word)
    return " ".join(out)


def conversation(rng: random.Random, turns: int) -> dict[str, Any]:
    """A conversation of user, analysis, call, tool result and answer, as plain data."""
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": [{"type": "system_content"}]},
        {"role": "developer", "content": [developer(rng, 2)]},
    ]
    for _ in range(turns):
        arguments = json.dumps({"query": prose(rng, 6), "limit": rng.randrange(50)})
        messages += [
            {"role": "user", "content": prose(rng, 60)},
            {"role": "assistant", "channel": "analysis", "content": prose(rng, 80)},
            {
                "role": "assistant",
                "channel": "commentary",
                "recipient": "functions.search",
                "content_type": "<|constrain|>json",
                "content": arguments,
            },
            {
                "role": "tool",
                "name": "functions.search",
                "recipient": "assistant",
                "channel": "commentary",
                "content": json.dumps({"result": prose(rng, 40)}),
            },
            {"role": "assistant", "channel": "final", "content": prose(rng, 70)},
        ]
    return {"messages": messages}


def developer(rng: random.Random, tools: int) -> dict[str, Any]:
    """A developer content with that many function tools."""
    declared = [
        {
            "name": f"tool_{rng.randrange(10**9)}",
            "description": prose(rng, 14),
            "parameters": {
                "type": "object",
                "properties": {
                    f"{rng.choice(_WORDS)}_{at}": {
                        "type": rng.choice(["string", "number", "boolean"]),
                        "description": prose(rng, 10),
                    }
                    for at in range(5)
                },
                "required": [],
            },
        }
        for _ in range(tools)
    ]
    return {
        "type": "developer_content",
        "instructions": prose(rng, 40),
        "tools": {"functions": {"name": "functions", "tools": declared}},
    }


def objects(data: dict[str, Any]) -> Conversation:
    """New message objects from plain data, as a stateless server makes them."""
    return Conversation.from_messages([Message.from_dict(item) for item in data["messages"]])


def completion_tokens(messages: int = 12, words: int = 400) -> list[int]:
    """A completion of that many messages; it begins after ``<|start|>assistant``."""
    rng = random.Random(1)
    items = [
        Message.from_role_and_content(Role.ASSISTANT, prose(rng, words)).with_channel(
            ("analysis", "commentary", "final")[at % 3]
        )
        for at in range(messages)
    ]
    return ENCODING.render_conversation(Conversation.from_messages(items), KEEP)[2:]


def process() -> Work:
    tokens = completion_tokens()

    def work() -> int:
        parser = StreamableParser(ENCODING, Role.ASSISTANT)
        feed = parser.process
        for token in tokens:
            feed(token)
        return len(tokens)

    return work


def process_five_properties() -> Work:
    tokens = completion_tokens()

    def work() -> int:
        parser = StreamableParser(ENCODING, Role.ASSISTANT)
        for token in tokens:
            parser.process(token)
            parser.current_channel  # noqa: B018
            parser.current_recipient  # noqa: B018
            parser.current_role  # noqa: B018
            parser.last_content_delta  # noqa: B018
            parser.state  # noqa: B018
        return len(tokens)

    return work


def process_current_content() -> Work:
    tokens = completion_tokens(1, 2000)

    def work() -> int:
        parser = StreamableParser(ENCODING, Role.ASSISTANT)
        for token in tokens:
            parser.process(token)
            parser.current_content  # noqa: B018
        return len(tokens)

    return work


def process_messages() -> Work:
    tokens = completion_tokens(2000, 3)

    def work() -> int:
        parser = StreamableParser(ENCODING, Role.ASSISTANT)
        for token in tokens:
            parser.process(token)
            parser.messages  # noqa: B018
        return len(tokens)

    return work


def batch_parse() -> Work:
    tokens = completion_tokens()

    def work() -> int:
        ENCODING.parse_messages_from_completion_tokens(tokens, Role.ASSISTANT)
        return len(tokens)

    return work


def fresh(make: Callable[[random.Random], Any]) -> Iterator[Any]:
    """Inputs that were never seen before, each made from its own seed."""
    seed = 1000
    while True:
        seed += 1
        yield make(random.Random(seed))


def render_cold() -> Work:
    inputs = [objects(conversation(random.Random(seed), 50)) for seed in range(40)]

    def work() -> int:
        conversation = inputs.pop()
        return len(ENCODING.render_conversation_for_completion(conversation, Role.ASSISTANT, KEEP))

    return work


def render_next_turn() -> Work:
    rng = random.Random(5)
    data = conversation(rng, 50)
    inputs = []
    for _ in range(40):
        data["messages"] += [
            {"role": "user", "content": prose(rng, 20)},
            {"role": "assistant", "channel": "final", "content": prose(rng, 20)},
        ]
        inputs.append(json.loads(json.dumps(data)))
    ready = [objects(item) for item in inputs]
    ENCODING.render_conversation_for_completion(ready.pop(0), Role.ASSISTANT, KEEP)

    def work() -> int:
        conversation = ready.pop(0)
        return len(ENCODING.render_conversation_for_completion(conversation, Role.ASSISTANT, KEEP))

    return work


def _with_tools(rng: random.Random, seed: int) -> dict[str, Any]:
    return {
        "messages": [
            {"role": "system", "content": [{"type": "system_content"}]},
            {"role": "developer", "content": [developer(random.Random(seed), 20)]},
            {"role": "user", "content": prose(rng, 12)},
        ]
    }


def render_same_tools() -> Work:
    rng = random.Random(6)
    ready = [objects(_with_tools(rng, 7)) for _ in range(40)]
    ENCODING.render_conversation_for_completion(ready.pop(), Role.ASSISTANT)

    def work() -> int:
        return len(ENCODING.render_conversation_for_completion(ready.pop(), Role.ASSISTANT))

    return work


def render_new_tools() -> Work:
    rng = random.Random(8)
    ready = [objects(_with_tools(rng, seed)) for seed in range(100, 140)]
    ENCODING.render_conversation_for_completion(ready.pop(), Role.ASSISTANT)

    def work() -> int:
        return len(ENCODING.render_conversation_for_completion(ready.pop(), Role.ASSISTANT))

    return work


def encode_cold() -> Work:
    texts = [prose(random.Random(seed), 5000) for seed in range(40)]
    ENCODING.encode("warm up")

    def work() -> int:
        return len(ENCODING.encode(texts.pop()))

    return work


def decode() -> Work:
    tokens = ENCODING.encode(prose(random.Random(9), 10000))

    def work() -> int:
        return len(tokens) if ENCODING.decode(tokens) else 0

    return work


def _render_in_threads(threads: int) -> Work:
    inputs = [objects(conversation(random.Random(seed), 25)) for seed in range(200, 280)]
    ENCODING.encode("warm up")

    def render(conversation: Conversation) -> None:
        ENCODING.render_conversation_for_completion(conversation, Role.ASSISTANT, KEEP)

    def work() -> int:
        mine = [inputs.pop() for _ in range(2)]
        if threads == 1:
            for conversation in mine:
                render(conversation)
        else:
            workers = [threading.Thread(target=render, args=(item,)) for item in mine]
            for worker in workers:
                worker.start()
            for worker in workers:
                worker.join()
        return 2

    return work


def two_threads() -> Work:
    return _render_in_threads(2)


def one_thread() -> Work:
    return _render_in_threads(1)


def first_parse() -> Work:
    return lambda: 0


WORKLOADS: dict[str, Callable[[], Work]] = {
    "process": process,
    "process + five properties": process_five_properties,
    "process + current_content": process_current_content,
    "process + messages": process_messages,
    "batch parse": batch_parse,
    "render, 50 turns, cold": render_cold,
    "render, next turn": render_next_turn,
    "render, 20 tools, same": render_same_tools,
    "render, 20 tools, new": render_new_tools,
    "encode, cold": encode_cold,
    "decode": decode,
    "two threads rendering": two_threads,
    "one thread rendering": one_thread,
}

__all__ = ["WORKLOADS", "Author", "DeveloperContent", "SystemContent", "ToolDescription"]
