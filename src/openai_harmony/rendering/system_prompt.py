"""The prompt text of system and developer messages: sections, tools, response formats.

Sections stand in the order the guide gives, an empty line between them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias

from ..config import SchemaDialect
from ..conversation.content import (
    ChannelConfig,
    DeveloperContent,
    ReasoningEffort,
    ResponseFormat,
    SystemContent,
)
from ..conversation.tool_namespaces import ToolDescription, ToolNamespaceConfig
from ..errors import ConversationError
from ..typescript.comments import LINE_BREAK
from ..typescript.json_text import compact_json, json_value
from ..typescript.reference import reference_schema_to_typescript
from ..typescript.writer import schema_to_typescript

__all__ = ["ToolsWriter", "developer_prompt", "system_prompt", "tool_declaration", "tools_section"]

ToolsWriter: TypeAlias = Callable[[Mapping[str, ToolNamespaceConfig], SchemaDialect], str]
"""What writes the section of tools: `tools_section`, or something that remembers its answers."""

_SCHEMA_WRITERS = {
    "typescript": schema_to_typescript,
    "reference": reference_schema_to_typescript,
}


def system_prompt(
    content: SystemContent,
    *,
    has_function_tools: bool,
    dialect: SchemaDialect = "typescript",
    write_tools: ToolsWriter | None = None,
) -> str:
    r"""Write the text of a system message.

    >>> system_prompt(SystemContent(knowledge_cutoff=None, channel_config=None),
    ...               has_function_tools=False).split("\n\n")
    ['You are ChatGPT, a large language model trained by OpenAI.', 'Reasoning: medium']
    """
    return _join_sections(
        _about_the_model(content),
        _reasoning(content.reasoning_effort),
        _tools(content.tools, dialect, write_tools),
        _channels(content.channel_config, has_function_tools),
    )


def developer_prompt(
    content: DeveloperContent,
    *,
    dialect: SchemaDialect = "typescript",
    write_tools: ToolsWriter | None = None,
) -> str:
    r"""Write the text of a developer message.

    >>> developer_prompt(DeveloperContent(instructions="Be brief."))
    '# Instructions\n\nBe brief.'
    """
    instructions = content.instructions
    return _join_sections(
        None if instructions is None else f"# Instructions\n\n{instructions}",
        _tools(content.tools, dialect, write_tools),
        _response_formats(content.response_formats),
    )


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


def _join_sections(*sections: str | None) -> str:
    return "\n\n".join(section for section in sections if section is not None)


def _about_the_model(content: SystemContent) -> str | None:
    lines = []
    if content.model_identity is not None:
        lines.append(content.model_identity)
    if content.knowledge_cutoff is not None:
        lines.append(f"Knowledge cutoff: {content.knowledge_cutoff}")
    if content.conversation_start_date is not None:
        lines.append(f"Current date: {content.conversation_start_date}")
    return "\n".join(lines) if lines else None


def _reasoning(effort: ReasoningEffort | str | None) -> str | None:
    if effort is None:
        return None
    try:
        return f"Reasoning: {ReasoningEffort(effort).value.lower()}"
    except ValueError:
        known = ", ".join(repr(item.value) for item in ReasoningEffort)
        raise ConversationError(
            f"{effort!r} is no reasoning effort (known: {known})", field="reasoning_effort"
        ) from None


def _channels(config: ChannelConfig | None, has_function_tools: bool) -> str | None:
    if config is None or not config.valid_channels:
        return None
    text = f"# Valid channels: {', '.join(config.valid_channels)}."
    if config.channel_required:
        text += " Channel must be included for every message."
    if has_function_tools:
        text += "\nCalls to these tools must go to the commentary channel: 'functions'."
    return text


def _tools(
    namespaces: Mapping[str, ToolNamespaceConfig] | None,
    dialect: SchemaDialect,
    write_tools: ToolsWriter | None,
) -> str | None:
    return (write_tools or tools_section)(namespaces, dialect) if namespaces else None


def tools_section(namespaces: Mapping[str, ToolNamespaceConfig], dialect: SchemaDialect) -> str:
    """Write the section that declares tools."""
    # The reference keeps namespaces in a sorted map, so their order is that of their keys.
    in_order = (_namespace(namespaces[key], dialect) for key in sorted(namespaces))
    return "\n\n".join(("# Tools", *in_order))


def _namespace(namespace: ToolNamespaceConfig, dialect: SchemaDialect) -> str:
    return "\n".join(_namespace_lines(namespace, dialect))


def _namespace_lines(namespace: ToolNamespaceConfig, dialect: SchemaDialect) -> Iterator[str]:
    yield f"## {namespace.name}\n"
    description = namespace.description or ""
    if not namespace.tools:  # a tool like `python`: its description is all there is
        yield from _lines(description)
        return
    yield from _comment(description, dialect)
    yield f"namespace {namespace.name} {{\n"
    for tool in namespace.tools:
        yield tool_declaration(tool, dialect) + "\n"
    yield f"}} // namespace {namespace.name}"


def _response_formats(formats: Mapping[str, ResponseFormat] | None) -> str | None:
    if not formats:
        return None
    return "\n\n".join(("# Response Formats", *map(_response_format, formats.values())))


def _response_format(response_format: ResponseFormat) -> str:
    schema = compact_json(json_value(response_format.json_schema))
    about = _comment(response_format.description or "", "typescript")
    return "\n".join((f"## {response_format.name}\n", *about, schema))


def _comment(text: str, dialect: SchemaDialect) -> list[str]:
    lines = _lines(text) if dialect == "reference" else _drop_last_if_empty(LINE_BREAK.split(text))
    return [f"// {line}" for line in lines]


def _lines(text: str) -> list[str]:
    r"""Cut at ``\n`` and ``\r\n`` only, as the reference does; a last empty line is none."""
    return _drop_last_if_empty([line.removesuffix("\r") for line in text.split("\n")])


def _drop_last_if_empty(lines: list[str]) -> list[str]:
    return lines if lines[-1] else lines[:-1]
