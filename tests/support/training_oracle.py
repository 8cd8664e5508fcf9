"""An oracle for training data, written from OpenAI's guide and the docs, and not from the code.

A `Talk` is a conversation in plain terms. `learned` returns what a model should learn from it: each
sampled token with the prompt that stands before it, and its weight. `WRITERS` write the same talk
as rows of the forms that people publish. A row is read well if its examples teach what the talk
does.

The oracle shares only the vocabulary with the library. It writes every prompt out as text.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from gpt_oss_harmony import load_harmony_encoding

ENCODING = load_harmony_encoding("HarmonyGptOss")
DATE = "2025-06-28"
IDENTITY = "You are ChatGPT, a large language model trained by OpenAI."

# Each function with the TypeScript that the guide writes for it.
FUNCTIONS: dict[str, tuple[dict[str, Any], str]] = {
    "get_location": (
        {"name": "get_location", "description": "Gets the location of the user."},
        "// Gets the location of the user.\ntype get_location = () => any;",
    ),
    "get_current_weather": (
        {
            "name": "get_current_weather",
            "description": "Gets the current weather in the provided location.",
            "parameters": {
                "type": "object",
                "properties": {
                    "location": {
                        "type": "string",
                        "description": "The city and state, e.g. San Francisco, CA",
                    },
                    "format": {
                        "type": "string",
                        "enum": ["celsius", "fahrenheit"],
                        "default": "celsius",
                    },
                },
                "required": ["location"],
            },
        },
        "// Gets the current weather in the provided location.\n"
        "type get_current_weather = (_: {\n"
        "// The city and state, e.g. San Francisco, CA\n"
        "location: string,\n"
        'format?: "celsius" | "fahrenheit", // default: celsius\n'
        "}) => any;",
    ),
}


@dataclass
class Said:
    """What a system prompt (``system``) or a person (``user``) says."""

    role: str
    text: str


@dataclass
class Call:
    function: str
    arguments: str
    result: str


@dataclass
class Step:
    """What the model writes in one go. With calls, `text` is a preamble; else it is the answer."""

    reasoning: str = ""
    text: str = ""
    calls: list[Call] = field(default_factory=list)
    weight: float = 1.0


@dataclass
class Talk:
    items: list[Said | Step]
    functions: list[str] = field(default_factory=list)
    effort: str = "medium"
    weight: float = 1.0


# What the model should learn


@dataclass
class _Piece:
    """A message of the prompt: its header's words, its body, and its stop token."""

    head: str
    body: str
    stop: str
    reasoning: bool = False
    answer: bool = False
    sampled_weight: float = 0.0
    """The weight of a message of the model; 0 for all others."""
    follows_sampling: bool = False
    """Whether the model writes it without a pause, so that it also samples its beginning."""


def learned(talk: Talk, *, date: str | None = DATE) -> Counter[tuple[tuple[int, ...], int, float]]:
    """Return how often each token is learned after which prompt, and with which weight."""
    found: Counter[tuple[tuple[int, ...], int, float]] = Counter()
    pieces: list[_Piece] = []
    instructions: list[str] = []
    for item in talk.items:
        if isinstance(item, Said):
            if item.role == "user":
                pieces.append(_Piece("user", item.text, "<|end|>"))
            else:
                instructions.append(item.text)
            continue
        new = list(_written(item, talk.weight))
        past = _without_past_reasoning(pieces)
        prompt = _opening(talk, instructions, date)
        for piece in past:
            prompt += _message(piece, "<|end|>" if piece.stop == "<|return|>" else piece.stop)
        for piece in new:
            start = _ids("<|start|>assistant")
            written = _ids(piece.head.removeprefix("assistant") + "<|message|>")
            written += ENCODING.encode(piece.body, disallowed_special=()) + _ids(piece.stop)
            if piece.follows_sampling:
                written = start + written
            else:
                prompt += start
            for token in written:
                if piece.sampled_weight:
                    found[tuple(prompt), token, piece.sampled_weight] += 1
                prompt.append(token)
        pieces += new
        pieces += [
            _Piece(
                f"functions.{call.function} to=assistant<|channel|>commentary",
                call.result,
                "<|end|>",
            )
            for call in item.calls
        ]
    return found


def _written(step: Step, weight: float) -> Iterator[_Piece]:
    weight *= step.weight
    follows = False
    if step.reasoning:
        yield _Piece("assistant<|channel|>analysis", step.reasoning, "<|end|>", True, False, weight)
        follows = True
    if step.text:
        channel, stop = ("commentary", "<|end|>") if step.calls else ("final", "<|return|>")
        yield _Piece(
            f"assistant<|channel|>{channel}",
            step.text,
            stop,
            answer=not step.calls,
            sampled_weight=weight,
            follows_sampling=follows,
        )
        follows = True
    for call in step.calls:
        yield _Piece(
            f"assistant<|channel|>commentary to=functions.{call.function} <|constrain|>json",
            call.arguments,
            "<|call|>",
            sampled_weight=weight,
            follows_sampling=follows,
        )
        follows = False


def _without_past_reasoning(pieces: list[_Piece]) -> list[_Piece]:
    """Return the messages without the reasoning before the last answer."""
    last = max((index for index, piece in enumerate(pieces) if piece.answer), default=-1)
    return [piece for index, piece in enumerate(pieces) if index > last or not piece.reasoning]


def _opening(talk: Talk, instructions: list[str], date: str | None) -> list[int]:
    system = f"{IDENTITY}\nKnowledge cutoff: 2024-06\n"
    system += f"Current date: {date}\n" if date else ""
    system += f"\nReasoning: {talk.effort}\n\n# Valid channels: analysis, commentary, final. "
    system += "Channel must be included for every message."
    if talk.functions:
        system += "\nCalls to these tools must go to the commentary channel: 'functions'."
    tokens = _message(_Piece("system", system, "<|end|>"), "<|end|>")
    parts = ["# Instructions\n\n" + "\n\n".join(instructions)] if instructions else []
    if talk.functions:
        types = "".join(FUNCTIONS[name][1] + "\n\n" for name in talk.functions)
        parts.append(
            "# Tools\n\n## functions\n\nnamespace functions {\n\n"
            + types
            + "} // namespace functions"
        )
    if parts:
        developer = _Piece("developer", "\n\n".join(parts), "<|end|>")
        tokens += _message(developer, "<|end|>")
    return tokens


def _message(piece: _Piece, stop: str) -> list[int]:
    body = ENCODING.encode(piece.body, disallowed_special=())
    return _ids(f"<|start|>{piece.head}<|message|>") + body + _ids(stop)


def _ids(text: str) -> list[int]:
    return ENCODING.encode(text, allowed_special="all")


def taught(
    examples: Iterable[tuple[list[int], list[int], list[float]]],
) -> Counter[tuple[tuple[int, ...], int, float]]:
    """Return what examples teach: of ids, labels (-100 for none) and the weight of each label."""
    found: Counter[tuple[tuple[int, ...], int, float]] = Counter()
    for ids, labels, weights in examples:
        for position, (label, weight) in enumerate(zip(labels, weights, strict=True)):
            if label != -100 and weight:
                found[tuple(ids[:position]), label, weight] += 1
    return found


# Talks


def random_talk(
    chance: random.Random,
    *,
    calls: bool = True,
    reasoning: bool = True,
    instructions: str = "anywhere",
    turns: int = 3,
    weights: bool = False,
) -> Talk:
    """Return a talk of a few turns. `instructions`: ``"anywhere"``, ``"first"`` or ``"none"``."""
    words = ["Tokyo", "naïve café", "<|end|>", "{x}", "日本", "a  b", "1,234", "\n\tif x:", "🙂"]

    def text() -> str:
        return " ".join(chance.choices(words, k=chance.randint(1, 4))) + "."

    names = sorted(FUNCTIONS)
    functions = chance.sample(names, chance.randint(1, len(names))) if calls else []
    items: list[Said | Step] = []
    for turn in range(chance.randint(1, turns)):
        if (instructions == "anywhere" and chance.random() < 0.4) or (
            instructions == "first" and turn == 0 and chance.random() < 0.7
        ):
            items.append(Said("system", text()))
        items.append(Said("user", text()))
        while functions and chance.random() < 0.5:
            made = []
            for _ in range(1 if chance.random() < 0.7 else 2):
                name = chance.choice(functions)
                given = {"location": text()} if name == "get_current_weather" else {}
                made.append(Call(name, json.dumps(given), text()))
            thought = text() if reasoning and chance.random() < 0.7 else ""
            preamble = text() if chance.random() < 0.3 else ""
            items.append(Step(thought, preamble, made))
        thought = text() if reasoning and chance.random() < 0.7 else ""
        items.append(Step(thought, text()))
    if weights:
        for item in items:
            if isinstance(item, Step):
                item.weight = chance.choice([0.0, 0.5, 1.0, 2.0])
        steps = [item for item in items if isinstance(item, Step)]
        steps[-1].weight = steps[-1].weight or 1.0
    return Talk(items, functions, chance.choice(["low", "medium", "high"]))


# Rows


def chat_messages(
    items: Iterable[Said | Step], *, reasoning: str = "reasoning_content", system: str = "system"
) -> list[dict[str, Any]]:
    """Write messages of Chat Completions."""
    written: list[dict[str, Any]] = []
    count = 0
    for item in items:
        if isinstance(item, Said):
            role = system if item.role == "system" else "user"
            written.append({"role": role, "content": item.text})
            continue
        message: dict[str, Any] = {"role": "assistant", "content": item.text or None}
        if item.reasoning:
            message[reasoning] = item.reasoning
        if item.weight != 1.0:
            message["weight"] = item.weight
        results = []
        for call in item.calls:
            count += 1
            function = {"name": call.function, "arguments": call.arguments}
            entry = {"id": f"call_{count}", "type": "function", "function": function}
            message.setdefault("tool_calls", []).append(entry)
            results.append(
                {"role": "tool", "tool_call_id": f"call_{count}", "content": call.result}
            )
        written += [message, *results]
    return written


def tools_of(talk: Talk) -> list[dict[str, Any]]:
    return [{"type": "function", "function": FUNCTIONS[name][0]} for name in talk.functions]


def _beside(talk: Talk) -> dict[str, Any]:
    fields: dict[str, Any] = {"reasoning_effort": talk.effort}
    if talk.functions:
        fields["tools"] = tools_of(talk)
    return fields


def write_chat(talk: Talk) -> dict[str, Any]:
    return {"messages": chat_messages(talk.items), **_beside(talk)}


def write_thinking(talk: Talk) -> dict[str, Any]:
    """Write what Multilingual-Thinking and the chat template have: `thinking` beside `content`."""
    return {"messages": chat_messages(talk.items, reasoning="thinking"), **_beside(talk)}


def write_parts(talk: Talk) -> dict[str, Any]:
    """Write lists of parts, with the reasoning among them, and the texts cut into several."""
    messages = chat_messages(talk.items)
    for message in messages:
        parts: list[dict[str, str]] = []
        thought = message.pop("reasoning_content", None)
        if thought:
            parts.append({"type": "thinking", "thinking": thought})
        text = message["content"] or ""
        pieces = [text[:3], text[3:]] if message["role"] == "assistant" else [text]
        parts += [{"type": "text", "text": piece} for piece in pieces if piece]
        message["content"] = parts or None
    return {"messages": messages, **_beside(talk)}


def write_joint_results(talk: Talk) -> dict[str, Any]:
    """Write the results of several calls into one message."""
    messages: list[dict[str, Any]] = []
    for message in chat_messages(talk.items):
        if message["role"] != "tool":
            messages.append(message)
            continue
        result = {"tool_call_id": message["tool_call_id"], "content": message["content"]}
        if messages[-1]["role"] == "tool":
            messages[-1]["content"].append(result)
        else:
            messages.append({"role": "tool", "content": [result]})
    return {"messages": messages, **_beside(talk)}


def write_template_arguments(talk: Talk) -> dict[str, Any]:
    row = write_chat(talk)
    row["chat_template_kwargs"] = {"reasoning_effort": row.pop("reasoning_effort")}
    return row


def write_function_call(talk: Talk) -> dict[str, Any]:
    """Write OpenAI's earlier form: `functions`, and one `function_call` in a message."""
    messages: list[dict[str, Any]] = []
    for message in chat_messages(talk.items):
        for call in message.pop("tool_calls", []):
            message["function_call"] = call["function"]
        if message["role"] == "tool":
            name = messages[-1]["function_call"]["name"]
            message = {"role": "function", "name": name, "content": message["content"]}
        messages.append(message)
    row: dict[str, Any] = {"messages": messages, "reasoning_effort": talk.effort}
    if talk.functions:
        row["functions"] = [FUNCTIONS[name][0] for name in talk.functions]
    return row


def write_sharegpt(talk: Talk) -> dict[str, Any]:
    turns: list[dict[str, Any]] = []
    for item in talk.items:
        if isinstance(item, Said):
            turns.append({"from": "human" if item.role == "user" else "system", "value": item.text})
            continue
        value = f"<think>\n{item.reasoning}\n</think>\n\n" if item.reasoning else ""
        value += item.text
        for call in item.calls:
            body = json.dumps(
                {"name": call.function, "arguments": json.loads(call.arguments)},
                ensure_ascii=False,
            )
            value += f"\n<tool_call>\n{body}\n</tool_call>"
        turns.append({"from": "gpt", "value": value})
        turns += [{"from": "tool", "value": call.result} for call in item.calls]
    row: dict[str, Any] = {"conversations": turns, "reasoning_effort": talk.effort}
    if talk.functions:
        row["tools"] = json.dumps(tools_of(talk))
    return row


def write_conversations_with_roles(talk: Talk) -> dict[str, Any]:
    return {"conversations": chat_messages(talk.items), **_beside(talk)}


def write_prompt_completion(talk: Talk) -> dict[str, Any]:
    """Write TRL's lists: all but the last step is the prompt, which is not trained on."""
    *prompt, last = talk.items
    return {
        "prompt": chat_messages(prompt),
        "completion": chat_messages([last]),
        **_beside(talk),
    }


def write_prompt_completion_text(talk: Talk) -> dict[str, Any]:
    question, answer = talk.items
    assert isinstance(question, Said)
    assert isinstance(answer, Step)
    return {"prompt": question.text, "completion": answer.text, "reasoning_effort": talk.effort}


def write_alpaca(talk: Talk) -> dict[str, Any]:
    """Write Alpaca's fields. The input follows the instruction after an empty line."""
    system = next((item.text for item in talk.items if isinstance(item, Said)), "")
    *_, question, answer = talk.items
    assert isinstance(question, Said)
    assert isinstance(answer, Step)
    instruction, _, rest = question.text.partition("\n\n")
    row = {"instruction": instruction, "input": rest, "output": answer.text}
    if len(talk.items) == 3:
        row["system"] = system
    return {**row, "reasoning_effort": talk.effort}


def write_alpaca_history(talk: Talk) -> dict[str, Any]:
    """Write earlier turns as pairs; their answers are learned, too."""
    said = [item.text for item in talk.items]
    pairs = [list(pair) for pair in zip(said[::2], said[1::2], strict=True)]
    *history, (instruction, output) = pairs
    row = {"instruction": instruction, "output": output, "history": history}
    return {**row, "reasoning_effort": talk.effort}


def write_preference(talk: Talk) -> dict[str, Any]:
    """Write TRL's lists for preferences; the chosen answer is the talk's last step."""
    *prompt, last = talk.items
    return {
        "prompt": chat_messages(prompt),
        "chosen": chat_messages([last]),
        "rejected": [{"role": "assistant", "content": "No."}],
        **_beside(talk),
    }


def write_openai_preference(talk: Talk) -> dict[str, Any]:
    """Write OpenAI's rows for preferences."""
    row = write_preference(talk)
    return {
        "input": {"messages": row["prompt"], "tools": row.get("tools", [])},
        "preferred_output": row["chosen"],
        "non_preferred_output": row["rejected"],
        "reasoning_effort": talk.effort,
    }


def write_responses(talk: Talk) -> dict[str, Any]:
    """Write items of the Responses API."""
    items: list[dict[str, Any]] = []
    count = 0
    part: dict[str, Any]
    for item in talk.items:
        if isinstance(item, Said):
            role = "developer" if item.role == "system" else "user"
            part = {"type": "input_text", "text": item.text}
            items.append({"type": "message", "role": role, "content": [part]})
            continue
        if item.reasoning:
            part = {"type": "reasoning_text", "text": item.reasoning}
            items.append({"type": "reasoning", "summary": [], "content": [part]})
        if item.text:
            part = {"type": "output_text", "text": item.text, "annotations": []}
            items.append({"type": "message", "role": "assistant", "content": [part]})
        results = []
        for call in item.calls:
            count += 1
            name, arguments, call_id = call.function, call.arguments, f"call_{count}"
            items.append(
                {
                    "type": "function_call",
                    "call_id": call_id,
                    "name": name,
                    "arguments": arguments,
                }
            )
            results.append(
                {"type": "function_call_output", "call_id": call_id, "output": call.result}
            )
        items += results
    row: dict[str, Any] = {"input": items, "reasoning": {"effort": talk.effort}}
    if talk.functions:
        row["tools"] = [{"type": "function", **FUNCTIONS[name][0]} for name in talk.functions]
    return row


def write_harmony(talk: Talk) -> dict[str, Any]:
    """Write the messages of the harmony library, with their channels and recipients."""
    system: dict[str, Any] = {
        "type": "system_content",
        "model_identity": IDENTITY,
        "reasoning_effort": talk.effort.capitalize(),
        "conversation_start_date": DATE,
        "knowledge_cutoff": "2024-06",
        "channel_config": {
            "valid_channels": ["analysis", "commentary", "final"],
            "channel_required": True,
        },
    }
    messages: list[dict[str, Any]] = [{"role": "system", "content": [system]}]
    first = talk.items[0]
    instructions = first.text if isinstance(first, Said) and first.role == "system" else None
    if instructions or talk.functions:
        developer: dict[str, Any] = {"type": "developer_content", "instructions": instructions}
        if talk.functions:
            tools = [FUNCTIONS[name][0] for name in talk.functions]
            developer["tools"] = {
                "functions": {"name": "functions", "description": None, "tools": tools}
            }
        messages.append({"role": "developer", "content": [developer]})
    for item in talk.items:
        if isinstance(item, Said):
            if item.role == "user":
                messages.append({"role": "user", "content": item.text})
            continue
        speaks = {"role": "assistant", "weight": item.weight}
        if item.reasoning:
            messages.append({**speaks, "channel": "analysis", "content": item.reasoning})
        if item.text:
            channel = "commentary" if item.calls else "final"
            messages.append({**speaks, "channel": channel, "content": item.text})
        messages += [
            {
                **speaks,
                "channel": "commentary",
                "recipient": f"functions.{call.function}",
                "content_type": "<|constrain|>json",
                "content": call.arguments,
            }
            for call in item.calls
        ]
        messages += [
            {
                "role": "tool",
                "name": f"functions.{call.function}",
                "recipient": "assistant",
                "channel": "commentary",
                "content": call.result,
            }
            for call in item.calls
        ]
    return {"messages": messages}


def _only_the_last_step(talk: Talk) -> Talk:
    for item in talk.items[:-1]:
        if isinstance(item, Step):
            item.weight = 0.0
    return talk


def _one_turn(chance: random.Random, question: str | None = None) -> Talk:
    talk = random_talk(chance, calls=False, reasoning=False, instructions="none", turns=1)
    if question is not None:
        talk.items[0] = Said("user", question)
    return talk


def _one_call_a_step(talk: Talk) -> Talk:
    for item in talk.items:
        if isinstance(item, Step):
            del item.calls[1:]
    return talk


def _alpaca_talk(chance: random.Random) -> Talk:
    talk = _one_turn(chance, chance.choice(["Add.", "Add.\n\n1 and 2", "Say 日本."]))
    if chance.random() < 0.5:
        talk.items.insert(0, Said("system", "Be brief."))
    return talk


def _trimmed(talk: Talk) -> Talk:
    """Return a talk whose texts have no space at their ends, as tags would lose it."""
    for item in talk.items:
        if isinstance(item, Step):
            item.reasoning, item.text = item.reasoning.strip(), item.text.strip()
            for call in item.calls:
                arguments = json.loads(call.arguments)
                call.arguments = json.dumps(arguments, ensure_ascii=False)
    return talk


Writer = Callable[[Talk], dict[str, Any]]

WRITERS: dict[str, tuple[Callable[[random.Random], Talk], Writer]] = {
    "chat": (lambda chance: random_talk(chance, weights=chance.random() < 0.3), write_chat),
    "thinking": (random_talk, write_thinking),
    "content parts": (random_talk, write_parts),
    "joint results": (random_talk, write_joint_results),
    "template arguments": (random_talk, write_template_arguments),
    "harmony": (
        lambda chance: random_talk(chance, instructions="first", weights=True),
        write_harmony,
    ),
    "function_call": (lambda chance: _one_call_a_step(random_talk(chance)), write_function_call),
    "sharegpt": (lambda chance: _trimmed(random_talk(chance)), write_sharegpt),
    "conversations with roles": (random_talk, write_conversations_with_roles),
    "prompt and completion": (
        lambda chance: _only_the_last_step(random_talk(chance)),
        write_prompt_completion,
    ),
    "prompt and completion as text": (_one_turn, write_prompt_completion_text),
    "alpaca": (_alpaca_talk, write_alpaca),
    "alpaca with history": (
        lambda chance: random_talk(chance, calls=False, reasoning=False, instructions="none"),
        write_alpaca_history,
    ),
    "responses": (random_talk, write_responses),
}

PREFERENCES: dict[str, Writer] = {
    "preferences": write_preference,
    "preferences of OpenAI": write_openai_preference,
}
"""Rows with two answers; `preference_talk` makes their talks."""


def preference_talk(chance: random.Random) -> Talk:
    return _only_the_last_step(random_talk(chance))
