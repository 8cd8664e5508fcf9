"""``harmony demo``: the weather example of the guide, from the prompt to the final answer."""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence

from ..config import RenderConversationConfig
from ..conversation.content import DeveloperContent, SystemContent
from ..conversation.messages import Author, Conversation, Message, Role
from ..conversation.tool_namespaces import ToolDescription
from ..encoding import HarmonyEncoding, load_harmony_encoding
from ..parsing.parser import StreamableParser
from ..parsing.state import StreamState
from .command import Command
from .options import add_color, up_to
from .output import Output, style_of, write_message

LONGEST_DELAY = 10.0
"""The longest delay of a token, in seconds."""

_SHOWN_TOKENS = 12

# Text as a model samples it. The header style of the guide renders the same tokens again.
_CALL = (
    "<|channel|>analysis<|message|>The user asks for the weather in Tokyo. "
    "I need to use the function get_current_weather.<|end|>"
    "<|start|>assistant<|channel|>commentary to=functions.get_current_weather "
    '<|constrain|>json<|message|>{"location": "Tokyo", "format": "celsius"}<|call|>'
)
WEATHER = ToolDescription.new(
    "get_current_weather",
    "Gets the current weather in the provided location.",
    parameters={
        "type": "object",
        "properties": {
            "location": {
                "type": "string",
                "description": "The city and state, e.g. San Francisco, CA",
            },
            "format": {
                "type": "string",
                "enum": ["celsius", "fahrenheit"],
                "default": "celsius",
            },
        },
        "required": ["location"],
    },
)
"""The function of the example."""

WEATHER_RESULT = '{"temperature": 20, "sunny": true}'
_FINAL = (
    "<|channel|>analysis<|message|>20 degrees and sunny. Answer briefly.<|end|>"
    "<|start|>assistant<|channel|>final<|message|>"
    "It is sunny in Tokyo, at 20 °C – no umbrella needed. 🌞<|return|>"
)


class _Demo(Command):
    name = "demo"
    purpose = "see the format"
    summary = "show a conversation with a tool call, step by step"
    examples = """\
  harmony demo
  harmony demo --delay 0.1
"""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "--delay",
            type=up_to(LONGEST_DELAY, "seconds"),
            metavar="SECONDS",
            help="the pause before each token (default: 0.03 on a terminal, else 0)",
        )
        add_color(parser)

    def run(self, arguments: argparse.Namespace) -> None:
        output = Output(arguments.color)
        delay = arguments.delay
        if delay is None:
            delay = 0.03 if output.is_terminal else 0.0
        _Walkthrough(load_harmony_encoding("HarmonyGptOss"), output, delay).show()


DEMO = _Demo()


class _Walkthrough:
    """One walk through the example; each step adds to the same conversation."""

    def __init__(self, encoding: HarmonyEncoding, output: Output, delay: float) -> None:
        self._encoding = encoding
        self._output = output
        self._delay = delay
        self._steps = 0
        self._config = RenderConversationConfig(header_style="guide")

    def show(self) -> None:
        """Show every step."""
        question = Message.from_role_and_content(Role.USER, "What is the weather in Tokyo?")
        conversation = Conversation.from_messages([*weather_opening("2025-06-28"), question])
        self._title("A conversation becomes the prompt that the model reads")
        prompt = self._prompt(conversation)
        self._write_prompt(conversation, first=0)
        self._write_tokens(prompt)

        self._title("The model answers token by token; the parser follows")
        conversation.messages += self._sampled(_CALL)

        self._title("The last message is a call, so the program runs the function")
        call = conversation.messages[-1]
        write_message(call, self._output)
        author = Author.new(Role.TOOL, call.recipient or "")
        answer = Message.from_author_and_content(author, WEATHER_RESULT)
        answer.with_recipient("assistant").with_channel("commentary")
        conversation.messages.append(answer)
        self._output.line()
        write_message(answer, self._output)

        self._title("The new prompt goes on from the old one")
        self._write_prompt(conversation, first=3)
        self._write_tokens(self._prompt(conversation))

        self._title("The model reads the answer and finishes")
        conversation.messages += self._sampled(_FINAL)

        self._title("What the user sees is the message on the channel final")
        write_message(conversation.messages[-1], self._output)

    def _title(self, text: str) -> None:
        self._steps += 1
        if self._steps > 1:
            self._output.line()
        title = f"{self._steps}. {text}"
        self._output.line(title, "title")
        self._output.line("─" * len(title), "marker")

    def _prompt(self, conversation: Conversation) -> list[int]:
        return self._encoding.render_conversation_for_completion(
            conversation, Role.ASSISTANT, self._config
        )

    def _write_prompt(self, conversation: Conversation, *, first: int) -> None:
        """Write the prompt, starting with the message at the index `first`."""
        messages = conversation.messages
        if first:
            self._output.write("… ", "marker")
        for segment in self._encoding.segments_for_completion(
            conversation, Role.ASSISTANT, self._config
        ):
            if segment.message >= first:
                is_body = segment.kind.value == "body"
                style = style_of(messages[segment.message]) if is_body else "marker"
                self._output.write(segment.text, style)
        self._output.line()

    def _write_tokens(self, tokens: Sequence[int]) -> None:
        shown = " ".join(map(str, tokens[:_SHOWN_TOKENS]))
        self._output.line(f"\n{len(tokens)} tokens: {shown} …", "marker")

    def _sampled(self, completion: str) -> list[Message]:
        """Parse a completion token by token, and show the progress of the parser."""
        parser = StreamableParser(self._encoding, Role.ASSISTANT)
        for token in self._encoding.encode(completion, allowed_special="all"):
            time.sleep(self._delay)
            was_in_body = parser.state is StreamState.CONTENT
            parser.process(token)
            is_in_body = parser.state is StreamState.CONTENT
            channel, recipient = parser.current_channel or "", parser.current_recipient
            if was_in_body and not is_in_body:
                self._output.line()
            elif is_in_body and not was_in_body:
                address = f"{channel} to {recipient}" if recipient else channel
                self._output.write(f"{address}: ", "title")
            elif delta := parser.last_content_delta:
                if parser.current_content != delta:
                    self._output.write("|", "marker")
                self._output.write(delta, channel)
            self._output.flush()
        return parser.process_eos().messages


def weather_opening(start_date: str | None) -> list[Message]:
    """Make the messages before the question: a friendly tone, and a tool for the weather."""
    system = SystemContent(conversation_start_date=start_date)
    developer = DeveloperContent.new().with_instructions("Use a friendly tone.")
    developer.with_function_tools([WEATHER])
    return [
        Message.from_role_and_content(Role.SYSTEM, system),
        Message.from_role_and_content(Role.DEVELOPER, developer),
    ]
