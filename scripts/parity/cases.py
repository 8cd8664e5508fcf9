"""Seeded cases for the comparison with the reference: conversations, token streams, texts.

Everything is drawn from one `random.Random`, so that a seed and a number name a case.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from random import Random
from typing import Any, TypeAlias

from schema_cases import schemas

from openai_harmony import Conversation, RenderConversationConfig, load_harmony_encoding
from openai_harmony.tokens.special_tokens import (
    CALL,
    CHANNEL,
    CONSTRAIN,
    END,
    MESSAGE,
    RETURN,
    SPECIAL_TEXTS,
    START,
)

Case: TypeAlias = dict[str, Any]

ENCODING = load_harmony_encoding("HarmonyGptOss")

ROLES = ["user", "assistant", "system", "developer", "tool"]
CHANNELS = ["analysis", "commentary", "final"]
TOOLS = ["functions.f", "functions.get_weather", "python", "browser.search", "bash"]
MARKERS = [START, END, MESSAGE, CHANNEL, CONSTRAIN, RETURN, CALL]
SNIPPETS = [
    "hello", " world", "\n", "\n\n", "  ", "\t", "{\"a\": 1}", "naïve café", "日本語の文章",
    "👩‍👩‍👧 family", "don't I'LL we've", "<|end|>", "<|start|>assistant",
    "<|channel|>final", "to=functions.f", "12345678", "x=1;\r\n", "ﷺ", "é", "end.",
    "   trailing ", "\u200b", "a\u0301", "Ω≈ç√", "…", "'s", "// c", "# Tools",
    "assistant", "<|reserved_200000|>", "<|fim_prefix|>", "\x00", "\x1c",
]  # fmt: skip


def text(random: Random, most: int = 6) -> str:
    return "".join(random.choice(SNIPPETS) for _ in range(random.randint(0, most)))


def word(random: Random) -> str:
    return random.choice(
        ["json", "code", "text", "x", "a b", "", " json", "<|constrain|>json", "é"]
    )


def maybe(random: Random, value: Any, chance: float = 0.5) -> Any:
    return value if random.random() < chance else None


# Conversations


def conversation(random: Random, *, clean: bool = False) -> Case:
    count = random.randint(0, 8)
    return {"messages": [message(random, clean=clean) for _ in range(count)]}


def message(random: Random, *, clean: bool) -> Case:
    role = random.choices(ROLES, weights=[4, 8, 1, 1, 3])[0]
    out: Case = {"role": role, "content": contents(random, role, clean=clean)}
    if role == "tool":
        out["name"] = random.choice(TOOLS)
    if clean:
        if role != "tool" and random.random() < 0.05:
            out["name"] = "bob"
        return {**out, **clean_header(random, role)}
    if role != "tool":
        out["name"] = maybe(random, random.choice(["bob", "Ann", "", "x y"]), 0.1)
    elif random.random() < 0.03:
        out["name"] = None
    for key, chance, values in (
        ("channel", 0.6, [*CHANNELS, *CHANNELS, "other", "", " c", "<|end|>"]),
        ("recipient", 0.3, [*TOOLS, "assistant", "all", "", "<|call|>", "a b"]),
        ("content_type", 0.25, None),
    ):
        value = random.choice(values) if values else word(random)
        out[key] = maybe(random, value, chance)
    return {key: value for key, value in out.items() if value is not None or key == "name"}


def clean_header(random: Random, role: str) -> Case:
    """A header such as the models write and read."""
    if role == "assistant":
        if random.random() < 0.4:
            content_type = random.choice(
                [{}, {"content_type": "json"}, {"content_type": "<|constrain|>json"}]
            )
            return {
                "channel": random.choice(CHANNELS[:2]),
                "recipient": random.choice(TOOLS),
                **content_type,
            }
        return {"channel": random.choice(CHANNELS)} if random.random() < 0.9 else {}
    if role == "tool":
        return {"recipient": "assistant", "channel": "commentary"}
    return {}


def contents(random: Random, role: str, *, clean: bool) -> Any:
    kind = random.random()
    if role == "system" and kind < 0.8:
        return [system_content(random)]
    if role == "developer" and kind < 0.8:
        return [developer_content(random)]
    if kind < 0.02 and not clean:
        return [random.choice([system_content, developer_content])(random)]
    if kind < 0.5:
        return text(random)
    return [{"type": "text", "text": text(random)} for _ in range(random.randint(0, 3))]


def system_content(random: Random) -> Case:
    out: Case = {"type": "system_content"}
    choices: dict[str, list[Any]] = {
        "model_identity": [None, "", "You are x.", text(random)],
        "reasoning_effort": [None, "Low", "Medium", "High"],
        "conversation_start_date": [None, "2025-06-28", text(random, 1)],
        "knowledge_cutoff": [None, "2024-06", text(random, 1)],
        "channel_config": [
            None,
            {"valid_channels": ["analysis", "final"], "channel_required": True},
            {"valid_channels": ["a"], "channel_required": False},
            {"valid_channels": [], "channel_required": True},
        ],
        "tools": [None, tools(random)],
    }
    for key, values in choices.items():
        if random.random() < 0.5:
            out[key] = random.choice(values)
    return out


def developer_content(random: Random) -> Case:
    out: Case = {"type": "developer_content"}
    if random.random() < 0.7:
        out["instructions"] = random.choice([None, "", text(random)])
    if random.random() < 0.7:
        out["tools"] = tools(random)
    return out


def tools(random: Random) -> Case:
    out: Case = {}
    for key in random.sample(["functions", "browser", "zeta", "alpha"], random.randint(0, 3)):
        out[key] = {
            "name": key if random.random() < 0.9 else random.choice(["functions", "other"]),
            "description": maybe(random, text(random)),
            "tools": [tool(random) for _ in range(random.randint(0, 3))],
        }
    return out


def tool(random: Random) -> Case:
    (schema,) = schemas(random.getrandbits(32), 1)
    parameters = schema if isinstance(schema, dict) else {}
    return {
        "name": random.choice(["f", "get_weather", "x"]),
        "description": text(random),
        "parameters": maybe(random, parameters, 0.7),
    }


def render_case(random: Random) -> Case:
    return {
        "kind": "render",
        "conversation": conversation(random),
        "mode": random.choice(["completion", "training", "plain", "message"]),
        "role": random.choice(ROLES),
        "auto_drop_analysis": random.random() < 0.7,
        "has_function_tools": random.random() < 0.3,
    }


# Token streams


def stream_tokens(random: Random) -> list[int]:
    config = RenderConversationConfig(
        auto_drop_analysis=False, header_style=random.choice(["reference", "guide", "oss-harmony"])
    )
    data = conversation(random, clean=True)
    tokens = ENCODING.render_conversation(Conversation.from_json(json.dumps(data)), config)
    return tokens[: random.randint(0, 160)] if random.random() < 0.3 else tokens[:240]


def damage(random: Random, tokens: list[int]) -> list[int]:
    tokens = list(tokens)
    for _ in range(random.randint(0, 3)):
        at = random.randint(0, len(tokens))
        step = random.randrange(5)
        if step == 0:
            del tokens[at : at + random.randint(1, 4)]
        elif step == 1:
            tokens.insert(at, random.choice(MARKERS))
        elif step == 2:
            tokens[at:at] = ENCODING.encode(text(random, 2), disallowed_special=())
        elif step == 3:
            tokens[at:at] = tokens[at : at + random.randint(1, 6)]
        else:
            tokens.insert(at, random.choice([random.randrange(200), random.randrange(201_400)]))
    return tokens


def stream_case(random: Random, kind: str = "stream") -> Case:
    tokens = stream_tokens(random)
    role = None
    if tokens and random.random() < 0.6:  # as after a generation prompt
        role, tokens = "assistant", tokens[2:]
    if random.random() < 0.6:
        tokens = damage(random, tokens)
    return {"kind": kind, "tokens": tokens, "role": role}


def parse_case(random: Random) -> Case:
    return stream_case(random, "parse")


# Texts


def encode_case(random: Random) -> Case:
    case: Case = {"kind": "encode", "text": text(random, 12)}
    specials = [*random.sample(sorted(SPECIAL_TEXTS.values()), 3), "<|end|>", "<|nothing|>"]
    if random.random() < 0.6:
        case["allowed_special"] = random.choice(["all", [], random.sample(specials, 3)])
    if random.random() < 0.6:
        case["disallowed_special"] = random.choice(["all", [], random.sample(specials, 3)])
    return case


def decode_case(random: Random) -> Case:
    tokens = ENCODING.encode(text(random, 12), disallowed_special=())
    return {"kind": "decode", "tokens": damage(random, tokens), "strict": random.random() < 0.5}


def schema_case(random: Random) -> Case:
    (schema,) = schemas(random.getrandbits(32), 1)
    return {"kind": "schema", "schema": schema}


MAKERS: list[tuple[Callable[[Random], Case], int]] = [
    (render_case, 6),
    (stream_case, 6),
    (parse_case, 3),
    (schema_case, 3),
    (encode_case, 2),
    (decode_case, 1),
]


def cases(seed: int, count: int) -> Iterator[Case]:
    """Draw `count` cases of all kinds."""
    random = Random(seed)
    makers, weights = zip(*MAKERS, strict=True)
    for _ in range(count):
        (make,) = random.choices(makers, weights)
        yield make(Random(random.getrandbits(64)))
