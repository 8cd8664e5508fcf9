"""Requests to vLLM as constraints of a whole turn."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from gpt_oss_harmony.apis.conversation_builder import ConversationBuilder
from gpt_oss_harmony.apis.requested_format import requested_format
from gpt_oss_harmony.apis.requested_tools import RequestedTools, read_tool_choice, read_tools
from gpt_oss_harmony.conversation.json_field import JsonField
from gpt_oss_harmony.conversation.messages import Conversation, Message

from .settings import Settings

if TYPE_CHECKING:
    from gpt_oss_harmony.grammar.errors import GrammarError

__all__ = ["CLOSING_LINE", "Constraint", "constrain"]

CLOSING_LINE = "// closed in time\n"
"""A comment in the grammars of turns that must end within the tokens of their request."""

_BACKENDS = {"grammar": ("guidance", "auto"), "structural-tag": ("xgrammar", "auto"), "off": ()}
_FORMATS = ("json", "json_object", "regex", "choice", "grammar")


class Constraint(NamedTuple):
    """The fields of vLLM's `StructuredOutputsParams`, and the parts that they do not enforce."""

    fields: Mapping[str, str]
    unenforced: tuple[GrammarError, ...] = ()


def schema_check(tools: Iterable[Any]) -> Callable[[Message], bool]:
    """Return whether a call follows the schema of its function, for the tools of a request."""
    from gpt_oss_harmony.grammar import find_violations  # only where calls are mended

    functions = (tool.model_dump(exclude_none=True) for tool in tools if tool.type == "function")
    declared = read_tools(JsonField(tool, f"tools[{i}]") for i, tool in enumerate(functions))
    conversation = _declaring(declared)
    return lambda message: not find_violations([message], conversation)


def _declaring(tools: RequestedTools) -> Conversation:
    return ConversationBuilder(tools).conversation(
        effort=None, start_date=None, response_format=None
    )


def constrain(
    request: Any, settings: Settings, backend: str | None, *, is_strict: bool = False
) -> Constraint | None:
    """Return the constraint of a request to either API.

    `backend` is the one that enforces it. With `is_strict`, a request with callable tools is always
    constrained. The result is None if the request has no constraints, or if only vLLM can enforce
    them: structural tags of the client, tools that vLLM runs, or another backend.

    This may take some seconds; call it in a thread. Raises `HarmonyError` if the request cannot be
    read, and another `ValueError` if its schemas are too much work: vLLM's own constraint would be
    as much.
    """
    if backend not in _BACKENDS[settings.grammar]:
        return None
    tools = [tool.model_dump(exclude_none=True) for tool in request.tools or ()]
    if any(tool["type"] != "function" for tool in tools):
        return None
    outputs = request.extract_structured_outputs()
    if outputs is not None and outputs.structural_tag is not None:
        return None
    form = {name: value for name in _FORMATS if (value := getattr(outputs, name, None)) is not None}
    declared = read_tools(JsonField(tool, f"tools[{i}]") for i, tool in enumerate(tools))
    choice = request.tool_choice
    if hasattr(choice, "model_dump"):
        choice = choice.model_dump(exclude_none=True)
    tool_choice = read_tool_choice(JsonField(choice, "tool_choice"), declared)
    is_restricted = tool_choice.mode != "auto" or tool_choice.names is not None
    if not form and not (tools and (is_restricted or declared.strict or is_strict)):
        return None
    answer = requested_format(
        JsonField({"structured_outputs": form}), JsonField(None, "response_format")
    )
    # Imported for the first constrained request: llguidance and the modules for schemas.
    from gpt_oss_harmony.grammar import StepLimitError, TurnOptions, turn_constraint
    from gpt_oss_harmony.grammar.json_schema import STEP_LIMIT
    from gpt_oss_harmony.grammar.structural_tag import tag_of_grammar

    conversation = _declaring(declared)
    options = TurnOptions(
        tool_choice=tool_choice,
        response_format=None if answer is None else answer.to_dict(),
        on_unsupported="loosen",
        schema_steps=settings.schema_steps or STEP_LIMIT,
    )
    try:
        grammar, unenforced, _ = turn_constraint(conversation, options)
    except StepLimitError as error:
        raise ValueError(f"{error}: HARMONY_VLLM_SCHEMA_STEPS") from None
    if settings.grammar == "structural-tag":
        tag = json.dumps(tag_of_grammar(grammar))
        return Constraint({"structural_tag": tag}, unenforced)
    # Free text may be cut: the client then reads that its limit ended the answer.
    is_closed = settings.closes and (tool_choice.mode == "required" or answer is not None)
    line = CLOSING_LINE if is_closed else ""
    return Constraint({"grammar": f"{grammar}{line}"}, unenforced)  # vLLM sends it to its engine
