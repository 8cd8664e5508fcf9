"""The names of models, in the forms of OpenAI's and Anthropic's APIs."""

from __future__ import annotations

from typing import Any, Literal

from typing_extensions import TypedDict  # pydantic needs that of Python 3.12

from .current_date import rfc_3339
from .request_body import RequestBody


class Model(TypedDict):
    """A model's name and creation time; `max_model_len` is the length of its context in tokens."""

    id: str
    object: Literal["model"]
    created: int
    owned_by: str
    max_model_len: int


class ModelToLoad(RequestBody):
    """The name of a model."""

    model: str


class ModelList(TypedDict):
    """All names."""

    object: Literal["list"]
    data: list[Model]


def model_json(name: str, started: int, context_length: int) -> Model:
    """Describe a model in OpenAI's form."""
    return {
        "id": name,
        "object": "model",
        "created": started,
        "owned_by": "gpt-oss-harmony",
        "max_model_len": context_length,
    }


class ModelInfo(TypedDict):
    """A model as Anthropic's API describes it; `capabilities` names what the model can do."""

    type: Literal["model"]
    id: str
    display_name: str
    created_at: str
    lifecycle: Literal["active"]
    max_input_tokens: int
    max_tokens: int
    capabilities: dict[str, Any]


class ModelPage(TypedDict):
    """All names; there is always one page."""

    data: list[ModelInfo]
    first_id: str
    last_id: str
    has_more: bool


def _supported(*names: str, **others: bool) -> dict[str, Any]:
    supports = dict.fromkeys(names, True) | others
    return {name: {"supported": supported} for name, supported in supports.items()}


_CAPABILITIES: dict[str, Any] = {
    **_supported(
        "structured_outputs",
        batch=True,
        citations=False,
        code_execution=False,
        image_input=False,
        pdf_input=True,
    ),
    "context_management": {"supported": False},
    "effort": {"supported": True, **_supported("low", "medium", "high", "max", "xhigh")},
    "server_tools": {"supported": False, **_supported(code_execution=False, web_search=False)},
    "thinking": {
        "supported": True,
        "types": _supported("adaptive", "between_tools", "disabled", "enabled"),
    },
}


def model_info(name: str, started: int, context_length: int) -> ModelInfo:
    """Describe a model in Anthropic's form."""
    return {
        "type": "model",
        "id": name,
        "display_name": name,
        "created_at": rfc_3339(started),
        "lifecycle": "active",
        "max_input_tokens": context_length,
        "max_tokens": context_length,
        "capabilities": _CAPABILITIES,
    }
