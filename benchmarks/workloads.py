"""The work that is timed, written against the API that all three libraries share.

A workload makes an input, which is not timed, and does work on it, which is; the work returns how
many units it did. The input of each run is new, as a server gets it: parsed from JSON just before.
"""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from openai_harmony import (
    Conversation,
    Message,
    RenderConversationConfig,
    Role,
    StreamableParser,
    load_harmony_encoding,
)


@dataclass(frozen=True)
class Workload:
    """What is timed: `work` on what `prepare` returns; the argument is the number of the run."""

    prepare: Callable[[int], Any]
    work: Callable[[Any], int]


ENCODING = load_harmony_encoding("HarmonyGptOss")
KEEP = RenderConversationConfig(auto_drop_analysis=False)
_TEXT = (
    "the model reads a prompt and writes tokens about weather in Tokyo where clouds move over "
    "mountains while people ask questions like how many trains leave before noon or what is the "
    "square root of numbers such as 144 and 1024 because reasoning takes several steps and every "
    "step should be checked against facts that were given earlier in this conversation"
)
_WORDS = _TEXT.split()


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


# Parsing


def process(tokens: list[int]) -> int:
    parser = StreamableParser(ENCODING, Role.ASSISTANT)
    feed = parser.process
    for token in tokens:
        feed(token)
    return len(tokens)


def process_five_properties(tokens: list[int]) -> int:
    parser = StreamableParser(ENCODING, Role.ASSISTANT)
    for token in tokens:
        parser.process(token)
        parser.current_channel  # noqa: B018
        parser.current_recipient  # noqa: B018
        parser.current_role  # noqa: B018
        parser.last_content_delta  # noqa: B018
        parser.state  # noqa: B018
    return len(tokens)


def process_current_content(tokens: list[int]) -> int:
    parser = StreamableParser(ENCODING, Role.ASSISTANT)
    for token in tokens:
        parser.process(token)
        parser.current_content  # noqa: B018
    return len(tokens)


def process_messages(tokens: list[int]) -> int:
    parser = StreamableParser(ENCODING, Role.ASSISTANT)
    for token in tokens:
        parser.process(token)
        parser.messages  # noqa: B018
    return len(tokens)


def batch_parse(tokens: list[int]) -> int:
    ENCODING.parse_messages_from_completion_tokens(tokens, Role.ASSISTANT)
    return len(tokens)


# Rendering


def render(prompt: Conversation) -> int:
    return len(ENCODING.render_conversation_for_completion(prompt, Role.ASSISTANT, KEEP))


def fresh_conversation(run: int) -> Conversation:
    return objects(conversation(random.Random(1000 + run), 50))


_GROWING = conversation(random.Random(5), 50)


def next_turn(run: int) -> Conversation:
    """The conversation of the run before, from JSON again, and one more turn."""
    rng = random.Random(run)
    if run == 0:
        render(objects(_GROWING))
    _GROWING["messages"] += [
        {"role": "user", "content": prose(rng, 20)},
        {"role": "assistant", "channel": "final", "content": prose(rng, 20)},
    ]
    return objects(json.loads(json.dumps(_GROWING)))


def prompt_with_tools(run: int, seed: int) -> Conversation:
    """A short prompt with 20 tools, which are the same for the same seed."""
    rng = random.Random(run)
    return objects(
        {
            "messages": [
                {"role": "system", "content": [{"type": "system_content"}]},
                {"role": "developer", "content": [developer(random.Random(seed), 20)]},
                {"role": "user", "content": prose(rng, 12)},
            ]
        }
    )


def same_tools(run: int) -> Conversation:
    if run == 0:
        render(prompt_with_tools(-1, 7))
    return prompt_with_tools(run, 7)


def new_tools(run: int) -> Conversation:
    return prompt_with_tools(run, 100 + run)


def two_prompts(run: int) -> list[Conversation]:
    return [objects(conversation(random.Random(2000 + 2 * run + at), 50)) for at in range(2)]


def render_in_turn(prompts: list[Conversation]) -> int:
    return sum(map(render, prompts))


def render_in_threads(prompts: list[Conversation]) -> int:
    threads = [threading.Thread(target=render, args=(prompt,)) for prompt in prompts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return len(prompts)


# Texts


def encode(text: str) -> int:
    return len(ENCODING.encode(text))


def decode(tokens: list[int]) -> int:
    return len(tokens) if ENCODING.decode(tokens) else 0


def same(value: Any) -> Callable[[int], Any]:
    return lambda _run: value


WORKLOADS: dict[str, Callable[[], Workload]] = {
    "process": lambda: Workload(same(completion_tokens()), process),
    "process + five properties": lambda: Workload(
        same(completion_tokens()), process_five_properties
    ),
    "process + current_content": lambda: Workload(
        same(completion_tokens(1, 2000)), process_current_content
    ),
    "process + messages (2,000)": lambda: Workload(
        same(completion_tokens(2000, 3)), process_messages
    ),
    "batch parse": lambda: Workload(same(completion_tokens()), batch_parse),
    "render, 50 turns, never seen": lambda: Workload(fresh_conversation, render),
    "render, the next turn": lambda: Workload(next_turn, render),
    "render, same 20 tools": lambda: Workload(same_tools, render),
    "render, new 20 tools": lambda: Workload(new_tools, render),
    "encode, cold text": lambda: Workload(
        lambda run: prose(random.Random(3000 + run), 5000), encode
    ),
    "decode": lambda: Workload(same(ENCODING.encode(prose(random.Random(9), 10000))), decode),
    "render two prompts in turn": lambda: Workload(two_prompts, render_in_turn),
    "render two prompts in two threads": lambda: Workload(two_prompts, render_in_threads),
}
