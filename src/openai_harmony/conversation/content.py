"""The contents of a message: text, system settings, or developer instructions."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from .tool_namespaces import ToolDescription, ToolNamespaceConfig

__all__ = [
    "ChannelConfig",
    "Content",
    "DeveloperContent",
    "ReasoningEffort",
    "ResponseFormat",
    "SystemContent",
    "TextContent",
]

_Self = TypeVar("_Self", bound="_ToolContent")


class ReasoningEffort(str, Enum):
    """The amount of reasoning before an answer, as the system message states it."""

    LOW = "Low"
    MEDIUM = "Medium"
    HIGH = "High"


class ChannelConfig(BaseModel):
    """The channels that a system message announces."""

    valid_channels: list[str]
    channel_required: bool

    @classmethod
    def require_channels(cls, channels: list[str]) -> ChannelConfig:
        """Announce `channels` and demand one of them on every message."""
        return cls(valid_channels=channels, channel_required=True)


class ResponseFormat(BaseModel):
    """A structured output that the prompt requests; `json_schema` is its JSON Schema."""

    name: str
    json_schema: dict[str, Any] | bool
    description: str | None = None


class Content(BaseModel):
    """One item of a message's content; use one of the subclasses."""

    def to_dict(self) -> dict[str, Any]:
        """Return the canonical JSON form, which names its ``type``."""
        raise NotImplementedError


class TextContent(Content):
    """Plain text.

    >>> TextContent(text="hi").to_dict()
    {'type': 'text', 'text': 'hi'}
    """

    text: str

    def to_dict(self) -> dict[str, Any]:
        """Return the canonical JSON form, which names its ``type``."""
        return {"type": "text", "text": self.text}


class _ToolContent(Content):
    """Content with tools, and a JSON form without empty fields."""

    _type: ClassVar[str]

    if TYPE_CHECKING:  # each subclass declares it, since the order of fields matters
        tools: dict[str, ToolNamespaceConfig] | None

    def with_tools(self: _Self, ns_config: ToolNamespaceConfig) -> _Self:
        """Add (or replace) a tool namespace, in place."""
        self.tools = {**(self.tools or {}), ns_config.name: ns_config}
        return self

    def to_dict(self) -> dict[str, Any]:
        """Return the canonical JSON form, with ``type`` and without fields that are None."""
        return {**self.model_dump(exclude_none=True), "type": self._type}

    @classmethod
    def from_dict(cls: type[_Self], raw: dict[str, Any]) -> _Self:
        """Read the canonical JSON form; unknown keys are ignored.

        Raises `pydantic.ValidationError` (a `ValueError`) if a field has the wrong type.
        """
        return cls.model_validate(raw)


class SystemContent(_ToolContent):
    """The system message: identity, dates, reasoning effort, channels, built-in tools.

    >>> SystemContent.new().with_reasoning_effort(ReasoningEffort.HIGH).reasoning_effort.value
    'High'
    """

    model_config = ConfigDict(
        protected_namespaces=()
    )  # before 2.10, pydantic warns of model_identity

    _type = "system_content"

    model_identity: str | None = "You are ChatGPT, a large language model trained by OpenAI."
    reasoning_effort: ReasoningEffort | None = ReasoningEffort.MEDIUM
    conversation_start_date: str | None = None
    knowledge_cutoff: str | None = "2024-06"
    channel_config: ChannelConfig | None = Field(
        default_factory=lambda: ChannelConfig.require_channels(["analysis", "commentary", "final"])
    )
    tools: dict[str, ToolNamespaceConfig] | None = None

    @classmethod
    def new(cls) -> SystemContent:
        """Return the default system content."""
        return cls()

    def with_model_identity(self, model_identity: str) -> SystemContent:
        """Set the first line of the system message, in place."""
        self.model_identity = model_identity
        return self

    def with_reasoning_effort(self, reasoning_effort: ReasoningEffort) -> SystemContent:
        """Set the reasoning effort, in place."""
        self.reasoning_effort = reasoning_effort
        return self

    def with_conversation_start_date(self, conversation_start_date: str) -> SystemContent:
        """Set the current date that the prompt states, in place."""
        self.conversation_start_date = conversation_start_date
        return self

    def with_knowledge_cutoff(self, knowledge_cutoff: str) -> SystemContent:
        """Set the knowledge cutoff, in place."""
        self.knowledge_cutoff = knowledge_cutoff
        return self

    def with_channel_config(self, channel_config: ChannelConfig) -> SystemContent:
        """Set the announced channels, in place."""
        self.channel_config = channel_config
        return self

    def with_required_channels(self, channels: list[str]) -> SystemContent:
        """Announce `channels` and demand one of them on every message, in place."""
        return self.with_channel_config(ChannelConfig.require_channels(channels))

    def with_browser_tool(self) -> SystemContent:
        """Add the built-in `browser`, in place."""
        return self.with_tools(ToolNamespaceConfig.browser())

    def with_python_tool(self) -> SystemContent:
        """Add the built-in `python`, in place."""
        return self.with_tools(ToolNamespaceConfig.python())


class DeveloperContent(_ToolContent):
    """The developer message: instructions, function tools, response formats.

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
        """Return an empty developer content."""
        return cls()

    def with_instructions(self, instructions: str) -> DeveloperContent:
        """Set the instructions (the "system prompt" of other models), in place."""
        self.instructions = instructions
        return self

    def with_function_tools(self, tools: Sequence[ToolDescription]) -> DeveloperContent:
        """Declare `tools` in the namespace `functions`, in place."""
        return self.with_tools(ToolNamespaceConfig(name="functions", tools=list(tools)))

    def with_response_format(
        self, name: str, schema: dict[str, Any] | bool, description: str | None = None
    ) -> DeveloperContent:
        """Request output that follows the JSON Schema `schema`, in place.

        The prompt only influences the model; a grammar enforces the schema (guide, "Structured
        output").
        """
        added = ResponseFormat(name=name, json_schema=schema, description=description)
        self.response_formats = {**(self.response_formats or {}), name: added}
        return self
