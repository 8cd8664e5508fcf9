"""Requests to Anthropic's Messages API become harmony conversations.

===========================  ====================================================================
``system``, role `system`    instructions in one ``developer`` message, wherever they stand
``tools``                    functions in that ``developer`` message
``output_config.format``     a response format in that ``developer`` message
``output_config.effort``     the effort; without it, the budget of ``thinking`` determines it
``text``                     ``final``, or a preamble on ``commentary`` if calls follow before
                             the next user message
``thinking``                 an ``analysis`` message: the tokens in its signature, or its text
``redacted_thinking``        the tokens in its data; left out if another server made it
``tool_use``                 a call on ``commentary``; its input as JSON without white space
``tool_result``              a result; its author is the function that was called
``document``                 its text; notes replace images and other files
===========================  ====================================================================

Calls of another server's tools, and their results, are left out: the model does not have these
tools, and the assistant's text contains their results.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...conversation.built_in_tools import BUILT_IN_TOOLS
from ...conversation.content import ReasoningEffort
from ...conversation.json_field import JsonField
from ...conversation.tool_choice import ToolChoice
from ...conversation.tool_namespaces import ToolDescription
from ...engines.engine import Sampling
from ..client_tools import MESSAGES_TOOLS
from ..conversation_builder import (
    ConversationBuilder,
    RequestedFormat,
    arguments_text,
    content_texts,
    file_note,
    part_text,
)
from ..items import Decrypt
from ..requested_reasoning import effort_of_budget, read_effort
from ..requested_tools import RequestedTools, read_tool_name
from ..responses.input import ItemReader
from ..turn import (
    TurnRequest,
    checked_beginning,
    noted,
    unread_fields,
    without_earlier_reasoning,
)
from .request import MessagesRequest

INVALID_JSON = "INVALID_JSON"
"""The only field of a call's input whose arguments are not a JSON object; it has their text."""

_BILLING = "x-anthropic-billing-header:"
"""The beginning of a system block by Claude Code, which differs in each request.

It is for Anthropic's servers. In the prompt it would empty the prefix cache at each request.
"""

_OTHER_SERVERS = {
    "server_tool_use",
    "web_search_tool_result",
    "web_fetch_tool_result",
    "code_execution_tool_result",
    "bash_code_execution_tool_result",
    "text_editor_code_execution_tool_result",
    "tool_search_tool_result",
    "mcp_tool_use",
    "mcp_tool_result",
    "container_upload",
    "compaction",
}


def turn_of_messages(
    request: MessagesRequest,
    *,
    date: str | None = None,
    effort: ReasoningEffort = ReasoningEffort.MEDIUM,
    sampling: Sampling | None = None,
    decrypt: Decrypt | None = None,
) -> TurnRequest:
    """Convert a Messages request to a turn; `turn_of_response` explains the arguments.

    Raises `ConversationError`, which names the wrong field.

    >>> from gpt_oss_harmony.apis import ChatRequest, turn_of_chat
    >>> messages = [{"role": "user", "content": "hi"}]
    >>> turn = turn_of_messages(MessagesRequest(messages=messages, system="Be brief."))
    >>> system = {"role": "system", "content": "Be brief."}
    >>> turn == turn_of_chat(ChatRequest(messages=[system, *messages]))
    True
    """
    request = noted(request)
    tools = _read_tools(JsonField(request.tools, "tools"))
    choice = _read_choice(JsonField(request.tool_choice, "tool_choice"), tools)
    answer_format = _requested_format(request)
    builder = ConversationBuilder(tools)
    if request.system is not None:
        builder.add_instructions(_instructions(JsonField(request.system, "system")))
    messages = list(JsonField(request.messages, "messages").items())
    for message in messages:
        role = message["role"]
        if role.text() == "system":
            builder.add_instructions(_instructions(message["content"]))
        elif role.value == "user":
            _read_user(message["content"], builder)
        elif role.value == "assistant":
            _read_assistant(message["content"], builder, decrypt)
        else:
            raise role.unexpected("one of user, assistant, system")
    continues = messages[-1]["role"].value == "assistant"
    conversation = builder.conversation(
        effort=_requested_effort(request, effort),
        start_date=date,
        response_format=answer_format,
    )
    thinking = request.thinking
    budget = None if thinking is None else thinking.budget_tokens
    if thinking is not None and thinking.type in ("disabled", "between_tools"):
        budget = 0
    turn = TurnRequest(
        conversation=without_earlier_reasoning(conversation, continues=continues),
        sampling=request.sampling(sampling),
        tool_choice=choice,
        later_tool_choice=choice,
        response_format=None if answer_format is None else answer_format.to_dict(),
        reasoning_tokens=budget,
        stop=request.stop_texts,
        strict_tools=frozenset(tools.strict),
        json_whitespace=request.json_whitespace,
        unread=unread_fields(vars(request)),
        continues=continues,
    )
    return _prefilled(turn, request, messages[-1]) if continues else turn


def _prefilled(turn: TurnRequest, request: MessagesRequest, last: JsonField) -> TurnRequest:
    """Check what Anthropic's API requires of the beginning of an answer (prefill)."""
    thinking = request.thinking
    checked_beginning(turn, last)
    if thinking is not None and thinking.type in ("enabled", "adaptive"):
        problem = "the model cannot reason in an answer that has begun (prefill)"
        raise last.error(f"{problem}; leave out thinking, or let the last message be by the user")
    if request.thread is not None:
        raise last.error("a thread keeps whole messages; leave it out, or send no beginning")
    text = turn.conversation.messages[-1].text
    if text != text.rstrip():
        raise last.error("final assistant content cannot end with trailing whitespace")
    return turn


def _requested_effort(request: MessagesRequest, default: ReasoningEffort) -> ReasoningEffort | None:
    output, thinking = request.output_config, request.thinking
    named = JsonField(output and output.effort, "output_config.effort")
    other = JsonField(request.reasoning_effort, "reasoning_effort")
    if not named.is_null and not other.is_null and named.value != other.value:
        raise other.error(f"{named.path} has another value; send one of them")
    if named.is_null and other.is_null and thinking is not None:
        if thinking.type in ("disabled", "between_tools"):
            return ReasoningEffort.LOW  # a prompt cannot request less
        budget = thinking.budget_tokens
        if budget is not None:
            return effort_of_budget(budget)
    return read_effort(other if named.is_null else named, default)


def _requested_format(request: MessagesRequest) -> RequestedFormat | None:
    output = request.output_config
    own = JsonField(output and output.format, "output_config.format")
    older = JsonField(request.output_format, "output_format")
    if not own.is_null and not older.is_null and own.value != older.value:
        raise older.error(f"{own.path} has another value; send one of them")
    answer_format = older if own.is_null else own
    if answer_format.is_null:
        return None
    if answer_format["type"].value != "json_schema":
        raise answer_format["type"].unexpected("json_schema")
    # The API guarantees the schema, so one that cannot be enforced is an error.
    schema = dict(answer_format["schema"].object())
    return RequestedFormat(name="answer", schema=schema, strict=True)


# Tools


def _read_tools(tools: JsonField) -> RequestedTools:
    requested = RequestedTools()
    for tool in tools.optional_items():
        kind = tool["type"]
        client_tool = None if kind.is_null else MESSAGES_TOOLS.get(kind.text())
        if client_tool is None and not kind.is_null and kind.value != "custom":
            built_in = " or ".join(own.requested_as[0] for own in BUILT_IN_TOOLS.values())
            raise kind.error(
                f"{kind.value!r:.80} is not a tool of the client with an input_schema; send one, "
                f"or send {built_in} to the Responses API"
            )
        name = read_tool_name(tool["name"])
        if client_tool is None:
            schema: dict[str, Any] | None = dict(tool["input_schema"].object())
            given = tool["description"].optional_text()
        else:
            schema, given = client_tool.parameters or {}, client_tool.description
            if name != client_tool.name:
                raise tool["name"].unexpected(repr(client_tool.name))
        examples = [
            f"Example of arguments: {arguments_text(example, INVALID_JSON)}"
            for example in tool["input_examples"].optional_items()
        ]
        description = "\n".join([*filter(None, [given]), *examples])
        # Options that ask for what happens anyway; others are reported as ignored.
        tool.accept("defer_loading", False)
        tool.accept("allowed_callers", ["direct"])
        tool.accept("eager_input_streaming", True)  # arguments are streamed as they are written
        requested.add("functions", None, ToolDescription.new(name, description, schema), tool)
        if tool["strict"].flag():
            requested.strict.add(f"functions.{name}")
    return requested


def _read_choice(choice: JsonField, tools: RequestedTools) -> ToolChoice:
    """Read a choice; the model writes one call in a turn, so `disable_parallel_tool_use` holds."""
    if choice.is_null:
        return ToolChoice()
    kind = choice["type"].text()
    if kind == "none":
        return ToolChoice("none")
    if kind == "auto":
        return ToolChoice()
    if kind not in ("any", "tool"):
        raise choice["type"].unexpected("one of auto, any, tool, none")
    if not tools.recipients:
        raise choice.error("a call is required, but the model has no tool to call")
    if kind == "any":
        return ToolChoice("required")
    recipient = f"functions.{choice['name'].text()}"
    if recipient not in tools.recipients:
        declared = ", ".join(name.removeprefix("functions.") for name in tools.recipients)
        raise choice["name"].error(
            f"{choice['name'].value!r:.80} is not declared; declared tools: {declared}"
        )
    return ToolChoice("required", (recipient,))


# Messages


def _instructions(content: JsonField) -> list[str]:
    for block in _blocks(content):
        if block["type"].text() != "text":
            raise block["type"].unexpected("text; instructions have no other blocks")
    return [text for text in content_texts(content) if not text.startswith(_BILLING)]


def _blocks(content: JsonField) -> Iterator[JsonField]:
    """Yield the blocks of a content; a text is one block."""
    if isinstance(content.value, str):
        yield JsonField({"type": "text", "text": content.value}, content.path)
        return
    if not isinstance(content.value, list):
        raise content.unexpected("text or a list of blocks")
    yield from content.items()


def _read_user(content: JsonField, builder: ConversationBuilder) -> None:
    """Read the results of calls, and the texts between them as messages by the user."""
    texts: list[str] = []
    has_results = False
    for block in _blocks(content):
        if block["type"].text() != "tool_result":
            texts.append(_block_text(block))
            continue
        if texts:
            builder.add_question(texts)
            texts = []
        has_results = True
        _read_result(block, builder)
    if texts or not has_results:
        builder.add_question(texts)


def _read_result(block: JsonField, builder: ConversationBuilder) -> None:
    content = block["content"]
    texts = [] if content.is_null else [_block_text(part) for part in _blocks(content)]
    if not texts and block["is_error"].flag():
        texts = ["Error"]  # the model must not take an empty error for a success
    remedy = "keep the assistant message with its tool_use block"
    builder.add_result(block["tool_use_id"], texts, remedy=remedy)


def _block_text(block: JsonField) -> str:
    """Read a block of a user, or of a tool's result: its text, or a note in its place."""
    kind = block["type"].text()
    if kind == "document":
        return _document_text(block)
    if kind == "search_result":
        texts = [block["title"].text(), block["source"].text(), *content_texts(block["content"])]
        return "\n".join(texts)
    if kind == "file":  # of `chat_parts`
        context = block["context"].optional_text()
        return "\n\n".join(filter(None, [context, part_text(block)]))
    if kind == "tool_reference":
        return block["tool_name"].text()
    return part_text(block)


def _document_text(block: JsonField) -> str:
    source = block["source"]
    kind = source["type"].text()
    if kind == "text":
        text = source["data"].text()
    elif kind == "content":
        text = "\n\n".join(content_texts(source["content"]))
    else:  # the server has replaced readable files before
        return part_text(block)
    context = block["context"].optional_text()
    name = block["title"].optional_text()
    return file_note(name, f"{context}\n\n{text}" if context else text)


def _read_assistant(
    content: JsonField, builder: ConversationBuilder, decrypt: Decrypt | None
) -> None:
    blocks = list(_blocks(content))
    kinds = [block["type"].text() for block in blocks]
    for block, kind, following in zip(blocks, kinds, [*kinds, ""][1:], strict=True):
        for name in ("caller", "citations", "signature"):  # of a block that comes back
            block.accept(name)
        if kind == "text":
            text = block["text"].text()
            if text or len(blocks) == 1:
                # Of several texts in a row, only the last is the answer.
                builder.add_text([text], "commentary" if following == "text" else None)
        elif kind == "thinking":
            _read_thinking(block["signature"], [block["thinking"].text()], builder, decrypt)
        elif kind == "redacted_thinking":
            _read_thinking(block["data"], [], builder, decrypt)
        elif kind == "tool_use":
            name = read_tool_name(block["name"])
            builder.add_call(
                block["id"].text(), name, None, arguments_text(block["input"], INVALID_JSON)
            )
        elif kind not in _OTHER_SERVERS:
            known = "text, thinking, redacted_thinking, tool_use"
            raise block["type"].unexpected(f"one of {known}, or a block of a server's tool")


def _read_thinking(
    sealed: JsonField, texts: list[str], builder: ConversationBuilder, decrypt: Decrypt | None
) -> None:
    """Add reasoning with its sampled tokens; that of another server only with its text."""
    items = decrypt(sealed.text()) if decrypt and sealed.value else None
    if items is not None:
        ItemReader(builder, decrypt).read_all(items, sealed.path)
    elif any(texts):
        builder.add_reasoning(texts)


def chat_parts(request: MessagesRequest) -> list[dict[str, Any]]:
    """Return the messages with their files as content parts of Chat Completions.

    Servers replace these parts by their texts. The other blocks stay as they are.

    >>> source = {"type": "file", "file_id": "file_1"}
    >>> blocks = [{"type": "document", "source": source}]
    >>> chat_parts(MessagesRequest(messages=[{"role": "user", "content": blocks}]))[0]["content"]
    [{'type': 'file', 'file': {'filename': None, 'file_id': 'file_1'}}]
    """
    return [
        {**message, "content": [_with_file(block) for block in message["content"]]}
        if isinstance(message.get("content"), list)
        else message
        for message in request.messages
    ]


def _with_file(block: Any) -> Any:
    if not isinstance(block, dict):
        return block
    source = block.get("source")
    if block.get("type") != "document" or not isinstance(source, dict):
        return block
    file: dict[str, Any] = {"filename": block.get("title")}
    if source.get("type") == "file":
        file["file_id"] = source.get("file_id")
    elif source.get("type") == "base64":
        file["file_data"] = f"data:{source.get('media_type')};base64,{source.get('data')}"
    else:
        return block
    rest = {name: value for name, value in block.items() if name not in ("source", "title")}
    return {**rest, "type": "file", "file": file}
