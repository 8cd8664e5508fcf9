"""The answers of one library to parity cases: ours, the reference or its fork.

All three are asked by the reference's API alone; `options` are what only our configurations know.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import ModuleType
from typing import Any, TypeAlias

Answer: TypeAlias = tuple[Any, list[str]]
"""What must be equal, and the words of the errors, to which ours may add."""

EOS = "eos"


class Library:
    """One of the three libraries, with the options of its configurations."""

    def __init__(self, module: ModuleType, **options: Any) -> None:
        self._module = module
        self._options: Mapping[str, Any] = options
        self._encoding = module.load_harmony_encoding("HarmonyGptOss")
        self._errors = (
            module.HarmonyError, RuntimeError, ValueError, OverflowError, TypeError,
        )  # fmt: skip

    def answer(self, case: dict[str, Any]) -> Answer:
        if case["kind"] == "stream":
            return self._stream(case)
        try:
            method = getattr(self, f"_{case['kind']}")
            return method(case), []
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # noqa: BLE001 - a panic of the reference is no Exception
            if case["kind"] == "parse":
                return {"error": self._error_class(error)}, self._error_words(error)
            if isinstance(error, (RuntimeError, ValueError, OverflowError)):
                return {"error": "runtime" if isinstance(error, RuntimeError) else "value"}, []
            return {"error": type(error).__name__}, []

    def _error_class(self, error: BaseException) -> str:
        """Name what an `except` can catch the error as."""
        found = [one.__name__ for one in self._errors if isinstance(error, one)]
        return " ".join(found) or type(error).__name__

    def _error_words(self, error: BaseException) -> list[str]:
        return [str(error)] if isinstance(error, self._module.HarmonyError) else []

    def _render(self, case: dict[str, Any]) -> Any:
        conversation = self._module.Conversation.from_json(json.dumps(case["conversation"]))
        mode = case["mode"]
        if mode == "message":
            options = self._module.RenderOptions(
                conversation_has_function_tools=case["has_function_tools"], **self._options
            )
            return [self._encoding.render(message, options) for message in conversation.messages]
        config = self._module.RenderConversationConfig(
            auto_drop_analysis=case["auto_drop_analysis"], **self._options
        )
        if mode == "completion":
            role = self._module.Role(case["role"])
            return self._encoding.render_conversation_for_completion(conversation, role, config)
        if mode == "training":
            return self._encoding.render_conversation_for_training(conversation, config)
        return self._encoding.render_conversation(conversation, config)

    def _schema(self, case: dict[str, Any]) -> Any:
        tool = self._module.ToolDescription.new("f", "d", case["schema"])
        content = self._module.DeveloperContent.new().with_function_tools([tool])
        message = self._module.Message.from_role_and_content(self._module.Role.DEVELOPER, content)
        return self._encoding.decode(
            self._encoding.render(message, self._module.RenderOptions(**self._options))
        )

    def _parse(self, case: dict[str, Any]) -> Any:
        role = self._module.Role(case["role"]) if case["role"] else None
        tokens = [token for token in case["tokens"] if token != EOS]
        messages = self._encoding.parse_messages_from_completion_tokens(tokens, role)
        return [message.to_dict() for message in messages]

    def _stream(self, case: dict[str, Any]) -> Answer:
        """Return what a server can read after every token, whatever errors there were before."""
        parser = self._module.StreamableParser(
            self._encoding, self._module.Role(case["role"]) if case["role"] else None
        )
        seen, words = [self._properties(parser)], []
        for token in [*case["tokens"], EOS, EOS]:
            error = None
            try:
                if token == EOS:
                    parser.process_eos()
                else:
                    parser.process(token)
            except (KeyboardInterrupt, SystemExit):
                raise
            except BaseException as raised:  # noqa: BLE001 - a panic of the reference is no Exception
                error = self._error_class(raised)
                words += self._error_words(raised)
            after = self._properties(parser)
            after["error"] = error
            if after["state"] != seen[-1]["state"] or error is not None or token == EOS:
                after["messages"] = [message.to_dict() for message in parser.messages]
            seen.append(after)
        return {"seen": seen, "tokens": list(parser.tokens)}, words

    def _properties(self, parser: Any) -> dict[str, Any]:
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

    def _encode(self, case: dict[str, Any]) -> Any:
        sets = {}
        for key in ("allowed_special", "disallowed_special"):
            if key in case:
                sets[key] = case[key] if case[key] == "all" else set(case[key])
        return self._encoding.encode(case["text"], **sets)

    def _decode(self, case: dict[str, Any]) -> Any:
        if case["strict"]:
            return self._encoding.decode_utf8(case["tokens"])
        return self._encoding.decode(case["tokens"])
