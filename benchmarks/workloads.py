"""The work that is timed, written against the API that all three libraries share.

A workload makes an input, which is not timed, and does work on it, which is; the work returns how
many units it did. Where a library may remember what it rendered or encoded, the input of each run
is new, as a server gets it: parsed from JSON just before. `WORKLOADS` have one size and fill the
table, `TEXT_WORKLOADS` the one of several texts; `SWEEPS` are made for any size and show how cost
grows.
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
    """What is timed: `work` on what `prepare` returns; its argument is the number of the run.

    Runs are numbered from 0. The first is a warm-up, and may bring about what later runs need.
    """

    unit: str
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


RUSSIAN = (
    "модель читает запрос и пишет ответ о погоде в городе где облака плывут над горами а люди "
    "спрашивают сколько поездов уходит до полудня потому что каждый шаг рассуждения надо проверить"
)
JAPANESE = (
    "今日 は 天気 が とても 良い ので 山 へ 行きます 。 電車 の 時間 を 調べて ください 質問 に "
    "答える モデル 言葉 私たち 東京 、 考える 一つ ずつ 確かめる 雲 人々 「 数字 」 会話"
)
KOREAN = (
    "오늘 날씨가 좋아서 산에 갑니다 기차 시간을 알려 주세요 질문에 대답하는 모델이 말을 우리는 "
    "서울에서 생각하고 사람들은 하나씩 확인합니다 구름 숫자 대화"
)
EMOJI = (
    "😀 😂 🥰 😎 🤔 😭 👍 👍🏽 🙏 👩‍💻 👨‍👩‍👧 ❤️ 🔥 ✨ 🎉 🚀 🏰 🌍 🌧️ ☀️ 🍕 ☕ 🐈 🦊 🌸 ⚽ 🎵 "
    "🇯🇵 🇰🇷 🏳️‍🌈 ✅ 🧑🏿‍🚀 🫠 🪐"
)
CODE = (
    "def {0}({1}, {2}=None):\n    return {1} + {2}\n\n",
    'for {0} in range({3}):\n    if {0} % 2 == 0:\n        print(f"{{{0}}}: {1}")\n',
    "const {0} = await fetch(`/api/{1}/${{{2}}}`);\n",
    'class {0}:\n    """Hold {1}."""\n\n    {2}: dict[str, list[int]] = {{}}\n',
    "SELECT {0}, COUNT(*) FROM {1} WHERE {2} > {3} GROUP BY {0};\n",
)
RARE = [range(0x3400, 0x4DB6), range(0x20000, 0x2A6D7)]
"""Chinese characters of which no token has a whole one: extensions A and B."""


def words(text: str, between: tuple[str, ...]) -> Callable[[random.Random], str]:
    """Words of a text in any order, and what may stand behind each."""
    choices = text.split()
    return lambda rng: rng.choice(choices) + rng.choice(between)


def rare_character(rng: random.Random) -> str:
    """A Chinese character in several tokens."""
    return chr(rng.choice(rng.choice(RARE)))


# A piece of each text. The last one has nothing but characters that are split over tokens.
TEXTS: dict[str, Callable[[random.Random], str]] = {
    "English": lambda rng: prose(rng, 9) + " ",
    "Russian": words(RUSSIAN, (" ", " ", ", ")),
    "Japanese": words(JAPANESE, ("",)),
    "Korean": words(KOREAN, (" ",)),
    "rare Chinese": lambda rng: f"{rare_character(rng)}，{rng.choice('山水木火土金日月人言')}也。",
    "emoji": words(EMOJI, ("", "", " ")),
    "code": lambda rng: rng.choice(CODE).format(*rng.choices(_WORDS, k=3), rng.randrange(100)),
    "split characters": rare_character,
}


def text_tokens(name: str, count: int) -> list[int]:
    """Tokens of one of the texts, `count` of them or a few more; no character is cut."""
    rng = random.Random(name)
    text, tokens = "", list[int]()
    while len(tokens) < count:
        text += "".join(TEXTS[name](rng) for _ in range(1 + (count - len(tokens)) // 20))
        tokens = ENCODING.encode(text)
    return tokens


def text_completion(name: str, messages: int) -> list[int]:
    """A completion of messages of 1,000 tokens each."""
    header = ENCODING.encode("<|channel|>analysis<|message|>", allowed_special="all")
    opening = ENCODING.encode("<|start|>assistant", allowed_special="all")
    end = ENCODING.encode("<|end|>", allowed_special="all")
    body = text_tokens(name, 1000)
    return ([*header, *body, *end, *opening] * messages)[: -len(opening)]


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


def completion_tokens(messages: int, words: int) -> list[int]:
    """A completion of that many messages; it begins after ``<|start|>assistant``."""
    rng = random.Random(1)
    items = [
        Message.from_role_and_content(Role.ASSISTANT, prose(rng, words)).with_channel(
            ("analysis", "commentary", "final")[at % 3]
        )
        for at in range(messages)
    ]
    return ENCODING.render_conversation(Conversation.from_messages(items), KEEP)[2:]


def same(tokens: list[int]) -> Callable[[int], Any]:
    """Prepare the same tokens for each run, as a new list."""
    return lambda _run: tokens[:]


def whole(work: Callable[[Any], int]) -> Callable[[Any], int]:
    """Count the input as one unit, whatever its length."""
    return lambda value: bool(work(value))


# Parsing


def stream(tokens: list[int]) -> int:
    """Stream tokens and read nothing."""
    parser = StreamableParser(ENCODING, Role.ASSISTANT)
    feed = parser.process
    for token in tokens:
        feed(token)
    return len(tokens)


def stream_five_properties(tokens: list[int]) -> int:
    """Stream tokens and read what servers read after each one."""
    parser = StreamableParser(ENCODING, Role.ASSISTANT)
    for token in tokens:
        parser.process(token)
        parser.current_channel  # noqa: B018
        parser.current_recipient  # noqa: B018
        parser.current_role  # noqa: B018
        parser.last_content_delta  # noqa: B018
        parser.state  # noqa: B018
    return len(tokens)


def stream_current_content(tokens: list[int]) -> int:
    """Stream tokens and read the whole text of the message after each one."""
    parser = StreamableParser(ENCODING, Role.ASSISTANT)
    for token in tokens:
        parser.process(token)
        parser.current_content  # noqa: B018
    return len(tokens)


def late_messages(messages: int, last: int) -> Workload:
    """Stream the last of many messages and read all messages after each token.

    All of them would take the peers two minutes; what came before the last ones is not timed.
    """
    tokens = completion_tokens(messages, 3)
    start = len(completion_tokens(messages - last, 3))

    def prepare(_run: int) -> StreamableParser:
        parser = StreamableParser(ENCODING, Role.ASSISTANT)
        for token in tokens[:start]:
            parser.process(token)
        return parser

    def work(parser: StreamableParser) -> int:
        for token in tokens[start:]:
            parser.process(token)
            parser.messages  # noqa: B018
        return len(tokens) - start

    return Workload("token", prepare, work)


def batch_parse(tokens: list[int]) -> int:
    """Parse a whole completion."""
    ENCODING.parse_messages_from_completion_tokens(tokens, Role.ASSISTANT)
    return len(tokens)


def one_message(size: int) -> Workload:
    """Stream one message of that many tokens and read its text after each one."""
    header = ENCODING.encode("<|channel|>final<|message|>", allowed_special="all")
    body = ENCODING.encode(prose(random.Random(size), size))[:size]
    return Workload("input", same(header + body), whole(stream_current_content))


# Rendering

AT_ONCE = 4
"""Prompts in one run, so that it lasts long enough to be timed."""


def render(prompt: Conversation) -> int:
    """Render one prompt."""
    ENCODING.render_conversation_for_completion(prompt, Role.ASSISTANT, KEEP)
    return 1


def render_in_turn(prompts: list[Conversation]) -> int:
    """Render prompts one after the other."""
    return sum(map(render, prompts))


def render_in_threads(prompts: list[Conversation]) -> int:
    """Render prompts in a thread each, at the same time."""
    threads = [threading.Thread(target=render, args=(prompt,)) for prompt in prompts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return len(prompts)


def never_seen(turns: int) -> Workload:
    """Render prompts of that many turns that share nothing."""

    def prepare(run: int) -> list[Conversation]:
        seeds = range(1000 + AT_ONCE * run, 1000 + AT_ONCE * (run + 1))
        return [objects(conversation(random.Random(seed), turns)) for seed in seeds]

    return Workload("prompt", prepare, render_in_turn)


def next_turn() -> Workload:
    """Render a prompt again and again, each time from JSON and with one more turn."""
    data = conversation(random.Random(5), 50)

    def one_more(rng: random.Random) -> Conversation:
        data["messages"] += [
            {"role": "user", "content": prose(rng, 20)},
            {"role": "assistant", "channel": "final", "content": prose(rng, 20)},
        ]
        return objects(json.loads(json.dumps(data)))

    def prepare(run: int) -> list[Conversation]:
        rng = random.Random(run)
        return [one_more(rng) for _ in range(AT_ONCE)]

    return Workload("prompt", prepare, render_in_turn)


def with_tools(seed: Callable[[int], int]) -> Workload:
    """Render short new prompts with 20 tools, which are the same for the same seed."""

    def prepare(run: int) -> Conversation:
        messages = [
            {"role": "system", "content": [{"type": "system_content"}]},
            {"role": "developer", "content": [developer(random.Random(seed(run)), 20)]},
            {"role": "user", "content": prose(random.Random(run), 12)},
        ]
        return objects({"messages": messages})

    return Workload("prompt", prepare, render)


def two_prompts(run: int) -> list[Conversation]:
    """Two prompts of 50 turns that were never seen."""
    return [objects(conversation(random.Random(2000 + 2 * run + at), 50)) for at in range(2)]


# Texts


def encode(text: str) -> int:
    """Encode a text."""
    return len(ENCODING.encode(text))


def decode(tokens: list[int]) -> int:
    """Decode tokens."""
    ENCODING.decode(tokens)
    return len(tokens)


def new_text(run: int) -> str:
    """Text of 5,000 words that was never seen."""
    return prose(random.Random(3000 + run), 5000)


def one_word(size: int) -> Workload:
    """Encode that many Chinese characters without a space or a comma, which make one word."""

    def prepare(run: int) -> str:
        rng = random.Random(1000 * size + run)
        return "".join(chr(rng.randrange(0x4E00, 0x9FA5)) for _ in range(size))

    return Workload("input", prepare, whole(encode))


def on_text(work: Callable[[Any], int], name: str, messages: int) -> Callable[[], Workload]:
    """Do work on a completion of one of the texts."""
    return lambda: Workload("token", same(text_completion(name, messages)), work)


# What is measured on each of the texts, and on how many messages.
TEXT_WORKS: dict[str, tuple[Callable[[Any], int], int]] = {
    "stream": (stream, 4),
    "stream + five properties": (stream_five_properties, 1),
    "stream + current_content": (stream_current_content, 1),
    "batch parse": (batch_parse, 10),
    "decode": (decode, 10),
}

TEXT_WORKLOADS: dict[str, Callable[[], Workload]] = {
    f"{name}, {text}": on_text(work, text, messages)
    for name, (work, messages) in TEXT_WORKS.items()
    for text in TEXTS
}

WORKLOADS: dict[str, Callable[[], Workload]] = {
    "stream + messages, the last 10 of 2,000": lambda: late_messages(2000, 10),
    "render 50 turns, never seen": lambda: never_seen(50),
    "render 50 turns and the next one": next_turn,
    "render the same 20 tools": lambda: with_tools(lambda _run: 7),
    "render 20 new tools": lambda: with_tools(lambda run: 100 + run),
    "encode new text": lambda: Workload("token", new_text, encode),
    "render two prompts in turn": lambda: Workload("prompt", two_prompts, render_in_turn),
    "render two prompts in two threads": lambda: Workload("prompt", two_prompts, render_in_threads),
}

SWEEPS: dict[str, Callable[[int], Workload]] = {
    "encode one CJK word of n characters": one_word,
    "stream one message of n tokens, reading current_content": one_message,
    "render a conversation of n turns": never_seen,
}
