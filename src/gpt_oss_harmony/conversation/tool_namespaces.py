"""Tools as a prompt declares them: descriptions, grouped into namespaces.

The models were trained with the two built-in namespaces, `browser` and `python`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BeforeValidator, field_validator

from ..config import CheckedModel


class ToolDescription(CheckedModel):
    """One callable tool; `parameters` is the JSON Schema of its arguments.

    A boolean schema is allowed: True accepts any object, and False forbids every call.

    >>> ToolDescription.new("now", "Tells the time.").parameters is None
    True
    """

    name: str
    description: str
    parameters: dict[str, Any] | None = None

    @field_validator("parameters", mode="before")
    @classmethod
    def _object_schema(cls, value: object) -> object:
        if isinstance(value, bool):
            return {"type": "object"} if value else {"type": "object", "not": {}}
        if isinstance(value, (list, str, int, float)):
            raise ValueError('a JSON Schema is an object, such as {"type": "object"}')
        return value

    @classmethod
    def new(
        cls, name: str, description: str, parameters: dict[str, Any] | bool | None = None
    ) -> ToolDescription:
        """Make a tool from its name, description and JSON Schema."""
        return cls.model_validate(
            {"name": name, "description": description, "parameters": parameters}
        )


def _read_tool(raw: object) -> object:
    """Refuse what people write instead of a tool, with the way to make one."""
    if isinstance(raw, Mapping) and "function" in raw and "name" not in raw:
        raise ValueError(
            "for a tool of Chat Completions, write ToolDescription.new(name, description, "
            "parameters) with the values of its 'function'"
        )
    if not isinstance(raw, (ToolDescription, Mapping)):
        raise ValueError("expected a ToolDescription; tools are a list of them")
    return raw


class ToolNamespaceConfig(CheckedModel):
    """Tools that share a prefix: `functions.now` is the tool `now` in the namespace `functions`.

    The prompt shows a namespace without tools as its description alone.
    """

    name: str
    description: str | None = None
    tools: list[Annotated[ToolDescription, BeforeValidator(_read_tool)]]

    @staticmethod
    def browser() -> ToolNamespaceConfig:
        """Return the built-in tool `browser`, with the functions `search`, `open` and `find`."""
        return ToolNamespaceConfig(
            name="browser",
            description=_BROWSER_DESCRIPTION,
            tools=[
                ToolDescription.new("search", _SEARCH_DESCRIPTION, _SEARCH_PARAMETERS),
                ToolDescription.new("open", _OPEN_DESCRIPTION, _OPEN_PARAMETERS),
                ToolDescription.new("find", _FIND_DESCRIPTION, _FIND_PARAMETERS),
            ],
        )

    @staticmethod
    def python() -> ToolNamespaceConfig:
        """Return the built-in tool `python`, which takes code and has no functions."""
        return ToolNamespaceConfig(name="python", description=_PYTHON_DESCRIPTION, tools=[])


# The texts below are part of the format (see "Built-in tools" in the guide): if one character
# changes, so do the tokens that the models were trained on.

_BROWSER_DESCRIPTION = (
    "Tool for browsing.\n"
    "The `cursor` appears in brackets before each browsing display: `[{cursor}]`.\n"
    "Cite information from the tool using the following format:\n"
    "`【{cursor}†L{line_start}(-L{line_end})?】`, for example: `【6†L9-L11】` or `【8†L3】`.\n"
    "Do not quote more than 10 words directly from the tool output.\n"
    "sources=web (default: web)"
)

_SEARCH_DESCRIPTION = "Searches for information related to `query` and displays `topn` results."
_SEARCH_PARAMETERS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "query": {"type": "string"},
        "topn": {"type": "number", "default": 10},
        "source": {"type": "string"},
    },
    "required": ["query"],
}

_OPEN_DESCRIPTION = (
    "Opens the link `id` from the page indicated by `cursor` starting at line number `loc`, "
    "showing `num_lines` lines.\n"
    "Valid link ids are displayed with the formatting: `【{id}†.*】`.\n"
    "If `cursor` is not provided, the most recent page is implied.\n"
    "If `id` is a string, it is treated as a fully qualified URL associated with `source`.\n"
    "If `loc` is not provided, the viewport will be positioned at the beginning of the document "
    "or centered on the most relevant passage, if available.\n"
    "Use this function without `id` to scroll to a new location of an opened page."
)
_OPEN_PARAMETERS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "id": {"type": ["number", "string"], "default": -1},
        "cursor": {"type": "number", "default": -1},
        "loc": {"type": "number", "default": -1},
        "num_lines": {"type": "number", "default": -1},
        "view_source": {"type": "boolean", "default": False},
        "source": {"type": "string"},
    },
}

_FIND_DESCRIPTION = (
    "Finds exact matches of `pattern` in the current page, or the page given by `cursor`."
)
_FIND_PARAMETERS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "pattern": {"type": "string"},
        "cursor": {"type": "number", "default": -1},
    },
    "required": ["pattern"],
}

_PYTHON_DESCRIPTION = (
    "Use this tool to execute Python code in your chain of thought. The code will not be shown "
    "to the user. This tool should be used for internal reasoning, but not for code that is "
    "intended to be visible to the user (e.g. when creating plots, tables, or files).\n"
    "\n"
    "When you send a message containing Python code to python, it will be executed in a stateful "
    "Jupyter notebook environment. python will respond with the output of the execution or time "
    "out after 120.0 seconds. The drive at '/mnt/data' can be used to save and persist user "
    "files. Internet access for this session is UNKNOWN. Depends on the cluster."
)


def namespace_of(recipient: str | None) -> str:
    """Return the namespace that a recipient belongs to; it is the name of a tool.

    >>> namespace_of("browser.search"), namespace_of("python"), namespace_of(None)
    ('browser', 'python', '')
    """
    return (recipient or "").partition(".")[0]
