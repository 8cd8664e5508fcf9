"""Find the first token at which a chat template and harmony differ.

Templates are those of the Hugging Face hub, in Jinja. Their output is encoded as by the hub's
tokenizers: text that spells a special token becomes that token.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import date as calendar_date
from typing import Any, NamedTuple, NoReturn, Protocol

from ..apis.chat.input import conversation_from_chat
from ..conversation.json_field import JsonField
from ..conversation.messages import Conversation, Role
from ..encoding import load_harmony_encoding
from ..errors import ConversationError
from ..rendering.renderer import SegmentKind
from ..tokens.special_tokens import HUB_SPELLINGS, SPECIAL_TEXTS
from .chat_rows import completed_chat
from .examples import training_examples
from .options import TrainingOptions
from .sequence_plan import kept_in_prompt

_SHOWN = 24  # tokens after the difference
_GENERATION = re.compile(r"{%(-?)\s*(end)?generation\s*(-?)%}")


class HasTemplate(Protocol):
    """A tokenizer of Transformers."""

    @property
    def chat_template(self) -> Any:
        """The template, or templates by name."""


class TemplateDifference(NamedTuple):
    """The first token that differs: its index, its message and its kind.

    `message` is the index of the harmony message. It is the number of messages for the start of the
    next one, and None if harmony has no more tokens. `harmony` and `template` are the texts from
    this token on. `problem` is the error of a template that could not be rendered.
    """

    position: int
    message: int | None
    kind: SegmentKind | None
    harmony: str
    template: str
    problem: str | None = None


class _TemplateException(Exception):
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
    """Compare the tokens of a chat by a chat template with those of harmony.

    `chat` is a Chat Completions request or its messages. `date` is the current date for both, such
    as ``2025-06-28``. The prompts for the next message are compared, or with `training`, the last
    training example. `variables` are passed to the template. Returns None if all tokens are equal.

    >>> chat = [{"role": "user", "content": "hi"}]
    >>> difference = find_template_difference(chat, "{{ messages[0].content }}", date="2025-06-28")
    >>> difference.position, difference.template
    (0, 'hi')
    """
    fields = {"messages": chat} if isinstance(chat, list) else dict(chat)
    options = options or TrainingOptions()
    request = completed_chat(JsonField(fields))
    conversation = conversation_from_chat(request, conversation_start_date=date)
    expected = (_example_tokens if training else _prompt_tokens)(conversation, options)
    encoding = load_harmony_encoding("HarmonyGptOss")
    ours = [token for token, _, _ in expected]
    text, problem = _render(template, fields, date, not training, variables or {})
    for spelling, token in HUB_SPELLINGS.items():
        text = text.replace(spelling, SPECIAL_TEXTS[token])
    theirs = encoding.encode(text, allowed_special="all")
    if ours == theirs and problem is None:
        return None
    shorter = min(len(ours), len(theirs))
    first = next((i for i in range(shorter) if ours[i] != theirs[i]), shorter)
    _, message, kind = expected[first] if first < len(expected) else (0, None, None)
    shown, rendered = (encoding.decode(ids[first : first + _SHOWN]) for ids in (ours, theirs))
    return TemplateDifference(first, message, kind, shown, rendered, problem)


_Token = tuple[int, int, SegmentKind]
"""A token, its message and its kind."""


def _prompt_tokens(conversation: Conversation, options: TrainingOptions) -> list[_Token]:
    messages = conversation.messages
    kept = kept_in_prompt(messages, range(len(messages)), options)
    chosen = Conversation(messages=[messages[index] for index in kept])
    encoding = load_harmony_encoding("HarmonyGptOss")
    segments = encoding.segments_for_completion(chosen, Role.ASSISTANT, options.rendering())
    indices = [*kept, len(messages)]
    return [(token, indices[i], kind) for kind, i, _, tokens in segments for token in tokens]


def _example_tokens(conversation: Conversation, options: TrainingOptions) -> list[_Token]:
    examples = training_examples(conversation, options)
    if not examples:
        raise ConversationError("the chat has nothing to train on; end it with the assistant")
    last = examples[-1]
    messages, kinds = last.token_messages(), last.token_kinds()
    return list(zip(last.input_ids, messages, kinds, strict=True))


# The template


def _render(
    template: str | HasTemplate,
    fields: Mapping[str, Any],
    date: str,
    opens: bool,
    variables: Mapping[str, Any],
) -> tuple[str, str | None]:
    """Render a chat by the template; return the text and the error of the template or of Jinja.

    Jinja is set up as Transformers does it.
    """
    from jinja2 import TemplateError
    from jinja2.ext import loopcontrols
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    def raise_exception(message: str) -> NoReturn:
        raise _TemplateException(message)

    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols]
    )
    environment.filters["tojson"] = lambda value, indent=None, **options: json.dumps(
        value, ensure_ascii=False, indent=indent, **options
    )
    names = {
        "strftime_now": calendar_date.fromisoformat(date).strftime,
        "raise_exception": raise_exception,
    }
    source = template if isinstance(template, str) else template.chat_template
    if isinstance(source, Mapping):
        source = source.get("default")
    if not isinstance(source, str):
        raise ValueError("the tokenizer has no chat template; give the template's text")
    # Transformers has its own tag around the assistant's text, for masks.
    source = _GENERATION.sub(
        lambda tag: f"{{%{tag[1]} {'endif' if tag[2] else 'if true'} {tag[3]}%}}", source
    )
    present = {name: value for name, value in fields.items() if value is not None}
    try:
        return environment.from_string(source, names).render(
            **{**present, "add_generation_prompt": opens, **variables}
        ), None
    except (_TemplateException, TemplateError, TypeError) as error:
        return "", f"{error}"
