"""Record what the reference makes of the cases of the conformance kit, or compare.

    python scripts/conformance/record_cases.py [--check]

The reference, openai-harmony, lies in ``build/peers``, where it is installed if it is not there. No
expected value comes from this library. A case says under ``checked`` how its values are made:

``recorded``
    The reference's own answer.
``encoded``
    The text is written by hand, after the source. The reference encodes it.
``composed``
    The reference renders the messages (those that a chat request means are written by hand). Calls,
    results and response formats, which it spells otherwise or not at all, are spelled as the guide
    does.
``pieces``
    The pieces of a training example are written by hand. The reference encodes them, and where
    its own rendering can say the same, it must.
``hand``
    The messages are written by hand, after the source. The reference encodes the text alone.

``tokens.json`` gets the spelling of every token in the cases, and of those that spell dates, from
the vocabulary file of the reference.

With ``--check`` nothing is written; the exit status says whether anything would change.
"""

from __future__ import annotations

import argparse
import base64
import json
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts" / "parity"))

from peers import import_peer, peer_folder  # noqa: E402

if import_peer("reference") is None:
    sys.exit("record_cases: openai-harmony cannot be installed; run this with a package index")

from openai_harmony import (  # noqa: E402 - the peer, instead of the drop-in
    Conversation,
    HarmonyError,
    Message,
    RenderConversationConfig,
    RenderOptions,
    Role,
    StreamableParser,
    load_harmony_encoding,
)

DATA = ROOT / "packages" / "conformance" / "gpt_oss_harmony_conformance"
CASES = DATA / "cases"
TOKENS = DATA / "tokens.json"
ENCODING = load_harmony_encoding("HarmonyGptOss")
NO_LABEL = -100

Case = dict[str, Any]


def encoded(text: str) -> list[int]:
    return ENCODING.encode(text, allowed_special="all")


def conversation_of(messages: list[dict[str, Any]]) -> Conversation:
    return Conversation.from_json(json.dumps({"messages": messages}))


# What the reference answers


def render(given: Case) -> Case:
    try:
        tokens = rendered(given)
    except (HarmonyError, ValueError) as error:
        return {"error": str(error)}
    return {"text": ENCODING.decode_utf8(tokens), "tokens": tokens}


def rendered(given: Case) -> list[int]:
    conversation = conversation_of(given["messages"])
    config = RenderConversationConfig(auto_drop_analysis=given.get("drop_reasoning", True))
    if given["mode"] == "message":
        options = RenderOptions(conversation_has_function_tools=given["has_function_tools"])
        return ENCODING.render(conversation.messages[0], options)
    if given["mode"] == "training":
        return ENCODING.render_conversation_for_training(conversation, config)
    if given["mode"] == "plain":
        return ENCODING.render_conversation(conversation, config)
    role = Role(given["next_role"])
    return ENCODING.render_conversation_for_completion(conversation, role, config)


def parse(given: Case) -> Case:
    role = Role(given["role"]) if given["role"] else None
    try:
        messages = ENCODING.parse_messages_from_completion_tokens(given["tokens"], role)
    except HarmonyError as error:
        return {"error": str(error)}
    return {"messages": [neutral(message) for message in messages]}


def stream(given: Case) -> Case:
    """Feed every token, whatever errors there were before; an error at the end has their number."""
    parser = StreamableParser(ENCODING, Role(given["role"]) if given["role"] else None)
    errors: list[list[Any]] = []
    deltas: list[str | None] = []
    for position, token in enumerate(given["tokens"]):
        try:
            parser.process(token)
        except HarmonyError as error:
            errors.append([position, str(error)])
        deltas.append(parser.last_content_delta)
    state_data = dict(parser.state_data)
    try:
        parser.process_eos()
    except HarmonyError as error:
        errors.append([len(given["tokens"]), str(error)])
    messages = [neutral(message) for message in parser.messages]
    return {"errors": errors, "state_data": state_data, "deltas": deltas, "messages": messages}


def neutral(message: Message) -> Case:
    """A message without the fields that say nothing."""
    fields = message.to_dict()
    (content,) = fields.pop("content")
    named = {key: value for key, value in fields.items() if value is not None}
    return {**named, "content": content["text"]}


ANSWERS: dict[str, Callable[[Case], Case]] = {"render": render, "parse": parse, "stream": stream}


# What the reference cannot say by itself


GUIDE_CALL = "<|channel|>{channel} to={recipient} <|constrain|>{type}"
REFERENCE_CALL = " to={recipient}<|channel|>{channel} {type}"
OTHER_CALLS = (
    REFERENCE_CALL,  # and the chat template's
    " to={recipient}<|channel|>{channel} <|constrain|>{type}",
    "<|channel|>{channel} to={recipient} {type}",
)
GUIDE_RESULT = " to=assistant<|channel|>{channel}"
OTHER_RESULT = "<|channel|>{channel} to=assistant"  # oss-harmony's

CALL_RULES = ("call-is-spelled-as-in-the-guide", "chat-call")
RESULT_RULES = ("tool-result-header", "chat-result-header")
"""Rules about the spelling of calls and results; cases of others take any spelling."""


def other_spellings(rule: str) -> list[tuple[str, str]]:
    """The spellings of calls and results that will do as well."""
    calls = [(call, GUIDE_RESULT) for call in OTHER_CALLS]
    if rule in RESULT_RULES:
        return calls
    if rule in CALL_RULES:
        return [(GUIDE_CALL, OTHER_RESULT)]
    return [*calls, (GUIDE_CALL, OTHER_RESULT), (REFERENCE_CALL, OTHER_RESULT)]


def composed(
    messages: list[dict[str, Any]], call: str = GUIDE_CALL, result: str = GUIDE_RESULT
) -> Case:
    """The prompt of a conversation, without past reasoning, with headers in this spelling."""
    answers = [at for at, message in enumerate(messages) if message.get("channel") == "final"]
    last_answer = max(answers, default=-1)
    tokens: list[int] = []
    has_functions = any(functions_of(message) for message in messages)
    for at, message in enumerate(messages):
        if message.get("channel") == "analysis" and at < last_answer:
            continue
        if is_call(message):
            tokens += spelled(f"assistant{call}", "<|call|>", message)
        elif message["role"] == "tool":
            tokens += spelled(f"{{name}}{result}", "<|end|>", message)
        elif message["role"] == "developer":
            tokens += composed_developer(message)
        else:
            options = RenderOptions(conversation_has_function_tools=has_functions)
            (read,) = conversation_of([message]).messages
            tokens += ENCODING.render(read, options)
    tokens += encoded("<|start|>assistant")
    return {"text": ENCODING.decode_utf8(tokens), "tokens": tokens}


def functions_of(message: Case) -> bool:
    content = message["content"][0]
    return isinstance(content, dict) and bool(content.get("tools"))


def is_call(message: Case) -> bool:
    return message["role"] == "assistant" and "recipient" in message


def spelled(header: str, stop: str, message: Case) -> list[int]:
    kind = message.get("content_type", "").removeprefix("<|constrain|>")
    written = header.format(**{**message, "type": kind})
    content = message["content"]
    body = content if isinstance(content, str) else "".join(part["text"] for part in content)
    plain = ENCODING.encode(body, disallowed_special=())
    return [*encoded(f"<|start|>{written}<|message|>"), *plain, *encoded(stop)]


def composed_developer(message: Case) -> list[int]:
    (content,) = message["content"]
    formats = content.get("response_formats", {})
    (read,) = conversation_of(
        [{**message, "content": [{k: v for k, v in content.items() if k != "response_formats"}]}]
    ).messages
    tokens = ENCODING.render(read)
    if not formats:
        return tokens
    sections = [ENCODING.decode_utf8(tokens[3:-1])] if len(tokens) > 4 else []
    sections.append("# Response Formats")
    for name, declared in formats.items():
        comment = f"// {declared['description']}\n" if "description" in declared else ""
        schema = json.dumps(declared["json_schema"], separators=(",", ":"), ensure_ascii=False)
        sections += [f"## {name}", comment + schema]
    body = ENCODING.encode("\n\n".join(sections), disallowed_special=())
    return [*tokens[:3], *body, *tokens[-1:]]


def training_example(pieces: list[Case]) -> Case:
    """Tokens and labels of pieces; a label is another text of as many tokens, or the same."""
    tokens: list[int] = []
    labels: list[int] = []
    for piece in pieces:
        ids = encoded(piece["text"])
        tokens += ids
        labels += encoded(piece["label"]) if "label" in piece else [NO_LABEL] * len(ids)
    assert tokens == encoded("".join(piece["text"] for piece in pieces))
    assert len(tokens) == len(labels)
    return {"pieces": pieces, "tokens": tokens, "labels": labels}


def train(given: Case, expected: Case) -> Case:
    examples = [training_example(example["pieces"]) for example in expected["examples"]]
    messages = given["messages"]
    says_the_same = len(examples) == 1 and messages[-1].get("channel") == "final"
    if says_the_same and not any("recipient" in message for message in messages):
        config = RenderConversationConfig(auto_drop_analysis=False)
        theirs = ENCODING.render_conversation_for_training(conversation_of(messages), config)
        assert theirs == examples[0]["tokens"]
    result: Case = {"examples": examples}
    if any(map(is_call, messages)):
        others = [[respelled(one, other) for one in examples] for other in OTHER_CALLS]
        result["also"] = [{"examples": other} for other in others if other != examples]
    return result


def respelled(example: Case, spelling: str) -> Case:
    """An example with its calls in another spelling."""
    call = {"channel": "commentary", "recipient": "functions.f", "type": "json"}
    headers = {GUIDE_CALL.format(**call): spelling.format(**call)}
    if spelling is REFERENCE_CALL:
        headers["<|channel|>analysis to=python code"] = " to=python<|channel|>analysis code"
    pieces = example["pieces"]
    for old, new in headers.items():
        pieces = [{key: text.replace(old, new) for key, text in one.items()} for one in pieces]
    return training_example(pieces)


# Files


def recorded(case: Case) -> Case:
    """The case with its expected values made anew; a new case has none yet."""
    needed = {"id", "rule", "source", "checked", "operation", "input"}
    if case.get("checked") != "recorded":
        needed.add("expected")
    if missing := ", ".join(sorted(needed - case.keys())):
        sys.exit(f"record_cases: the case {case.get('id', case)!r} lacks {missing}")
    given, expected = dict(case["input"]), dict(case.get("expected", {}))
    if case["operation"] in ("parse", "stream") and "text" in given:
        given["tokens"] = encoded(given["text"])
    how = case["checked"]
    if how == "recorded":
        expected = ANSWERS[case["operation"]](given)
    elif how == "encoded":
        for said in (expected, *expected.get("also", ())):
            said["tokens"] = encoded(said["text"])
    elif how == "composed":
        messages = expected.get("messages") or given["messages"]
        expected.update(composed(messages))
        if any(map(is_call, messages)):
            others = [composed(messages, *other) for other in other_spellings(case["rule"])]
            expected["also"] = [other for other in others if other["text"] != expected["text"]]
    elif how == "pieces":
        expected = train(given, expected)
    return {**case, "input": given, "expected": expected}


def as_text(file: Case) -> str:
    """JSON of a line for each value, but for lists of numbers, which stand in one line."""
    text = json.dumps(file, ensure_ascii=False, indent=1)
    numbers = re.compile(r"\[\s*(?:(?:-?\d+|null),\s*)*(?:-?\d+|null)\s*\]")
    return (
        numbers.sub(
            lambda row: re.sub(r"\s+", " ", row[0]).replace("[ ", "[").replace(" ]", "]"), text
        )
        + "\n"
    )


# The table of tokens


ALWAYS = re.compile(rb"[0-9]{1,3}|-| |<\|[a-z]+\|>")
"""The pieces of a date, and the names of the special tokens that are not reserved."""


def token_table(cases: list[Case], version: str) -> Case:
    """The spelling of the tokens that the runner may have to show or to write."""
    vocabulary = spellings()
    always = {token for token, spelled in vocabulary.items() if ALWAYS.fullmatch(spelled)}
    used = {*tokens_in(cases), *always}
    text: dict[str, str] = {}
    raw: dict[str, str] = {}
    for token in sorted(used & {*vocabulary}):
        try:
            text[str(token)] = vocabulary[token].decode()
        except UnicodeDecodeError:
            raw[str(token)] = vocabulary[token].hex()
    return {"version": version, "text": text, "bytes": raw}


def spellings() -> dict[int, bytes]:
    """The bytes of every token; those of a special token are its name."""
    folder = peer_folder("reference")
    assert folder is not None
    vocabulary: dict[int, bytes] = {}
    with (folder / "o200k_base.tiktoken").open(encoding="ascii") as lines:
        for line in lines:
            spelled, token = line.split()
            vocabulary[int(token)] = base64.b64decode(spelled)
    for name in ENCODING.special_tokens_set:
        (special,) = encoded(name)
        vocabulary[special] = name.encode()
    return vocabulary


def tokens_in(value: Any, name: str = "") -> Iterator[int]:
    """All tokens of the cases: those of inputs, expected values and labels."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from tokens_in(item, key)
    elif isinstance(value, list):
        for item in value:
            yield from tokens_in(item, name)
    elif name in ("tokens", "labels"):
        yield value


def main() -> int:
    parser = argparse.ArgumentParser(description="Record the cases of the conformance kit.")
    parser.add_argument("--check", action="store_true", help="write nothing, only compare")
    check = parser.parse_args().check
    changed = 0
    files: dict[Path, Case] = {}
    for path in sorted(CASES.glob("*.json")):
        file = json.loads(path.read_text(encoding="utf-8"))
        files[path] = {**file, "cases": [recorded(case) for case in file["cases"]]}
        for old, new in zip(file["cases"], files[path]["cases"], strict=True):
            if old != new:
                changed += 1
                print("would change" if check else "recorded", new["id"])
    rules = json.loads((DATA / "rules.json").read_text(encoding="utf-8"))
    cases = [case for file in files.values() for case in file["cases"]]
    files[TOKENS] = token_table(cases, rules["version"])
    for path, file in files.items():
        before = path.read_text(encoding="utf-8") if path.exists() else ""
        if as_text(file) == before:
            continue
        changed += 1
        print("would write" if check else "wrote", path.relative_to(ROOT))
        if not check:
            path.write_text(as_text(file), encoding="utf-8")
    return int(check and changed > 0)


if __name__ == "__main__":
    sys.exit(main())
