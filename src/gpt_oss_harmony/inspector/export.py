"""Export of a conversation: as JSON, as a test vector, or as a Python program.

The program builds the conversation again with this library and prints the text of its tokens. Its
names `conversation` and `tokens` hold what the page shows.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from enum import Enum
from typing import Any

from pydantic import BaseModel
from typing_extensions import TypedDict  # of Python 3.12, which pydantic needs

from ..apis.request_body import is_deeper
from ..conversation.built_in_tools import BUILT_IN_TOOLS
from ..conversation.content import TextContent
from ..conversation.messages import Conversation, Message
from ..conversation.tool_namespaces import ToolNamespaceConfig
from ..encoding import load_harmony_encoding
from ..sampled_messages import SampledMessage
from ..tokens.python_encoder import without_surrogates
from .rendering import kept_messages, rendered_conversation
from .source import conversation_json, read_source
from .wire import ExportBody, InspectorError, RenderBody

_WIDTH = 88
"""The most characters of a line, unless a text or deep nesting needs more."""

_CALL_WIDTH = _WIDTH - len("        ,")
_DATA_WIDTH = 48
"""The most characters of a call, and of a list or dict, on one line. They are less than a line has,
because calls are indented, and data deeply."""

_MODULES = {
    "SampledMessage": "gpt_oss_harmony.sampled_messages",
    "TrainingOptions": "gpt_oss_harmony.training",
    "analysis_before_first_final": "gpt_oss_harmony.rendering.history",
    "prompt_tokens": "gpt_oss_harmony.sampled_messages",
    "training_examples": "gpt_oss_harmony.training",
    "without_past_reasoning": "gpt_oss_harmony.rendering.history",
}
"""The modules of names that the package itself does not export."""

_DEEPEST = 20
"""Lists and dicts nested more deeply are written as JSON, because Python's parser limits depth."""


class Exported(TypedDict):
    """A file: its name and its text."""

    name: str
    text: str


def exported(body: ExportBody) -> Exported:
    """Write a file; raises `HarmonyError`, which names the field at fault."""
    conversation = read_source(body).conversation
    if body.format == "python":
        return {"name": "conversation.py", "text": python_program(conversation, body)}
    if body.format == "json":
        text = _json(conversation_json(conversation), indent=2)
        return {"name": "conversation.json", "text": f"{text}\n"}
    tokens = rendered_conversation(conversation, body).tokens
    options = ("ending", "example", "header_style", "schema_dialect", "reasoning")
    vector = {
        "conversation": conversation_json(conversation),
        "options": {name: getattr(body, name) for name in options},
        "text": load_harmony_encoding("HarmonyGptOss").decode(tokens),
        "tokens": tokens,
    }
    lines = ",\n".join(f'  "{key}": {_json(value)}' for key, value in vector.items())
    return {"name": "vector.json", "text": f"{{\n{lines}\n}}\n"}


def _json(value: Any, indent: int | None = None) -> str:
    """Write JSON; it is readable unless it contains lone surrogates, which must be escaped."""
    text = json.dumps(value, ensure_ascii=False, indent=indent)
    return text if without_surrogates(text) == text else json.dumps(value, indent=indent)


def python_program(conversation: Conversation, body: RenderBody) -> str:
    """Write the program; its tokens are those of `rendered_conversation`.

    Raises `InspectorError` if there is no such example.
    """
    program = PythonProgram()
    program.assign("conversation", program.conversation(conversation))
    if body.ending == "training":
        if not rendered_conversation(conversation, body).examples:
            raise InspectorError(
                422, "no message of this conversation is trainable; export a prompt", param="ending"
            )
        program.add_example(body)
    else:
        program.add_prompt(conversation, body)
    return program.text()


class PythonProgram:
    """Writes statements, and collects the names that they import; expressions are source text."""

    def __init__(self) -> None:
        self._names: set[str] = set()
        self._lines: list[str] = []

    def text(self) -> str:
        """Return the imports and the statements."""
        lines = ["import json\n"] if "json" in self._names else []
        modules: dict[str, list[str]] = {}
        for name in sorted(self._names - {"json"}):
            modules.setdefault(_MODULES.get(name, "gpt_oss_harmony"), []).append(name)
        for module, names in sorted(modules.items()):
            line = f"from {module} import {', '.join(names)}"
            if len(line) > _WIDTH:
                listed = "".join(f"    {name},\n" for name in names)
                line = f"from {module} import (\n{listed})"
            lines.append(line)
        return "\n".join([*lines, "", *self._lines, "print(encoding.decode(tokens))", ""])

    def assign(self, name: str, expression: str) -> None:
        """Add an assignment."""
        self._lines.append(f"{name} = {expression}")

    def add_prompt(self, conversation: Conversation, body: RenderBody) -> None:
        """Add statements that render the prompt for the assistant's next message."""
        messages = conversation.messages
        if body.reasoning == "by-turn" and len(kept_messages(messages, body)) < len(messages):
            self._lines.append("# Prompts leave out the reasoning of turns that have ended.")
            kept = self._call("without_past_reasoning", "conversation.messages")
            self.assign("conversation", self._call("Conversation.from_messages", kept))
        self._assign_encoding()
        drops = str(body.reasoning == "reference")
        choices = {"auto_drop_analysis": drops, **self._choices(body)}
        self.assign("config", self._call("RenderConversationConfig", **choices))
        if any(isinstance(message, SampledMessage) for message in messages):
            self.assign("tokens", self._call("prompt_tokens", "encoding", "conversation", "config"))
        else:
            role = self._name("Role.ASSISTANT")
            method = "encoding.render_conversation_for_completion"
            self.assign("tokens", f"{method}(conversation, {role}, config)")

    def add_example(self, body: RenderBody) -> None:
        """Add statements that make the training examples, and choose one."""
        if body.reasoning == "reference":
            dropped = self._call("analysis_before_first_final", "conversation.messages")
            self.assign("dropped", dropped)
            kept = "[m for i, m in enumerate(conversation.messages) if i not in dropped]"
            self.assign("conversation", self._call("Conversation.from_messages", kept))
        keeps = {"keep_past_reasoning": "True"} if body.reasoning != "by-turn" else {}
        self.assign("options", self._call("TrainingOptions", **keeps, **self._choices(body)))
        self.assign("examples", self._call("training_examples", "conversation", "options"))
        self._assign_encoding()
        self.assign("tokens", f"examples[{body.example}].input_ids")

    def conversation(self, conversation: Conversation) -> str:
        """Write the expression that builds a conversation."""
        messages = [self._message(message) for message in conversation.messages]
        return self._call("Conversation.from_messages", bracketed("[", messages, "]"))

    def _assign_encoding(self) -> None:
        self.assign("encoding", self._call("load_harmony_encoding", '"HarmonyGptOss"'))

    def _choices(self, body: RenderBody) -> dict[str, str]:
        choices = {"header_style": _text(body.header_style)}
        if body.schema_dialect != "typescript":
            choices["schema_dialect"] = _text(body.schema_dialect)
        return choices

    def _message(self, message: Message) -> str:
        parts = [self._bare_message(message)]
        for name in ("channel", "recipient", "content_type"):
            if getattr(message, name) is not None:
                parts.append(f".with_{name}({_text(getattr(message, name))})")
        flat = "".join(parts)
        source = flat if len(flat) <= _CALL_WIDTH and "\n" not in flat else "\n".join(parts)
        if isinstance(message, SampledMessage):
            return self._call("SampledMessage.of", source, self.value(list(message.sampled_tokens)))
        return source

    def _bare_message(self, message: Message) -> str:
        """Write a message with its author and content alone."""
        author = message.author
        speaker = self._name(f"Role.{author.role.name}")
        if author.name is not None:
            speaker = self._call("Author.new", speaker, _text(author.name))
        if len(message.content) == 1:
            (item,) = message.content
            content = _text(item.text) if isinstance(item, TextContent) else self.value(item)
            kind = "role" if author.name is None else "author"
            return self._call(f"Message.from_{kind}_and_content", speaker, content)
        listed = self.value(message.content)
        if author.name is None:
            return self._call("Message.from_role_and_contents", speaker, listed)
        # No method makes a message of an author and several contents.
        return self._call("Message", author=speaker, content=listed)

    def value(self, value: Any) -> str:
        """Write the expression of a value: JSON, a model or an enum."""
        if isinstance(value, Enum):
            return self._name(f"{type(value).__name__}.{value.name}")
        if isinstance(value, ToolNamespaceConfig):
            built_in = BUILT_IN_TOOLS.get(value.name)
            has_name = hasattr(ToolNamespaceConfig, value.name)
            if built_in is not None and has_name and value == built_in.namespace:
                return self._call(f"ToolNamespaceConfig.{value.name}")
        if isinstance(value, BaseModel):
            fields = {}
            for name, field in type(value).model_fields.items():
                item = getattr(value, name)
                if field.is_required() or item != field.get_default(call_default_factory=True):
                    fields[name] = self.value(item)
            return self._call(type(value).__name__, **fields)
        if isinstance(value, (dict, list)) and is_deeper(value, _DEEPEST):
            return self._call("json.loads", _text(json.dumps(value)))
        if isinstance(value, dict):
            items = [f"{quoted(key)}: {self.value(item)}" for key, item in value.items()]
            return bracketed("{", items, "}", _DATA_WIDTH)
        if isinstance(value, list):
            return bracketed("[", [self.value(item) for item in value], "]", _DATA_WIDTH)
        return _text(value) if isinstance(value, str) else repr(value)

    def _name(self, name: str) -> str:
        self._names.add(name.partition(".")[0])
        return name

    def _call(self, name: str, /, *arguments: str, **named: str) -> str:
        keywords = (f"{key}={value}" for key, value in named.items())
        return bracketed(f"{self._name(name)}(", [*arguments, *keywords], ")")


def bracketed(start: str, items: Sequence[str], end: str, width: int = _CALL_WIDTH) -> str:
    """Write items between brackets: on one line if they fit, else each on lines of its own."""
    flat = f"{start}{', '.join(items)}{end}"
    if not items or (len(flat) <= width and "\n" not in flat):
        return flat
    lines = [f"    {item},".replace("\n", "\n    ") for item in items]
    return "\n".join([start, *lines, end])


def _text(text: str) -> str:
    """Write a text; a long one gets a line of source for each of its lines."""
    lines = text.splitlines(keepends=True)
    if len(lines) < 2 or len(quoted(text)) <= _CALL_WIDTH:
        return quoted(text)
    return "\n".join(["(", *(f"    {quoted(line)}" for line in lines), ")"])


def quoted(text: str) -> str:
    """Write a text in double quotes, unless it contains some.

    >>> print(quoted("it's"), quoted('"a"'), quoted("\\n"), quoted(chr(0xD83D)))
    "it's" '"a"' "\\n" "\\ud83d"
    """
    source = repr(text)
    return f'"{source[1:-1]}"' if source[0] == "'" and '"' not in text + source else source
