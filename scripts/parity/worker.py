"""Answer parity cases with whatever `gpt_oss_harmony` this interpreter imports.

The same file runs under this library, the reference and its fork, so it uses the reference's API
alone; `OPTIONS` holds what only this library knows and is passed to the configs.

As a program it reads a line of JSON, ``{"cases": […], "whole": false}``, and writes one: for each
case the `digest` of the answer and the words of its errors, or the whole answer.
"""

from __future__ import annotations

import hashlib
import json
import sys
from typing import Any, TypeAlias

import gpt_oss_harmony as harmony
from gpt_oss_harmony import (
    Conversation,
    DeveloperContent,
    HarmonyError,
    Message,
    Role,
    StreamableParser,
    ToolDescription,
    load_harmony_encoding,
)

Answer: TypeAlias = tuple[Any, list[str]]
"""What must be equal, and the words of the errors, to which ours may add."""

EOS = "eos"
ERRORS = (HarmonyError, RuntimeError, ValueError, OverflowError, TypeError)
OPTIONS: dict[str, Any] = {}
ENCODING = load_harmony_encoding("HarmonyGptOss")
RenderConversationConfig = harmony.RenderConversationConfig
RenderOptions = harmony.RenderOptions


def answer(case: dict[str, Any]) -> Answer:
    if case["kind"] == "stream":
        return stream(case)
    try:
        return ANSWERS[case["kind"]](case), []
    except BaseException as error:  # noqa: BLE001 - a panic of the reference is no Exception
        if case["kind"] == "parse":
            return {"error": error_class(error)}, error_words(error)
        if isinstance(error, (RuntimeError, ValueError, OverflowError)):
            return {"error": "runtime" if isinstance(error, RuntimeError) else "value"}, []
        return {"error": type(error).__name__}, []


def error_class(error: BaseException) -> str:
    """Name what an `except` can catch the error as."""
    found = [one.__name__ for one in ERRORS if isinstance(error, one)]
    return " ".join(found) or type(error).__name__


def error_words(error: BaseException) -> list[str]:
    return [str(error)] if isinstance(error, HarmonyError) else []


def render(case: dict[str, Any]) -> Any:
    conversation = Conversation.from_json(json.dumps(case["conversation"]))
    mode = case["mode"]
    if mode == "message":
        options = RenderOptions(
            conversation_has_function_tools=case["has_function_tools"], **OPTIONS
        )
        return [ENCODING.render(message, options) for message in conversation.messages]
    config = RenderConversationConfig(auto_drop_analysis=case["auto_drop_analysis"], **OPTIONS)
    if mode == "completion":
        role = Role(case["role"])
        return ENCODING.render_conversation_for_completion(conversation, role, config)
    if mode == "training":
        return ENCODING.render_conversation_for_training(conversation, config)
    return ENCODING.render_conversation(conversation, config)


def schema(case: dict[str, Any]) -> Any:
    tool = ToolDescription.new("f", "d", case["schema"])
    content = DeveloperContent.new().with_function_tools([tool])
    message = Message.from_role_and_content(Role.DEVELOPER, content)
    return ENCODING.decode(ENCODING.render(message, RenderOptions(**OPTIONS)))


def parse(case: dict[str, Any]) -> Any:
    role = Role(case["role"]) if case["role"] else None
    tokens = [token for token in case["tokens"] if token != EOS]
    messages = ENCODING.parse_messages_from_completion_tokens(tokens, role)
    return [message.to_dict() for message in messages]


def stream(case: dict[str, Any]) -> Answer:
    """Everything that a server can read, after every token, whatever errors there were before."""
    parser = StreamableParser(ENCODING, Role(case["role"]) if case["role"] else None)
    seen, words = [properties(parser)], []
    for token in [*case["tokens"], EOS, EOS]:
        error = None
        try:
            if token == EOS:
                parser.process_eos()
            else:
                parser.process(token)
        except BaseException as raised:  # noqa: BLE001 - a panic of the reference is no Exception
            error = error_class(raised)
            words += error_words(raised)
        after = properties(parser)
        after["error"] = error
        if after["state"] != seen[-1]["state"] or error is not None or token == EOS:
            after["messages"] = [message.to_dict() for message in parser.messages]
        seen.append(after)
    return {"seen": seen, "tokens": list(parser.tokens)}, words


def properties(parser: StreamableParser) -> dict[str, Any]:
    role = parser.current_role
    return {
        "state": parser.state.value,
        "role": role.value if role is not None else None,
        "channel": parser.current_channel,
        "recipient": parser.current_recipient,
        "content_type": parser.current_content_type,
        "content": parser.current_content,
        "delta": parser.last_content_delta,
        "state_data": parser.state_data,
    }


def encode(case: dict[str, Any]) -> Any:
    sets = {}
    for key in ("allowed_special", "disallowed_special"):
        if key in case:
            sets[key] = case[key] if case[key] == "all" else set(case[key])
    return ENCODING.encode(case["text"], **sets)


def decode(case: dict[str, Any]) -> Any:
    if case["strict"]:
        return ENCODING.decode_utf8(case["tokens"])
    return ENCODING.decode(case["tokens"])


ANSWERS = {
    "render": render,
    "schema": schema,
    "parse": parse,
    "encode": encode,
    "decode": decode,
}


def digest(given: Answer) -> list[Any]:
    """Cut an answer to what two processes need to compare."""
    what, words = given
    return [hashlib.blake2b(json.dumps(what).encode(), digest_size=8).hexdigest(), words]


def main() -> None:
    for line in sys.stdin:
        batch = json.loads(line)
        answers = [answer(case) for case in batch["cases"]]
        found = answers if batch["whole"] else [digest(given) for given in answers]
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
