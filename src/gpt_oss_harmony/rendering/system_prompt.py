"""The text of system and developer messages: sections, tools and response formats.

Sections are in the order of the guide, with an empty line between them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from ..config import SchemaDialect
from ..conversation.content import (
    Content,
    DeveloperContent,
    ReasoningEffort,
    SystemContent,
    TextContent,
)
from ..conversation.messages import Role
from ..conversation.tool_namespaces import ToolDescription, ToolNamespaceConfig
from ..errors import ConversationError, SchemaError
from ..typescript.comments import LINE_BREAK
from ..typescript.json_text import compact_json, json_value
from ..typescript.reference_dialect import reference_schema_to_typescript
from ..typescript.writer import schema_to_typescript
from .cache import BoundedCache, fingerprint

_SCHEMA_WRITERS = {
    "typescript": schema_to_typescript,
    "reference": reference_schema_to_typescript,
}


class _ToolsSection(NamedTuple):
    """A cached section of tools, and the length of its key, which contains the schemas."""

    text: str
    key_length: int

    def size(self) -> int:
        """Estimate the bytes of the cache entry."""
        return sys.getsizeof(self.text) + self.key_length + 300


class PromptWriter:
    r"""Write the text of any content; cache the sections of tools.

    >>> content = DeveloperContent(instructions="Be brief.")
    >>> PromptWriter(cache_bytes=0).text(Role.DEVELOPER, content, "typescript", lambda: False)
    '# Instructions\n\nBe brief.'
    """

    def __init__(self, cache_bytes: int) -> None:
        self.tools_cache: BoundedCache[bytes, _ToolsSection] = BoundedCache(
            cache_bytes, _ToolsSection.size
        )

    def text(
        self, role: Role, item: Content, dialect: SchemaDialect, has_tools: Callable[[], bool]
    ) -> str:
        """Write an item of content in a message by `role`; raises `ConversationError`.

        The system message mentions function calls if `has_tools` returns true.
        """
        if isinstance(item, TextContent):
            return item.text
        if isinstance(item, SystemContent):
            _require_role(role, Role.SYSTEM, item)
            return "\n\n".join(self._system_sections(item, dialect, has_tools()))
        if isinstance(item, DeveloperContent):
            _require_role(role, Role.DEVELOPER, item)
            return "\n\n".join(self._developer_sections(item, dialect))
        problem = f"cannot render content of type {type(item).__name__}"
        raise ConversationError(problem, field="content")

    def _system_sections(
        self, content: SystemContent, dialect: SchemaDialect, has_function_tools: bool
    ) -> Iterator[str]:
        about_the_model = (
            ("", content.model_identity),
            ("Knowledge cutoff: ", content.knowledge_cutoff),
            ("Current date: ", content.conversation_start_date),
        )
        lines = [label + text for label, text in about_the_model if text is not None]
        if lines:
            yield "\n".join(lines)
        effort = content.reasoning_effort
        if effort is not None:
            try:
                # The values are capitalised, as in openai-harmony; the prompt has small letters.
                yield f"Reasoning: {ReasoningEffort(effort).value.lower()}"
            except ValueError as error:
                raise ConversationError(str(error), field="reasoning_effort") from None
        if content.tools:
            yield self._tools_section(content.tools, dialect)
        channels = content.channel_config
        if channels is not None and channels.valid_channels:
            text = f"# Valid channels: {', '.join(channels.valid_channels)}."
            if channels.channel_required:
                text += " Channel must be included for every message."
            if has_function_tools:
                # The guide's sentence, with its quotes.
                text += "\nCalls to these tools must go to the commentary channel: 'functions'."
            yield text

    def _developer_sections(
        self, content: DeveloperContent, dialect: SchemaDialect
    ) -> Iterator[str]:
        if content.instructions is not None:
            yield f"# Instructions\n\n{content.instructions}"
        if content.tools:
            yield self._tools_section(content.tools, dialect)
        if content.response_formats:
            yield "# Response Formats"
        for answer in (content.response_formats or {}).values():
            # In either dialect: the reference has no response formats whose bytes could be kept.
            comment = _comment(answer.description or "", "typescript")
            try:
                schema = compact_json(json_value(answer.json_schema))
            except SchemaError as error:
                raise _at(error, f"response_formats/{answer.name}#") from None
            yield "\n".join((f"## {answer.name}\n", *comment, schema))

    def _tools_section(
        self, namespaces: Mapping[str, ToolNamespaceConfig], dialect: SchemaDialect
    ) -> str:
        """Write the section of tools; equal tools, which most requests have, are written once."""
        declared = [
            (
                key,
                namespace.name,
                namespace.description,
                [(tool.name, tool.description, tool.parameters) for tool in namespace.tools],
            )
            for key, namespace in namespaces.items()
        ]
        cache_key = fingerprint((dialect, declared))
        section = None if cache_key is None else self.tools_cache.get(cache_key)
        if section is not None:
            return section.text
        # The reference keeps namespaces in a map sorted by key.
        in_order = ("\n".join(_namespace_lines(namespaces[k], dialect)) for k in sorted(namespaces))
        text = "\n\n".join(("# Tools", *in_order))
        if cache_key is not None:
            self.tools_cache.put(cache_key, _ToolsSection(text, len(cache_key)))
        return text


def _require_role(role: Role, required: Role, item: Content) -> None:
    if role is not required:
        raise ConversationError(
            f"{type(item).__name__} belongs in a {required.value} message, "
            f"not in a {role.value} message",
            field="content",
        )


def _at(error: SchemaError, pointer: str) -> SchemaError:
    """Name the place of a schema in its error, as the errors of grammars do."""
    return SchemaError(error.problem, field=pointer)


def _namespace_lines(namespace: ToolNamespaceConfig, dialect: SchemaDialect) -> Iterator[str]:
    yield f"## {namespace.name}\n"
    description = namespace.description or ""
    if not namespace.tools:  # a tool like `python` has a description and no functions
        yield from _lines(description)
        return
    yield from _comment(description, dialect)
    yield f"namespace {namespace.name} {{\n"
    for tool in namespace.tools:
        try:
            declaration = tool_declaration(tool, dialect)
        except SchemaError as error:
            raise _at(error, f"tools/{namespace.name}.{tool.name}#") from None
        yield declaration + "\n"
    yield f"}} // namespace {namespace.name}"


def tool_declaration(tool: ToolDescription, dialect: SchemaDialect = "typescript") -> str:
    """Write one tool as the model reads it: its description as a comment, then its type.

    >>> print(tool_declaration(ToolDescription.new("now", "Tells the time.")))
    // Tells the time.
    type now = () => any;
    """
    arguments = ""
    if tool.parameters is not None:
        arguments = f"_: {_SCHEMA_WRITERS[dialect](tool.parameters)}"
    declaration = f"type {tool.name} = ({arguments}) => any;"
    return "\n".join((*_comment(tool.description, dialect), declaration))


def _comment(text: str, dialect: SchemaDialect) -> list[str]:
    lines = _lines(text) if dialect == "reference" else _drop_last_if_empty(LINE_BREAK.split(text))
    return [f"// {line}" for line in lines]


def _lines(text: str) -> list[str]:
    r"""Split at ``\n`` and ``\r\n`` only, as the reference does; drop a last empty line."""
    return _drop_last_if_empty([line.removesuffix("\r") for line in text.split("\n")])


def _drop_last_if_empty(lines: list[str]) -> list[str]:
    return lines if lines[-1] else lines[:-1]
