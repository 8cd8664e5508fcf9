"""Tools that another server lists: functions of a namespace, with names of their own there."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from .tool import Tool, ToolSession

__all__ = ["ServerFunction", "ServerTool"]

_Session = TypeVar("_Session", bound=ToolSession)


@dataclass(frozen=True)
class ServerFunction:
    """A function as its server lists it; `input_schema` and `annotations` are JSON.

    >>> ServerFunction("get-time", "Tells it.", {}, {"readOnlyHint": True}).is_read_only
    True
    """

    name: str
    description: str | None
    input_schema: Mapping[str, Any]
    annotations: Mapping[str, Any] | None = None

    @property
    def is_read_only(self) -> bool:
        """Whether the server says that it changes nothing."""
        return (self.annotations or {}).get("readOnlyHint") is True


class ServerTool(Tool[_Session]):
    """The tools of one server; all conversations share what it remembers."""

    @property
    @abstractmethod
    def functions(self) -> Mapping[str, ServerFunction]:
        """What the server lists, by the names in `namespace`."""
