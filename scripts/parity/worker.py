"""Answer parity cases with whatever `openai_harmony` this interpreter imports.

Reads one JSON case a line on standard input and writes one JSON answer a line. The same file
runs under this library, the reference and its fork, so it uses the reference's API alone; the
options that only this library knows come as ``--options JSON`` and are passed to the configs.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import openai_harmony as harmony
from openai_harmony import (
    Conversation,
    DeveloperContent,
    HarmonyError,
    Message,
    Role,
    StreamableParser,
    ToolDescription,
    load_harmony_encoding,
)

OPTIONS: dict[str, Any] = json.loads(sys.argv[1]) if len(sys.argv) > 1 else {}
ENCODING = load_harmony_encoding("HarmonyGptOss")
RenderConversationConfig = harmony.RenderConversationConfig
RenderOptions = harmony.RenderOptions


def answer(case: dict[str, Any]) -> Any:
    try:
        return ANSWERS[case["kind"]](case)
    except (RuntimeError, ValueError, OverflowError) as error:
        return {"error": "runtime" if isinstance(error, RuntimeError) else "value"}
    except Exception as error:  # noqa: BLE001 - the kind of the error is the answer
        return {"error": type(error).__name__}


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
    messages = ENCODING.parse_messages_from_completion_tokens(case["tokens"], role)
    return [plain(message) for message in messages]


def stream(case: dict[str, Any]) -> Any:
    """Everything a server can read, after every token, up to the first error."""
    parser = StreamableParser(ENCODING, Role(case["role"]) if case["role"] else None)
    seen = [properties(parser)]
    for token in case["tokens"]:
        try:
            parser.process(token)
        except (HarmonyError, OverflowError):
            return {"seen": seen, "error_at": len(seen) - 1, "messages": len(parser.messages)}
        seen.append(properties(parser))
    try:
        parser.process_eos()
    except HarmonyError:
        return {"seen": seen, "error_at": "end", "messages": len(parser.messages)}
    seen.append(properties(parser))
    return {
        "seen": seen,
        "messages": [plain(message) for message in parser.messages],
        "tokens": list(parser.tokens),
    }


def properties(parser: StreamableParser) -> list[Any]:
    state = dict(parser.state_data)
    state.pop("content_tokens", None)  # the reference encodes them anew; see the divergences
    role = parser.current_role
    return [
        parser.state.value,
        role.value if role is not None else None,
        parser.current_channel,
        parser.current_recipient,
        parser.current_content_type,
        parser.current_content,
        parser.last_content_delta,
        len(parser.messages),
        state,
    ]


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


def plain(message: Message) -> dict[str, Any]:
    data: dict[str, Any] = json.loads(json.dumps(message.to_dict()))
    return data


ANSWERS = {
    "render": render,
    "schema": schema,
    "parse": parse,
    "stream": stream,
    "encode": encode,
    "decode": decode,
}


def main() -> None:
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
