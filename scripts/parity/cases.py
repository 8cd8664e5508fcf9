"""Seeded cases for the comparison with the reference: conversations, token streams, texts.

A seed and a number name a case, so that several processes can share the work.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any, TypeAlias

from schema_cases import schemas

from gpt_oss_harmony import Conversation, RenderConversationConfig, load_harmony_encoding
from gpt_oss_harmony.tokens.special_tokens import (
    CALL,
    CHANNEL,
    CONSTRAIN,
    END,
    MESSAGE,
    RETURN,
    SPECIAL_TEXTS,
    START,
)
from gpt_oss_harmony.tokens.vocabulary import load_vocabulary

Case: TypeAlias = dict[str, Any]

ENCODING = load_harmony_encoding("HarmonyGptOss")
VOCABULARY = load_vocabulary()
ROOT = Path(__file__).resolve().parents[2]
KIT = ROOT / "packages" / "conformance" / "gpt_oss_harmony_conformance" / "cases"

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
        [
            "json",
            "code",
            "text",
            "x",
            "",
            " json",
            "<|constrain|>json",
            "é",
            rarely(random, "a b", "x"),
        ]
    )


def rarely(random: Random, value: str, usual: str) -> str:
    """Draw a value that our renderer refuses."""
    return value if random.random() < 0.03 else usual


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
        out["name"] = maybe(random, random.choice(["bob", "Ann", rarely(random, "x y", "Bo")]), 0.1)
    elif random.random() < 0.03:
        out["name"] = None
    for key, chance, values in (
        ("channel", 0.6, [*CHANNELS, *CHANNELS, "other", rarely(random, "<|end|>", "c")]),
        ("recipient", 0.3, [*TOOLS, "assistant", "all", rarely(random, "a b", "|")]),
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
#
# A stream is a list of token ids and of two things that are none: values that are no token, and
# `EOS`, which stands for a call of `process_eos`.

EOS = "eos"
ODD_VALUES = [201_088, 201_089, 300_000, 2**32 - 1, 2**32, -1, 2**70, True, 1.5, "5", None]
BROKEN_BYTES = [[94], [127], [9552], [9552, 99], [9552, 99, 250], [99, 250], [35, 94, 200_006]]
"""Tokens of bytes: 94 begins no character, 127 needs one more, 9552, 99 and 250 are a parrot."""

BYTES = {VOCABULARY[token][0]: token for token in range(256)}

RECORDED = [
    case["input"]["text"]
    for case in json.loads((KIT / "recovery.json").read_text(encoding="utf-8"))["cases"]
]
REPORTED = [
    '<|channel|>final {"answer": "hi"}<|return|>',
    "I'm sorry, but I can't help with that.<|return|>",
    "Hello! How can I help?<|return|>",
    " to=functions.bash<|channel|>commentary <|constrain|>json<|message|>{}<|call|>",
    "<|channel|>commentary functions.bash <|constrain|>json<|message|>{}<|call|>",
    "<|channel|>commentary functions.bash json<|message|>{}<|call|>",
    "<|channel|>commentary to=functions.f\u200b<|message|>{}<|call|>",
    "<|channel|>commentary <|constrain|>response to=functions.f json<|message|>{}<|call|>",
    "<|channel|>commentary to=container.exec  彩神争霸高json<|message|>{}<|call|>",
    "<|channel|>commentary to=functions.Web Search<|message|>{}<|call|>",
    "<|channel|>analysis<|message|>a<|end|><|start|>tool<|message|>b<|call|>",
    "<|channel|>analysis<|message|>a<|end|>assistant<|channel|>final<|message|>b<|return|>",
    "<|channel|>analysis<|message|>a<|start|>assistant<|channel|>final<|message|>b<|return|>",
]

AUTHORS = [
    "assistant", "assistant", "assistant", "user", "system", "developer", "tool", "functions.f",
    "user:bob", "Assistant", " assistant", "assistant\n", "assistants", "python", "to=functions.f",
    "", "\x1cassistant", "<|constrain|>assistant",
]  # fmt: skip
RECIPIENTS = [
    " to=functions.f", " to=functions.bash", "to=assistant", " to=", " to= functions.f", " TO=f",
    " to=functions.f to=functions.f", " to=a to=b", " to =f", " to=container.exec", "\tto=f",
    " to=functions.f\u200b", " to=functions.Web Search",
]  # fmt: skip
CHANNEL_NAMES = [
    "analysis", "commentary", "commentary", "final", "final", "", " final", "commentary ", "fi<nal",
    "commentaryjson", "final\x1c", "final\u3000", "analysis\n", "<|constrain|>json", "日本",
]  # fmt: skip
CONTENT_TYPES = [
    " <|constrain|>json", "<|constrain|>json", " <|constrain|> json", "<|constrain|>", " json",
    " code", "json", " <|constrain|>response", "<|constrain|><|constrain|>json",
]  # fmt: skip
WORDS = [
    " functions.bash", " a", " a b", " a b c", ' {"answer": "hi"}', "I'm sorry, but I", "assistant",
    " user", " \u200b", "\u3000", "\x0b", "\x85", "\x0c", "\r\n", "  ", " é", " a\u0301", " কা",
    ' "q"', " \\", " \x00", " 🦜", " 彩神争霸高json", " \u00ad", " \ue000", "=", "to=", "<", "|>",
    " <|end|>",
]  # fmt: skip


def encode(marked_up: str) -> list[Any]:
    return ENCODING.encode(marked_up, allowed_special="all")


def encode_plainly(words: str) -> list[Any]:
    return ENCODING.encode(words, disallowed_special=())


def of_conversation(random: Random) -> Case:
    """A rendered conversation, whole or from its first generation prompt on, often damaged."""
    config = RenderConversationConfig(
        auto_drop_analysis=False, header_style=random.choice(["reference", "guide", "oss-harmony"])
    )
    data = conversation(random, clean=True)
    tokens: list[Any] = ENCODING.render_conversation(
        Conversation.from_json(json.dumps(data)), config
    )
    tokens = tokens[: random.choice([20, 60, 120, 120])]
    role = None
    if tokens and random.random() < 0.6:
        role, tokens = "assistant", tokens[2:]
    if random.random() < 0.6:
        tokens = sprinkle(random, damage(random, tokens))
    return {"tokens": tokens, "role": role}


def of_headers(random: Random) -> Case:
    """Messages of a few words; the parts of their headers are dropped, doubled and exchanged."""
    role = random.choice(["assistant", "assistant", "assistant", None, "user", "tool"])
    tokens: list[Any] = []
    for at in range(random.randint(1, 3)):
        parts = header_parts(random)
        if at == 0 and role is not None:
            del parts[: random.choice([2] * 8 + [1, 0])]
        for _ in range(random.choice([0, 0, 1, 1, 2, 4])):
            change_parts(random, parts)
        parts += [text(random, 2), random.choice(["<|end|>", "<|call|>", "<|return|>", ""])]
        for part in parts:
            tokens += (encode if random.random() < 0.95 else encode_plainly)(part)
    return {"tokens": sprinkle(random, tokens), "role": role}


def header_parts(random: Random) -> list[str]:
    """A header of a usual order; most of its parts are usual ones."""
    return [
        "<|start|>",
        random.choice(AUTHORS),
        random.choice([*RECIPIENTS, *[""] * 20]),
        random.choice(["<|channel|>"] * 9 + [""]) + random.choice(CHANNEL_NAMES),
        random.choice([*RECIPIENTS, *[""] * 6]),
        random.choice([*CONTENT_TYPES, *[""] * 6]),
        random.choice([*WORDS, *[""] * 40]),
        "<|message|>",
    ]


def change_parts(random: Random, parts: list[str]) -> None:
    at, other = random.randrange(len(parts) + 1), random.randrange(len(parts) + 1)
    step = random.randrange(4)
    if step == 0:
        del parts[at : at + 1]
    elif step == 1:
        parts[at:at] = parts[other : other + 1]
    elif step == 2:
        parts[at : at + 1], parts[other : other + 1] = (
            parts[other : other + 1],
            parts[at : at + 1],
        )
    else:
        markers = [SPECIAL_TEXTS[token] for token in MARKERS]
        choices = [
            AUTHORS,
            RECIPIENTS,
            CHANNEL_NAMES,
            CONTENT_TYPES,
            WORDS,
            WORDS,
            markers,
            markers,
        ]
        parts.insert(at, random.choice(random.choice(choices)))


def of_reports(random: Random) -> Case:
    """A malformed output that somebody has seen, in part of the cases damaged further."""
    marked_up = random.choice([*RECORDED, *REPORTED * 3])
    if random.random() < 0.2:
        marked_up += random.choice([*RECORDED, *REPORTED])
    tokens = encode(marked_up)[:150]
    role = random.choice(["assistant"] * 5 + [None])
    if role is None:
        tokens = encode("<|start|>assistant") + tokens
    if random.random() < 0.6:
        tokens = sprinkle(random, damage(random, tokens))
    return {"tokens": tokens, "role": role}


ALPHABET = [
    *MARKERS, MESSAGE, START, CHANNEL,
    *map(encode_plainly, ("assistant", "user", " to=", "f", " final", "json", " ", "\n")),
]  # fmt: skip


def of_noise(random: Random) -> Case:
    """Markers and a few words in any order."""
    tokens: list[Any] = []
    for _ in range(random.randint(0, 24)):
        drawn = random.choice(ALPHABET)
        tokens += drawn if isinstance(drawn, list) else [drawn]
    return {
        "tokens": sprinkle(random, tokens),
        "role": random.choice(["assistant", "assistant", None, *ROLES]),
    }


def of_bytes(random: Random) -> Case:
    """Bodies, now and then headers, in which characters are cut."""
    tokens = encode(random.choice(["<|start|>user", "<|start|>assistant<|channel|>final"]))
    if random.random() < 0.1:
        tokens += random.choice(BROKEN_BYTES)
    tokens.append(MESSAGE)
    for _ in range(random.randint(1, 12)):
        step = random.randrange(4)
        if step == 0:
            tokens += random.choice(BROKEN_BYTES)
        elif step == 1:  # a byte for a token
            tokens += [BYTES[byte] for byte in random.choice(SNIPPETS).encode()]
        elif step == 2:
            tokens += encode_plainly(random.choice(["🦜", "👩‍👩‍👧", "𠮷", "龘", "é", "한"]))
        else:
            tokens += encode_plainly(random.choice(SNIPPETS))
        if random.random() < 0.05:
            tokens.append(random.choice([START, MESSAGE, CHANNEL, 199_999, 200_000, 201_089]))
    if random.random() < 0.8:
        tokens.append(random.choice([END, RETURN, CALL]))
    return {"tokens": tokens, "role": None}


def damage(random: Random, tokens: list[Any]) -> list[Any]:
    tokens = list(tokens)
    for _ in range(random.randint(0, 3)):
        at = random.randint(0, len(tokens))
        step = random.randrange(6)
        if step == 0:
            del tokens[at : at + random.randint(1, 4)]
        elif step == 1:
            tokens.insert(at, random.choice(MARKERS))
        elif step == 2:
            tokens[at:at] = encode_plainly(text(random, 2))
        elif step == 3:
            tokens[at:at] = tokens[at : at + random.randint(1, 6)]
        elif step == 4:
            tokens[at:at] = encode(random.choice([*WORDS, *CONTENT_TYPES, *RECIPIENTS]))
        else:
            tokens.insert(at, random.choice([random.randrange(200), random.randrange(201_400)]))
    return tokens


def sprinkle(random: Random, tokens: list[Any]) -> list[Any]:
    """Insert a value that is no token, or an early end, into one stream in ten."""
    if random.random() < 0.1:
        tokens.insert(random.randint(0, len(tokens)), random.choice([EOS, *ODD_VALUES]))
    return tokens


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
    tokens = encode_plainly(text(random, 12))
    return {"kind": "decode", "tokens": damage(random, tokens), "strict": random.random() < 0.5}


def schema_case(random: Random) -> Case:
    (schema,) = schemas(random.getrandbits(32), 1)
    return {"kind": "schema", "schema": schema}


SOURCES: dict[str, tuple[Callable[[Random], Case], int]] = {
    "headers": (of_headers, 8),
    "reports": (of_reports, 4),
    "conversation": (of_conversation, 4),
    "noise": (of_noise, 2),
    "bytes": (of_bytes, 2),
}
MAKERS: dict[str, tuple[Callable[[Random], Case], int]] = {
    "render": (render_case, 4),
    "schema": (schema_case, 2),
    "encode": (encode_case, 1),
    "decode": (decode_case, 1),
    **{f"stream of {name}": (make, weight) for name, (make, weight) in SOURCES.items()},
    **{f"parse of {name}": (make, weight // 2) for name, (make, weight) in SOURCES.items()},
}


def case(seed: int, number: int, *, only: str = "") -> Case:
    """Draw a case of any kind, or of the kinds whose name begins with `only`."""
    random = Random(f"{seed}/{number}")
    names = [name for name in MAKERS if name.startswith(only)]
    (name,) = random.choices(names, [MAKERS[name][1] for name in names])
    return {"name": name, "kind": name.split()[0], **MAKERS[name][0](random)}
