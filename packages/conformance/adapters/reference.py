"""openai-harmony 0.0.8 or its fork oss-harmony 0.0.11, whichever this Python has."""

from __future__ import annotations

import json
import sys
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from openai_harmony import (
    Conversation,
    HarmonyError,
    RenderConversationConfig,
    RenderOptions,
    Role,
    StreamableParser,
    load_harmony_encoding,
)

ENCODING = load_harmony_encoding("HarmonyGptOss")


def render(given: dict[str, Any], level: str) -> dict[str, Any]:
    conversation = Conversation.from_json(json.dumps({"messages": given["messages"]}))
    config = RenderConversationConfig(auto_drop_analysis=given.get("drop_reasoning", True))
    if given["mode"] == "message":
        options = RenderOptions(conversation_has_function_tools=given["has_function_tools"])
        tokens = ENCODING.render(conversation.messages[0], options)
    elif given["mode"] == "completion":
        role = Role(given["next_role"])
        tokens = ENCODING.render_conversation_for_completion(conversation, role, config)
    elif given["mode"] == "training":
        tokens = ENCODING.render_conversation_for_training(conversation, config)
    else:
        tokens = ENCODING.render_conversation(conversation, config)
    return {"tokens": tokens, "text": ENCODING.decode_utf8(tokens)}


def parse(given: dict[str, Any], level: str) -> dict[str, Any]:
    role = Role(given["role"]) if given["role"] else None
    strict = level != "recovery"
    messages = ENCODING.parse_messages_from_completion_tokens(given["tokens"], role, strict=strict)
    return {"messages": [message.to_dict() for message in messages]}


def stream(given: dict[str, Any], level: str) -> dict[str, Any]:
    parser = StreamableParser(ENCODING, Role(given["role"]) if given["role"] else None)
    errors, deltas = [], []
    for position, token in enumerate(given["tokens"]):
        try:
            parser.process(token)
        except HarmonyError:
            errors.append(position)
        deltas.append(parser.last_content_delta)
    try:
        parser.process_eos()
    except HarmonyError:
        errors.append(len(given["tokens"]))
    messages = [message.to_dict() for message in parser.messages]
    return {"messages": messages, "errors": errors, "deltas": deltas}


def train(given: dict[str, Any], level: str) -> dict[str, Any]:
    """The tokens of a conversation, without labels."""
    answered = render({**given, "mode": "training"}, level)
    return {"examples": [{"tokens": answered["tokens"]}]}


ANSWERS = {"render": render, "parse": parse, "stream": stream, "train": train}


def describe() -> dict[str, Any]:
    for name in ("oss-harmony", "openai-harmony"):
        try:
            return {"name": name, "version": version(name)}
        except PackageNotFoundError:
            continue
    return {"unsupported": "neither is installed"}


def answer(request: dict[str, Any]) -> dict[str, Any]:
    if request["operation"] == "describe":
        return describe()
    if request["operation"] not in ANSWERS:
        return {"unsupported": "a library for messages, without an API of chats"}
    try:
        return ANSWERS[request["operation"]](request["input"], request["level"])
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        return {"error": str(error)}


if __name__ == "__main__":
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line))), flush=True)
