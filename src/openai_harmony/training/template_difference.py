"""Where a chat template and harmony make different tokens of the same conversation.

A template is Jinja, as the Hugging Face hub has it for each model; what it writes is encoded with
every special token that its text spells, as tokenizers do it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import date as calendar_date
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, Protocol

from ..conversation.json_field import JsonField
from ..conversation.messages import Conversation, Role
from ..encoding import load_harmony_encoding
from ..errors import ConversationError
from ..rendering.segments import SegmentKind
from .examples import training_examples
from .options import TrainingOptions
from .rows.chat_row import chat_conversation
from .turn_plan import kept_in_prompt

if TYPE_CHECKING:
    from jinja2.sandbox import ImmutableSandboxedEnvironment

__all__ = ["TemplateDifference", "find_template_difference"]

_SHOWN = 24  # tokens after the difference
_GENERATION = re.compile(r"{%(-?)\s*(end)?generation\s*(-?)%}")


class HasTemplate(Protocol):
    """A tokenizer of Transformers."""

    @property
    def chat_template(self) -> Any:
        """The template, or templates by name."""


class TemplateDifference(NamedTuple):
    """The first difference: at the token with the index `at`, in a part of a message.

    `message` is the index of the harmony message, one past the last for the start of the next one,
    and None where harmony has no more tokens. `harmony` and `template` are the texts from there on.
    `problem` is what the template says where it writes nothing at all.
    """

    at: int
    message: int | None
    kind: SegmentKind | None
    harmony: str
    template: str
    problem: str | None = None


class _Refused(Exception):
    """The template called ``raise_exception``."""


def find_template_difference(
    chat: Mapping[str, Any] | list[Any],
    template: str | HasTemplate,
    *,
    date: str,
    training: bool = False,
    options: TrainingOptions | None = None,
    variables: Mapping[str, Any] | None = None,
) -> TemplateDifference | None:
    """Compare what a chat template makes of a chat with what harmony does.

    `chat` is a Chat Completions request, or its messages. `date` is today, as ``2025-06-28``, for
    both. The prompt for the next message is compared; with `training`, the last sequence to learn
    from. `variables` go to the template. Returns None where all tokens agree.

    >>> chat = [{"role": "user", "content": "hi"}]
    >>> difference = find_template_difference(chat, "{{ messages[0].content }}", date="2025-06-28")
    >>> difference.at, difference.template
    (0, 'hi')
    """
    fields = {"messages": chat} if isinstance(chat, list) else dict(chat)
    options = options or TrainingOptions()
    conversation, _ = chat_conversation(JsonField(fields), date)
    expected = _training(conversation, options) if training else _prompt(conversation, options)
    encoding = load_harmony_encoding("HarmonyGptOss")
    ours = [token for token, _, _ in expected]
    text, problem = _write(template, fields, date, not training, variables or {})
    theirs = encoding.encode(text, allowed_special="all")
    if ours == theirs and problem is None:
        return None
    longest = min(len(ours), len(theirs))
    at = next((at for at in range(longest) if ours[at] != theirs[at]), longest)
    _, message, kind = expected[at] if at < len(expected) else (0, None, None)
    shown, written = (encoding.decode(tokens[at : at + _SHOWN]) for tokens in (ours, theirs))
    return TemplateDifference(at, message, kind, shown, written, problem)


_Token = tuple[int, int, SegmentKind]
"""A token, its message and its kind."""


def _prompt(conversation: Conversation, options: TrainingOptions) -> list[_Token]:
    messages = conversation.messages
    kept = kept_in_prompt(messages, range(len(messages)), options)
    chosen = Conversation(messages=[messages[at] for at in kept])
    encoding = load_harmony_encoding("HarmonyGptOss")
    segments = encoding.segments_for_completion(chosen, Role.ASSISTANT, options.rendering())
    places = [*kept, len(messages)]
    return [(token, places[at], kind) for kind, at, _, tokens in segments for token in tokens]


def _training(conversation: Conversation, options: TrainingOptions) -> list[_Token]:
    examples = training_examples(conversation, options)
    if not examples:
        raise ConversationError("the chat has nothing to learn; end it with the assistant")
    last = examples[-1]
    messages, kinds = last.token_messages(), last.token_kinds()
    return list(zip(last.input_ids, messages, kinds, strict=True))


# The template


def _write(
    template: str | HasTemplate,
    fields: Mapping[str, Any],
    date: str,
    opens: bool,
    variables: Mapping[str, Any],
) -> tuple[str, str | None]:
    """Write the chat as the template has it, and what the template or Jinja complains of."""
    from jinja2 import TemplateError

    # What marks the assistant's part for masks is an extension of Transformers.
    source = _GENERATION.sub(
        lambda tag: f"{{%{tag[1]} {'endif' if tag[2] else 'if true'} {tag[3]}%}}", _source(template)
    )
    today = calendar_date.fromisoformat(date)
    known = {name: value for name, value in fields.items() if value is not None}
    try:
        text = (
            _environment()
            .from_string(source, {"strftime_now": today.strftime, "raise_exception": _refuse})
            .render(**{**known, "add_generation_prompt": opens, **variables})
        )
    except (_Refused, TemplateError, TypeError) as error:
        return "", f"{error}"
    return text, None


def _source(template: str | HasTemplate) -> str:
    source = template if isinstance(template, str) else template.chat_template
    if isinstance(source, Mapping):
        source = source.get("default")
    if not isinstance(source, str):
        raise ValueError("the tokenizer has no chat template; give the template's text")
    return source


def _environment() -> ImmutableSandboxedEnvironment:
    """Set Jinja up as Transformers does."""
    from jinja2.ext import loopcontrols
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols]
    )
    environment.filters["tojson"] = _tojson
    return environment


def _tojson(value: Any, indent: int | None = None, **options: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent, **options)


def _refuse(message: str) -> NoReturn:
    raise _Refused(message)
