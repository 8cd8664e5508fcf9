"""A conversation as a program for this library, which builds it again and prints the tokens' text.

The program's names `conversation` and `tokens` hold what the page shows.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from enum import Enum
from typing import Any

from pydantic import BaseModel

from ..apis.request_body import is_deeper
from ..conversation.content import TextContent
from ..conversation.messages import Conversation, Message
from ..conversation.tool_namespaces import ToolNamespaceConfig
from ..sampled_messages import SampledMessage
from .errors import InspectorError
from .python_layout import Call, Chain, Expression, Name, laid_out
from .rendering import kept_messages, rendered_conversation
from .wire import RenderBody

__all__ = ["python_program"]

_WIDTH = 88
_BUILT_IN = (ToolNamespaceConfig.browser(), ToolNamespaceConfig.python())

_MODULES = {
    "SampledMessage": "openai_harmony.sampled_messages",
    "TrainingOptions": "openai_harmony.training",
    "analysis_before_first_final": "openai_harmony.rendering.history",
    "prompt_tokens": "openai_harmony.sampled_messages",
    "training_examples": "openai_harmony.training",
    "without_past_reasoning": "openai_harmony.rendering.history",
}
"""Where names come from that the package itself does not have."""

_DEEPEST = 20
"""Lists and dicts that stand deeper in each other are written as JSON, which Python reads at any
depth; its own parser does not."""


def python_program(conversation: Conversation, body: RenderBody) -> str:
    """Write the program; its tokens are those that `rendered_conversation` gives.

    Raises `InspectorError` for an example that there is not.
    """
    writer = _Writer()
    writer.assign("conversation", writer.conversation(conversation))
    if body.ending == "training":
        rendered = rendered_conversation(conversation, body)
        if not rendered.examples:
            raise InspectorError(
                422, "no message of this conversation is learned; export a prompt", param="ending"
            )
        writer.add_example(body)
    else:
        writer.add_prompt(conversation, body)
    return writer.program()


class _Writer:
    """Writes statements, and remembers the names that they need."""

    def __init__(self) -> None:
        self._names: set[str] = set()
        self._lines: list[str] = []

    def program(self) -> str:
        """Return the statements behind their imports."""
        imports = "\n".join(_imports(self._names))
        return "\n".join([imports, "", *self._lines, "print(encoding.decode(tokens))", ""])

    def assign(self, name: str, expression: Expression) -> None:
        """Add a statement that gives a name to an expression."""
        self._lines.append(f"{name} = {laid_out(expression)}")

    def add_prompt(self, conversation: Conversation, body: RenderBody) -> None:
        """Add what renders the prompt for the assistant's next message."""
        messages = conversation.messages
        if body.reasoning == "by-turn" and len(kept_messages(messages, body)) < len(messages):
            self._lines.append("# Prompts leave out the reasoning of turns that have ended.")
            self._keep(self._call("without_past_reasoning", Name("conversation.messages")))
        drops = body.reasoning == "reference"
        choices = {"auto_drop_analysis": drops, **_choices(body)}
        self._add_encoding()
        self.assign("config", self._call("RenderConversationConfig", **choices))
        known = [Name("conversation"), Name("config")]
        if any(isinstance(message, SampledMessage) for message in messages):
            self.assign("tokens", self._call("prompt_tokens", Name("encoding"), *known))
        else:
            known.insert(1, self._name("Role.ASSISTANT"))
            method = "encoding.render_conversation_for_completion"
            self.assign("tokens", Call(method, [(None, one) for one in known]))

    def add_example(self, body: RenderBody) -> None:
        """Add what makes the training examples, and chooses one."""
        if body.reasoning == "reference":
            messages = Name("conversation.messages")
            self.assign("dropped", self._call("analysis_before_first_final", messages))
            self._keep(Name("[m for i, m in enumerate(conversation.messages) if i not in dropped]"))
        keeps = {"keep_past_reasoning": True} if body.reasoning != "by-turn" else {}
        self.assign("options", self._call("TrainingOptions", **keeps, **_choices(body)))
        made = self._call("training_examples", Name("conversation"), Name("options"))
        self.assign("examples", made)
        self._add_encoding()
        self.assign("tokens", Name(f"examples[{body.example}].input_ids"))

    def conversation(self, conversation: Conversation) -> Expression:
        """Write what builds a conversation."""
        messages = [self._message(message) for message in conversation.messages]
        return self._call("Conversation.from_messages", messages)

    def _keep(self, messages: Expression) -> None:
        self.assign("conversation", self._call("Conversation.from_messages", messages))

    def _add_encoding(self) -> None:
        self.assign("encoding", self._call("load_harmony_encoding", "HarmonyGptOss"))

    def _message(self, message: Message) -> Expression:
        named = {name: getattr(message, name) for name in ("channel", "recipient", "content_type")}
        methods = [
            Call(f"with_{name}", [(None, value)])
            for name, value in named.items()
            if value is not None
        ]
        start = self._said(message)
        built: Expression = Chain(start, methods) if methods else start
        if isinstance(message, SampledMessage):
            return self._call("SampledMessage.of", built, list(message.sampled_tokens))
        return built

    def _said(self, message: Message) -> Call:
        author = message.author
        role = self._name(f"Role.{author.role.name}")
        whole = role if author.name is None else self._call("Author.new", role, author.name)
        if len(message.content) == 1:
            (item,) = message.content
            said = item.text if isinstance(item, TextContent) else self._value(item)
            kind = "role" if author.name is None else "author"
            return self._call(f"Message.from_{kind}_and_content", whole, said)
        content = [self._value(item) for item in message.content]
        if author.name is None:
            return self._call("Message.from_role_and_contents", whole, content)
        return self._call("Message", author=whole, content=content)

    def _value(self, value: Any) -> Expression:
        if isinstance(value, Enum):
            return self._name(f"{type(value).__name__}.{value.name}")
        if isinstance(value, ToolNamespaceConfig) and value in _BUILT_IN:
            return self._call(f"ToolNamespaceConfig.{value.name}")
        if isinstance(value, BaseModel):
            return self._call(type(value).__name__, **self._fields(value))
        if isinstance(value, (dict, list)) and is_deeper(value, _DEEPEST):
            return self._call("json.loads", json.dumps(value))
        if isinstance(value, dict):
            return {key: self._value(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self._value(item) for item in value]
        plain: Expression = value
        return plain

    def _fields(self, model: BaseModel) -> dict[str, Expression]:
        """Write the fields that are not what they are by default."""
        found = {}
        for name, field in type(model).model_fields.items():
            value = getattr(model, name)
            if field.is_required() or value != field.get_default(call_default_factory=True):
                found[name] = self._value(value)
        return found

    def _name(self, name: str) -> Name:
        self._names.add(name.partition(".")[0])
        return Name(name)

    def _call(self, name: str, /, *arguments: Expression, **named: Expression) -> Call:
        self._name(name)
        return Call(name, [*((None, one) for one in arguments), *named.items()])


def _choices(body: RenderBody) -> dict[str, Expression]:
    dialect: dict[str, Expression] = {"schema_dialect": body.schema_dialect}
    return {
        "header_style": body.header_style,
        **(dialect if body.schema_dialect != "typescript" else {}),
    }


def _imports(names: Collection[str]) -> Iterator[str]:
    if "json" in names:
        yield "import json\n"
    modules: dict[str, list[str]] = {}
    for name in sorted(set(names) - {"json"}):
        modules.setdefault(_MODULES.get(name, "openai_harmony"), []).append(name)
    for module, found in sorted(modules.items()):
        line = f"from {module} import {', '.join(found)}"
        if len(line) > _WIDTH:
            lines = "".join(f"    {name},\n" for name in found)
            line = f"from {module} import (\n{lines})"
        yield line
