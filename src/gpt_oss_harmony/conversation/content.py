"""The contents of a message: text, system settings, or developer instructions."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from pydantic import ConfigDict, Field

from ..config import CheckedModel, require_list
from ..errors import closest, require
from .tool_namespaces import ToolDescription, ToolNamespaceConfig

_Self = TypeVar("_Self", bound="_ToolContent")


CHANNELS = ("analysis", "commentary", "final")
"""The channels that the models have."""


class ReasoningEffort(str, Enum):
    """The amount of reasoning before an answer; a line of the system message states it."""

    LOW = "Low"
    MEDIUM = "Medium"
    HIGH = "High"

    @classmethod
    def _missing_(cls, value: object) -> ReasoningEffort:
        known = [effort.value for effort in cls]
        meant = closest(str(value).capitalize(), known)
        hint = f"; did you mean {meant!r}?" if meant else ""
        raise ValueError(
            f"{value!r} is not a reasoning effort (known: {', '.join(map(repr, known))}){hint}"
        )


class ChannelConfig(CheckedModel):
    """The channels that a system message lists.

    If `channel_required` is true, the system message requires a channel for every message.
    """

    valid_channels: list[str]
    channel_required: bool

    @classmethod
    def require_channels(cls, channels: list[str]) -> ChannelConfig:
        """List `channels`, and require one of them for every message."""
        require_list("channels", channels, "a list of channels", "write [channel]")
        return cls(valid_channels=channels, channel_required=True)


class ResponseFormat(CheckedModel):
    """A format for structured output; `json_schema` is its JSON Schema."""

    name: str
    json_schema: dict[str, Any] | bool
    description: str | None = None


def require_text(name: str, value: object, example: str, remedy: str = "") -> None:
    """Raise `TypeError` for a value that is neither text nor None, which leaves the field out."""
    remedy = remedy or f"write {name}={example!r}"
    require(name, value, (str, type(None)), f"text such as {example!r}", remedy)


class Content(CheckedModel):
    """One item of a message's content.

    Use a subclass: `TextContent`, `SystemContent` or `DeveloperContent`.
    """

    _also_taken = ("type",)  # `to_dict` writes it, and programs pass on what they read

    def to_dict(self) -> dict[str, Any]:
        """Return the canonical JSON form, with its ``type``."""
        raise NotImplementedError


class TextContent(Content):
    """Plain text.

    >>> TextContent(text="hi").to_dict()
    {'type': 'text', 'text': 'hi'}
    """

    text: str

    def to_dict(self) -> dict[str, Any]:
        """Return the canonical JSON form, with its ``type``."""
        return {"type": "text", "text": self.text}


class _ToolContent(Content):
    """Content with tools; its JSON form has no empty fields."""

    _type: ClassVar[str]

    if TYPE_CHECKING:  # each subclass declares it itself, because the order of fields matters
        tools: dict[str, ToolNamespaceConfig] | None

    def with_tools(self: _Self, ns_config: ToolNamespaceConfig) -> _Self:
        """Add a tool namespace, in place; it replaces one of the same name."""
        remedy = "with_function_tools([tool]) of a DeveloperContent declares functions"
        if not isinstance(ns_config, ToolDescription):
            remedy = "call with_tools() once for each ToolNamespaceConfig(name=..., tools=[...])"
        require("ns_config", ns_config, ToolNamespaceConfig, "a ToolNamespaceConfig", remedy)
        self.tools = {**(self.tools or {}), ns_config.name: ns_config}
        return self

    def to_dict(self) -> dict[str, Any]:
        """Return the canonical JSON form, with ``type`` and without fields that are None."""
        return {**self.model_dump(exclude_none=True), "type": self._type}

    @classmethod
    def from_dict(cls: type[_Self], raw: dict[str, Any]) -> _Self:
        """Read the canonical JSON form; ignore unknown keys.

        Raises `pydantic.ValidationError` (a `ValueError`) if a field has the wrong type.
        """
        return cls.model_validate(raw)


class SystemContent(_ToolContent):
    """The content of a system message: identity, dates, reasoning effort, channels, built-in tools.

    A field that is None adds nothing to the prompt.

    >>> SystemContent.new().with_reasoning_effort(ReasoningEffort.HIGH).reasoning_effort.value
    'High'
    """

    model_config = ConfigDict(
        protected_namespaces=()
    )  # before 2.10, pydantic warns of model_identity

    _type = "system_content"

    # The defaults are those of openai-harmony, so that both libraries render the same prompt.
    model_identity: str | None = "You are ChatGPT, a large language model trained by OpenAI."
    reasoning_effort: ReasoningEffort | None = ReasoningEffort.MEDIUM
    conversation_start_date: str | None = None
    knowledge_cutoff: str | None = "2024-06"
    channel_config: ChannelConfig | None = Field(
        default_factory=lambda: ChannelConfig.require_channels(list(CHANNELS))
    )
    tools: dict[str, ToolNamespaceConfig] | None = None

    @classmethod
    def new(cls) -> SystemContent:
        """Return the default system content: ChatGPT's identity, medium effort, three channels."""
        return cls()

    def with_model_identity(self, model_identity: str) -> SystemContent:
        """Set the identity, which is the first line of the system message, in place."""
        require_text("model_identity", model_identity, "You are ChatGPT.")
        self.model_identity = model_identity
        return self

    def with_reasoning_effort(self, reasoning_effort: ReasoningEffort) -> SystemContent:
        """Set how much the model reasons before it answers, in place.

        Raises `ValueError` for an unknown effort. None leaves the line out, as in openai-harmony.
        """
        if reasoning_effort is not None:
            reasoning_effort = ReasoningEffort(reasoning_effort)
        self.reasoning_effort = reasoning_effort
        return self

    def with_conversation_start_date(self, conversation_start_date: str) -> SystemContent:
        """Set the current date, such as ``2025-06-28``, in place."""
        require_text(
            "conversation_start_date",
            conversation_start_date,
            "2025-06-28",
            "a date has isoformat()",
        )
        self.conversation_start_date = conversation_start_date
        return self

    def with_knowledge_cutoff(self, knowledge_cutoff: str) -> SystemContent:
        """Set the knowledge cutoff, such as ``2024-06``, in place."""
        require_text("knowledge_cutoff", knowledge_cutoff, "2024-06")
        self.knowledge_cutoff = knowledge_cutoff
        return self

    def with_channel_config(self, channel_config: ChannelConfig) -> SystemContent:
        """Set the valid channels, in place."""
        remedy = "with_required_channels([...]) takes their names"
        kinds = (ChannelConfig, type(None))
        require("channel_config", channel_config, kinds, "a ChannelConfig", remedy)
        self.channel_config = channel_config
        return self

    def with_required_channels(self, channels: list[str]) -> SystemContent:
        """List `channels`, and require one of them for every message, in place."""
        return self.with_channel_config(ChannelConfig.require_channels(channels))

    def with_browser_tool(self) -> SystemContent:
        """Add the built-in tool `browser`, in place."""
        return self.with_tools(ToolNamespaceConfig.browser())

    def with_python_tool(self) -> SystemContent:
        """Add the built-in tool `python`, in place."""
        return self.with_tools(ToolNamespaceConfig.python())


class DeveloperContent(_ToolContent):
    """The content of a developer message: instructions, function tools, response formats.

    >>> content = DeveloperContent.new().with_instructions("Talk like a pirate.")
    >>> content.to_dict()
    {'instructions': 'Talk like a pirate.', 'type': 'developer_content'}
    """

    _type = "developer_content"

    instructions: str | None = None
    tools: dict[str, ToolNamespaceConfig] | None = None
    response_formats: dict[str, ResponseFormat] | None = None

    @classmethod
    def new(cls) -> DeveloperContent:
        """Return a developer content without instructions or tools."""
        return cls()

    def with_instructions(self, instructions: str) -> DeveloperContent:
        """Set the instructions (the "system prompt" of other models), in place."""
        require_text("instructions", instructions, "Be brief.")
        self.instructions = instructions
        return self

    def with_function_tools(self, tools: Sequence[ToolDescription]) -> DeveloperContent:
        """Declare `tools` in the namespace `functions`, in place."""
        require_list("tools", tools, "a list of ToolDescriptions", "write [tool]")
        return self.with_tools(ToolNamespaceConfig(name="functions", tools=list(tools)))

    def with_response_format(
        self, name: str, schema: dict[str, Any] | bool, description: str | None = None
    ) -> DeveloperContent:
        """Request output that follows the JSON Schema `schema`, in place.

        The prompt shows the schema to the model, but only a grammar enforces it
        (`gpt_oss_harmony.grammar.turn_grammar`).
        """
        require("name", name, str, "text such as 'answer'", "write str(name)")
        remedy = "pydantic's Model.model_json_schema() makes one"
        require("schema", schema, (dict, bool), "a JSON Schema as a dict", remedy)
        require_text("description", description, "The answer.")
        added = ResponseFormat(name=name, json_schema=schema, description=description)
        self.response_formats = {**(self.response_formats or {}), name: added}
        return self
