"""What was said so far, whichever API says it, collected as harmony messages.

The APIs write the same things in other places; here they become the same messages, and so the
same tokens. The rules:

- Instructions, wherever they stood, are those of one developer message, a blank line between them.
- A text by the assistant is its answer (``final``), or a preamble (``commentary``) where a call
  follows before the next message by the user, unless the request says which of the two it is.
- A result is by the tool that was called under its id.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from ..conversation.content import DeveloperContent, ReasoningEffort, SystemContent, TextContent
from ..conversation.json_field import JsonField
from ..conversation.messages import Author, Conversation, Message, Role
from ..sampled_messages import SampledMessage
from .requested_tools import CUSTOM_TOOL_FIELD, RequestedTools
from .response_format import AnswerFormat

__all__ = ["Dialogue", "read_effort"]

_EFFORTS = {
    "none": ReasoningEffort.LOW,  # the model always reasons
    "minimal": ReasoningEffort.LOW,
    "low": ReasoningEffort.LOW,
    "medium": ReasoningEffort.MEDIUM,
    "high": ReasoningEffort.HIGH,
    "xhigh": ReasoningEffort.HIGH,
    "max": ReasoningEffort.HIGH,
}


def read_effort(effort: JsonField, default: ReasoningEffort | None) -> ReasoningEffort | None:
    """Read how much the model shall reason, among the three ways that it knows.

    >>> read_effort(JsonField("minimal"), None)
    <ReasoningEffort.LOW: 'Low'>
    """
    if effort.is_null:
        return default
    if effort.text() not in _EFFORTS:
        raise effort.unexpected(f"one of {', '.join(_EFFORTS)}")
    return _EFFORTS[effort.value]


class Dialogue:
    """Collects messages in their order; `tokens` are those that a message was sampled as.

    >>> dialogue = Dialogue()
    >>> dialogue.add_text(["I will look."])
    >>> dialogue.add_call("call_1", "ls", None, "{}")
    >>> [message.channel for message in dialogue.messages]
    ['commentary', 'commentary']
    """

    def __init__(self, tools: RequestedTools | None = None) -> None:
        self.tools = tools or RequestedTools()
        self.messages: list[Message] = []
        self._instructions: list[str] = []
        self._answers: list[Message] = []  # of this turn, as long as no call shows otherwise
        self._called: dict[str, str] = {}  # the id of a call, and its recipient

    def add_instructions(self, texts: Sequence[str]) -> None:
        """Add to the instructions of the developer message."""
        self._instructions += filter(None, texts)

    def add_question(self, texts: Sequence[str]) -> None:
        """Add a message by the user."""
        self._answers.clear()
        self.messages.append(_message(Role.USER, texts))

    def add_reasoning(self, texts: Sequence[str], tokens: Sequence[int] | None = None) -> None:
        """Add reasoning of the assistant."""
        self._add_own(_message(Role.ASSISTANT, texts).with_channel("analysis"), tokens)

    def add_text(
        self,
        texts: Sequence[str],
        channel: str | None = None,
        tokens: Sequence[int] | None = None,
    ) -> None:
        """Add a text by the assistant; without a channel, what follows shows what it is."""
        message = _message(Role.ASSISTANT, texts).with_channel(channel or "final")
        added = self._add_own(message, tokens)
        if channel is None:
            self._answers.append(added)

    def add_call(
        self,
        call_id: str,
        name: str,
        namespace: str | None,
        arguments: str,
        tokens: Sequence[int] | None = None,
    ) -> None:
        """Add a call; its arguments stay as they are."""
        for message in self._answers:
            message.with_channel("commentary")
        self._answers.clear()
        recipient = self.tools.recipient(name, namespace)
        self._called[call_id] = recipient
        message = Message.from_role_and_content(Role.ASSISTANT, arguments)
        message.with_channel("commentary").with_recipient(recipient)
        self._add_own(message.with_content_type("<|constrain|>json"), tokens)

    def add_custom_call(
        self,
        call_id: str,
        name: str,
        namespace: str | None,
        text: str,
        tokens: Sequence[int] | None = None,
    ) -> None:
        """Add a call of a custom tool with its text."""
        arguments = json.dumps({CUSTOM_TOOL_FIELD: text}, ensure_ascii=False)
        self.add_call(call_id, name, namespace, arguments, tokens)

    def add_result(self, call_id: JsonField, texts: Sequence[str], *, remedy: str) -> None:
        """Add the result of a call; raise `ConversationError` where there was none of that id."""
        recipient = self._called.get(call_id.text())
        if recipient is None:
            problem = f"no tool call before this message has the id {call_id.value!r:.80}"
            raise call_id.error(f"{problem}; {remedy}")
        message = _message(Role.TOOL, texts)
        message.author = Author.new(Role.TOOL, recipient)
        self.messages.append(message.with_recipient("assistant").with_channel("commentary"))

    def add_exchange(
        self, call: Message, answers: Sequence[Message], tokens: Sequence[int] | None = None
    ) -> None:
        """Add the call of a built-in tool, and what the tool said."""
        self._add_own(call, tokens)
        self.messages += answers

    def conversation(
        self,
        *,
        effort: ReasoningEffort | None,
        start_date: str | None,
        answer_format: AnswerFormat | None,
    ) -> Conversation:
        """Make the conversation: the system message, the developer's, and what was said."""
        system = SystemContent(reasoning_effort=effort, conversation_start_date=start_date)
        for built_in in self.tools.built_in.values():
            system.with_tools(built_in)
        developer = self._developer(answer_format)
        opening = [Message.from_role_and_content(Role.SYSTEM, system)]
        if developer != DeveloperContent():
            opening.append(Message.from_role_and_content(Role.DEVELOPER, developer))
        return Conversation.from_messages([*opening, *self.messages])

    def _developer(self, answer_format: AnswerFormat | None) -> DeveloperContent:
        content = DeveloperContent()
        if self._instructions:
            content.with_instructions("\n\n".join(self._instructions))
        for namespace in self.tools.namespaces.values():
            content.with_tools(namespace)
        # As with the API, it is the instructions that ask for JSON of any form.
        if answer_format is not None and answer_format.name is not None:
            content.with_response_format(
                answer_format.name, answer_format.schema or {}, answer_format.description
            )
        return content

    def _add_own(self, message: Message, tokens: Sequence[int] | None) -> Message:
        if tokens:
            message = SampledMessage.of(message, tokens)
        self.messages.append(message)
        return message


def _message(role: Role, texts: Sequence[str]) -> Message:
    return Message.from_role_and_contents(role, [TextContent(text=text) for text in texts])
