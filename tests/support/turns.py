"""Turns under a grammar: conversations, what is accepted, what is refused, and tool choices."""

from __future__ import annotations

from typing import Any

from gpt_oss_harmony import (
    Conversation,
    DeveloperContent,
    Message,
    Role,
    SystemContent,
    ToolDescription,
    load_harmony_encoding,
)
from gpt_oss_harmony.grammar import ToolChoice

ENCODING = load_harmony_encoding("HarmonyGptOss")

WEATHER = ToolDescription.new(
    "get_weather",
    "Gets the weather.",
    {
        "type": "object",
        "properties": {
            "location": {"type": "string"},
            "format": {"type": "string", "enum": ["celsius", "fahrenheit"]},
        },
        "required": ["location"],
    },
)
NOW = ToolDescription.new("now", "Tells the time.")
ANSWER = {
    "type": "object",
    "properties": {"answer": {"type": "integer"}},
    "required": ["answer"],
    "additionalProperties": False,
}


def conversation(*, tools: bool = True, response_format: bool = False) -> Conversation:
    system = SystemContent.new()
    developer = DeveloperContent.new().with_instructions("Be brief.")
    if tools:
        system.with_browser_tool().with_python_tool()
        developer.with_function_tools([WEATHER, NOW])
    if response_format:
        developer.with_response_format("answer", ANSWER)
    return Conversation.from_messages(
        [
            Message.from_role_and_content(Role.SYSTEM, system),
            Message.from_role_and_content(Role.DEVELOPER, developer),
            Message.from_role_and_content(Role.USER, "hi"),
        ]
    )


TOOLS = conversation()
FORMAT = conversation(tools=False, response_format=True)
BOTH = conversation(response_format=True)
PLAIN = conversation(tools=False)


THINK = "<|channel|>analysis<|message|>Hmm.<|end|><|start|>assistant"
PLAN = "<|channel|>commentary<|message|>**Plan**:\n1. go<|end|><|start|>assistant"
SF = '{"location":"San Francisco"}<|call|>'
FINAL = "<|channel|>final<|message|>"
COMMENTARY = "<|channel|>commentary"

WHOLE_TURNS: list[tuple[Conversation, str]] = [
    # The guide's examples
    (PLAIN, f"{FINAL}2 + 2 = 4.<|return|>"),
    (PLAIN, f"{THINK}{FINAL}2 + 2 = 4.<|return|>"),
    (TOOLS, f"{THINK}{COMMENTARY} to=functions.get_weather <|constrain|>json<|message|>{SF}"),
    (TOOLS, f"{THINK}{PLAN}{COMMENTARY} to=functions.get_weather<|constrain|>json<|message|>{SF}"),
    # Recipient before the channel, other content types, other channels
    (TOOLS, f" to=functions.get_weather<|channel|>commentary<|message|>{SF}"),
    (TOOLS, f" to=functions.get_weather<|channel|>commentary json<|message|>{SF}"),
    (TOOLS, f" to=functions.get_weather<|channel|>commentary <|constrain|>json<|message|>{SF}"),
    (TOOLS, f" to=functions.get_weather<|channel|>analysis json<|message|>{SF}"),
    (TOOLS, f"<|channel|>analysis to=functions.get_weather json<|message|>{SF}"),
    (TOOLS, " to=functions.now<|channel|>commentary<|message|>{}<|call|>"),
    (TOOLS, '<|channel|>commentary to=functions.get_weather<|message|>{"location": "SF",\n'
            '  "format": "celsius"}<|call|>'),
    # Built-in tools
    (TOOLS, "<|channel|>analysis to=python code<|message|>print('<|')\n<|call|>"),
    (TOOLS, "<|channel|>commentary to=python<|message|>x<|call|>"),
    (TOOLS, " to=python<|channel|>analysis <|constrain|>code<|message|>1 < 2<|call|>"),
    (TOOLS, f'{THINK}<|channel|>analysis to=browser.search code<|message|>{{"query":"x"}}<|call|>'),
    (TOOLS, ' to=browser.open<|channel|>analysis json<|message|>{"id":3,"loc":20}<|call|>'),
    (TOOLS, ' to=browser.find<|channel|>commentary<|message|>{"pattern":"<|"}<|call|>'),
    # Answers
    (TOOLS, f"{THINK}{THINK}{PLAN}{THINK}{FINAL}<|return|>"),
    (TOOLS, f"{FINAL}a < b, <b>, <|, <|end|, a <|> b, < |end|>, <|End|>, 日本 🏰<|return|>"),
    (FORMAT, f'{FINAL}{{"answer": 4}}<|return|>'),
    (FORMAT, '<|channel|>final json<|message|>{"answer":4}<|return|>'),
    (FORMAT, f'{THINK}<|channel|>final <|constrain|>json<|message|>{{"answer":-4}}<|return|>'),
    (BOTH, f"<|channel|>commentary to=functions.get_weather<|message|>{SF}"),
]  # fmt: skip

JSON_CALL = "<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>"

WRONG_TURNS: list[tuple[Conversation, str, str, str | None]] = [
    # The conversation, what is accepted, the token that is not, the rest
    (PLAIN, "", "<|start|>", "assistant"),
    (PLAIN, "", "<|message|>", "hi"),
    (PLAIN, "", "Hello", ""),
    (PLAIN, "<|channel|>", "tool", ""),
    (PLAIN, "<|channel|>final", "<|channel|>", ""),
    (PLAIN, "<|channel|>final", " json", "<|message|>{}"),
    (PLAIN, f"{FINAL}hi", "<|end|>", ""),
    (PLAIN, f"{FINAL}hi", "<|call|>", ""),
    (PLAIN, f"{FINAL}hi", "<|endoftext|>", ""),
    (PLAIN, f"{FINAL}hi", "<|reserved_200000|>", ""),
    (PLAIN, f"{FINAL}hi", "<|channel|>", ""),
    (PLAIN, f"{FINAL}hi<|return|>", "<|start|>", "assistant"),
    (PLAIN, "<|channel|>analysis<|message|>hi", "<|return|>", ""),
    (PLAIN, "<|channel|>commentary", " to", "=functions.now<|message|>{}"),
    (PLAIN, "", " to", "=functions.now<|channel|>"),
    (PLAIN, f"{THINK}", "<|message|>", ""),
    (PLAIN, "<|channel|>analysis<|message|>hi<|end|><|start|>", "user", ""),
    (TOOLS, "<|channel|>commentary to=functions.get", "_news", "<|message|>"),
    (TOOLS, "<|channel|>final", " to", "=functions.now<|message|>{}"),
    (TOOLS, "<|channel|>commentary to=functions.now", " code", "<|message|>"),
    (TOOLS, f'{JSON_CALL}{{"', "city", '":"SF"}'),
    (TOOLS, f'{JSON_CALL}{{"location":', "5", "}"),
    (TOOLS, f'{JSON_CALL}{{"location":"SF","format":"', "k", 'elvin"}'),
    (TOOLS, f'{JSON_CALL}{{"location":"SF"}}', "<|end|>", ""),
    (TOOLS, f'{JSON_CALL}{{"location":"SF"}}', "<|return|>", ""),
    (TOOLS, f'{JSON_CALL}{{"location":"SF', "<|call|>", ""),
    (TOOLS, "<|channel|>analysis to=python code<|message|>1", "<|return|>", ""),
    (TOOLS, "<|channel|>analysis to=python", " json", "<|message|>1"),
    (TOOLS, f"{JSON_CALL}{SF}", "<|start|>", "assistant"),
    (FORMAT, FINAL, "4", "<|return|>"),
    (FORMAT, f'{FINAL}{{"answer":4}}', "<|call|>", ""),
    (FORMAT, f'{FINAL}{{"answer":', '"', '4"}'),
    (FORMAT, "<|channel|>final", " code", "<|message|>"),
]

CALL = f"<|channel|>commentary to=functions.get_weather<|message|>{SF}"
CALL_NOW = "<|channel|>commentary to=functions.now<|message|>{}<|call|>"
CODE = "<|channel|>analysis to=python code<|message|>1<|call|>"
FIND = '<|channel|>analysis to=browser.find code<|message|>{"pattern":"x"}<|call|>'
SAY = f"{FINAL}hi<|return|>"

CHOICES: list[tuple[Any, set[str]]] = [
    (None, {CALL, CALL_NOW, CODE, FIND, SAY}),
    ("auto", {CALL, CALL_NOW, CODE, FIND, SAY}),
    ("none", {SAY}),
    ("required", {CALL, CALL_NOW, CODE, FIND}),
    ({"type": "function", "name": "now"}, {CALL_NOW}),
    ({"type": "function", "function": {"name": "get_weather"}}, {CALL}),
    ({"type": "function", "name": "functions.now"}, {CALL_NOW}),
    ({"type": "python"}, {CODE}),
    ({"type": "browser"}, {FIND}),
    (
        {
            "type": "allowed_tools",
            "mode": "auto",
            "tools": [{"type": "function", "name": "now"}, {"type": "python"}],
        },
        {CALL_NOW, CODE, SAY},
    ),
    (
        {
            "type": "allowed_tools",
            "allowed_tools": {
                "mode": "required",
                "tools": [{"type": "function", "function": {"name": "now"}}],
            },
        },
        {CALL_NOW},
    ),
    (ToolChoice("required", ("functions.get_weather", "python")), {CALL, CODE}),
]
