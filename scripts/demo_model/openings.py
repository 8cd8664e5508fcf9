"""How conversations begin: messages by the system and the developer, in many spellings."""

from __future__ import annotations

from random import Random
from typing import Any

from gpt_oss_harmony import (
    DeveloperContent,
    Message,
    ReasoningEffort,
    Role,
    SystemContent,
    ToolDescription,
)

from .example import Opening
from .words import Part, random_words

__all__ = ["guide_weather_tools", "opening"]

_INSTRUCTIONS = [
    "Use a friendly tone.",
    "You are a helpful assistant.",
    "You are a helpful shopping assistant",
    "You are a helpful assistant. Answer briefly.",
    "Be brief.",
    "Always respond in riddles",
    "Answer the user.",
    "You help with shopping.",
    "You are a weather assistant.",
    "Be polite and helpful.",
    "Use the tools where they help.",
]
_PLACES = [
    "The city and state, e.g. San Francisco, CA",
    "The city, e.g. San Francisco",
    "The city and state",
    "The name of the city",
    "The location",
    "City and country",
]
_DESCRIPTIONS = [
    "Gets the current weather in the provided location.",
    "Gets the current weather.",
    "Get the current weather in a given location",
    "Returns the weather of a city.",
    "Tells the weather.",
    "",
]


def opening(rng: Random, part: Part) -> Opening:
    """Choose what is declared and how it is written."""
    kind = rng.choices(
        ("plain", "weather", "shopping", "python", "browser", "both", "none"),
        (21, 26, 12, 11, 18, 6, 4),
    )[0]
    if kind == "none":
        return Opening([])
    # The guide's example of a response format has no system message.
    if kind == "shopping" and rng.random() < 0.2:
        return Opening([_developer(rng, part, kind, None)], shopping=True)
    effort = rng.choice(list(ReasoningEffort))
    system = SystemContent.new().with_reasoning_effort(effort)
    if rng.random() < 0.6:
        system.with_conversation_start_date(_date(rng))
    if kind in ("python", "both"):
        system.with_python_tool()
    if kind in ("browser", "both"):
        system.with_browser_tool()
    messages = [Message.from_role_and_content(Role.SYSTEM, system)]
    tool = weather_tool(rng) if kind == "weather" else None
    if kind in ("weather", "shopping") or rng.random() < 0.35:
        messages.append(_developer(rng, part, kind, tool))
    return Opening(
        messages,
        effort,
        weather=tool,
        shopping=kind == "shopping",
        python=kind in ("python", "both"),
        browser=kind in ("browser", "both"),
    )


def weather_tool(rng: Random) -> ToolDescription:
    """The function in one of its spellings; mostly that of the guide."""
    if rng.random() < 0.35:
        return guide_weather_tools()[1]
    place = rng.choice(("location", "location", "location", "city"))
    where: dict[str, Any] = {"type": "string"}
    if rng.random() < 0.7:
        where["description"] = rng.choice(_PLACES)
    units: dict[str, Any] = {"type": "string", "enum": ["celsius", "fahrenheit"]}
    if rng.random() < 0.3:
        units["description"] = "The unit"
    if rng.random() < 0.5:
        units["default"] = "celsius"
    fields = [(place, where), ("format", units)]
    if rng.random() < 0.25:
        fields.reverse()
    parameters: dict[str, Any] = {"type": "object", "properties": dict(fields)}
    parameters["required"] = [place] if rng.random() < 0.8 else []
    name = rng.choice(("get_current_weather", "get_current_weather", "get_weather"))
    return ToolDescription.new(name, rng.choice(_DESCRIPTIONS), parameters)


def guide_weather_tools() -> list[ToolDescription]:
    """The three functions of the guide's example."""
    unit = {"type": "string", "enum": ["celsius", "fahrenheit"], "default": "celsius"}
    place = {"type": "string", "description": "The city and state, e.g. San Francisco, CA"}
    places = {
        "type": "array",
        "items": {"type": "string"},
        "description": 'List of city and state, e.g. ["San Francisco, CA", "New York, NY"]',
    }
    return [
        ToolDescription.new("get_location", "Gets the location of the user."),
        ToolDescription.new(
            "get_current_weather",
            "Gets the current weather in the provided location.",
            {
                "type": "object",
                "properties": {"location": place, "format": unit},
                "required": ["location"],
            },
        ),
        ToolDescription.new(
            "get_multiple_weathers",
            "Gets the current weather in the provided list of locations.",
            {
                "type": "object",
                "properties": {"locations": places, "format": unit},
                "required": ["locations"],
            },
        ),
    ]


def _developer(rng: Random, part: Part, kind: str, tool: ToolDescription | None) -> Message:
    content = DeveloperContent.new()
    if (tool is None and kind != "shopping") or rng.random() < 0.65:
        content.with_instructions(_instructions(rng, part))
    if tool is not None:
        content.with_function_tools(_with_others(rng, tool))
    if kind == "shopping":
        entries: dict[str, Any] = {"type": "array", "items": {"type": "string"}}
        if rng.random() < 0.6:
            entries["description"] = "entries on the shopping list"
            entries["items"] = entries.pop("items")
        wanted: dict[str, Any] = {"properties": {"items": entries}, "type": "object"}
        if rng.random() < 0.5:
            wanted = {"type": "object", "properties": {"items": entries}}
        if rng.random() < 0.3:
            wanted["required"] = ["items"]
        if rng.random() < 0.2:
            wanted["additionalProperties"] = False
        about = "What to buy." if rng.random() < 0.2 else None
        content.with_response_format("shopping_list", wanted, about)
    return Message.from_role_and_content(Role.DEVELOPER, content)


def _with_others(rng: Random, tool: ToolDescription) -> list[ToolDescription]:
    location, weather, several = guide_weather_tools()
    if tool == weather and rng.random() < 0.3:
        return [location, tool, several]
    if rng.random() < 0.2:
        return rng.choice(([location, tool], [tool, location]))
    return [tool]


def _instructions(rng: Random, part: Part) -> str:
    if rng.random() < 0.6:
        return rng.choice(_INSTRUCTIONS)
    count = rng.randint(2, 8)
    words = [random_words(rng, part, capital=False) for _ in range(count)]
    return f"{' '.join(words).capitalize()}."


def _date(rng: Random) -> str:
    return f"20{rng.randint(24, 29)}-{rng.randint(1, 12):02}-{rng.randint(1, 28):02}"
