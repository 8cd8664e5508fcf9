"""gpt-oss-harmony itself: as a module, or as a command under any Python that has it."""

from __future__ import annotations

import json
import sys
from typing import Any

from gpt_oss_harmony import (
    Conversation,
    HarmonyError,
    RenderConversationConfig,
    RenderOptions,
    Role,
    StreamableParser,
    TokenError,
    __version__,
    load_harmony_encoding,
)
from gpt_oss_harmony.apis import ChatRequest, turn_of_chat
from gpt_oss_harmony.sampled_messages import prompt_tokens
from gpt_oss_harmony.training import training_examples

ENCODING = load_harmony_encoding("HarmonyGptOss")
GUIDE = {"header_style": "guide", "reasoning_rule": "by-turn"}
REFERENCE = {"schema_dialect": "reference"}


def conversation_of(given: dict[str, Any]) -> Conversation:
    return Conversation.from_json(json.dumps({"messages": given["messages"]}))


def render(given: dict[str, Any], level: str) -> dict[str, Any]:
    options = REFERENCE if level == "reference" else GUIDE
    conversation = conversation_of(given)
    if given["mode"] == "message":
        has_tools = given["has_function_tools"]
        message_options = RenderOptions(
            conversation_has_function_tools=has_tools,
            **{k: v for k, v in options.items() if k != "reasoning_rule"},
        )
        tokens = ENCODING.render(conversation.messages[0], message_options)
    else:
        drop = given.get("drop_reasoning", True)
        config = RenderConversationConfig(auto_drop_analysis=drop, **options)
        if given["mode"] == "completion":
            role = Role(given["next_role"])
            tokens = ENCODING.render_conversation_for_completion(conversation, role, config)
        elif given["mode"] == "training":
            tokens = ENCODING.render_conversation_for_training(conversation, config)
        else:
            tokens = ENCODING.render_conversation(conversation, config)
    return {"tokens": tokens, "text": ENCODING.decode_utf8(tokens)}


def parser_of(given: dict[str, Any], level: str) -> StreamableParser:
    tools = given.get("tools", ())
    return StreamableParser(ENCODING, given["role"], strict=level != "recovery", tools=tools)


def parse(given: dict[str, Any], level: str) -> dict[str, Any]:
    parser = parser_of(given, level)
    parser.process_many(given["tokens"])
    parser.process_eos()
    return {"messages": [message.to_dict() for message in parser.messages]}


def stream(given: dict[str, Any], level: str) -> dict[str, Any]:
    parser = parser_of(given, level)
    errors, deltas = [], []
    for position, token in enumerate(given["tokens"]):
        try:
            parser.process(token)
        except TokenError:
            errors.append(position)
        deltas.append(parser.last_content_delta)
    try:
        parser.process_eos()
    except TokenError:
        errors.append(len(given["tokens"]))
    messages = [message.to_dict() for message in parser.messages]
    return {"messages": messages, "errors": errors, "deltas": deltas}


def chat(given: dict[str, Any], level: str) -> dict[str, Any]:
    turn = turn_of_chat(ChatRequest(**given["request"]), date=given["date"])
    config = RenderConversationConfig(auto_drop_analysis=False, header_style="guide")
    tokens = list(prompt_tokens(ENCODING, turn.conversation, config))
    return {"tokens": tokens, "text": ENCODING.decode_utf8(tokens)}


def train(given: dict[str, Any], level: str) -> dict[str, Any]:
    examples = training_examples(conversation_of(given))
    return {"examples": [{"tokens": e.input_ids, "labels": e.labels} for e in examples]}


ANSWERS = {"render": render, "parse": parse, "stream": stream, "chat": chat, "train": train}


def answer(request: dict[str, Any]) -> dict[str, Any]:
    if request["operation"] == "describe":
        return {"name": "gpt-oss-harmony", "version": __version__}
    try:
        return ANSWERS[request["operation"]](request["input"], request["level"])
    except HarmonyError as error:
        return {"error": str(error)}


if __name__ == "__main__":
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line))), flush=True)
