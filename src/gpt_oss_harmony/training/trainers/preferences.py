"""Preferences and sampled sequences as columns for the trainers of TRL."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import dropwhile, takewhile
from typing import Any

from ...apis.current_date import TODAY, current_date
from ...conversation.json_field import NOTHING, JsonField
from ...errors import ConversationError
from ..chat_rows import parsed_json, read_weight
from ..examples import IGNORED
from ..options import TrainingOptions
from ..rendered_rows import holds_rendered_text
from ..row_checks import REJECTED_FINDINGS, FindingKind
from ..row_forms import (
    VERDICTS,
    as_chat,
    detect_form,
    is_assistant,
    spoken,
    unlearned,
    verdicts,
)
from ..rows import row_examples
from ..token_sequence import TokenSequence

_SIDES = ("chosen", "rejected")


def preference_example(
    row: Mapping[str, Any],
    *,
    start_date: str | None = TODAY,
    reject: Collection[FindingKind] = REJECTED_FINDINGS,
    on_unused: Callable[[Sequence[str]], None] | None = None,
) -> dict[str, list[int]]:
    """Make the columns ``prompt_ids``, ``chosen_ids`` and ``rejected_ids`` of a row, for DPO.

    The row has ``chosen`` and ``rejected``, lists of Chat Completions messages, and ``prompt``, the
    messages before them. Without ``prompt``, the common beginning of both is the prompt. A text is
    one message: of the user in ``prompt``, else of the assistant. OpenAI's names are read, too:
    ``input`` with ``messages`` and ``tools``, ``preferred_output`` and ``non_preferred_output``.
    Raises `ConversationError` unless both answers follow the same prompt and the model samples all
    their tokens, if both answers are the same, if an answer has a weight other than 1, and for the
    kinds of `FINDINGS` in `reject`. `on_unused` is called with the names of fields that are in no
    column, such as ``margin`` or ``prompt[].weight``; without it, a warning has them.

    >>> row = {"prompt": [{"role": "user", "content": "2 + 2?"}],
    ...        "chosen": [{"role": "assistant", "content": "4"}],
    ...        "rejected": [{"role": "assistant", "content": "5"}]}
    >>> example = preference_example(row)
    >>> [len(example[name]) for name in ("chosen_ids", "rejected_ids")]
    [5, 5]
    """
    date = current_date(start_date)
    prompt, sides, fields = _parts(JsonField(row))
    # The label of a pair says nothing about one of its answers.
    labels = {name: fields.pop(name, None) for name in VERDICTS}
    unused = {name: None for name, value in labels.items() if value not in NOTHING}
    if not prompt:
        pairs = enumerate(zip(*sides.values(), strict=False))
        shortest = min(map(len, sides.values()))
        same = next((index for index, (one, other) in pairs if one != other), shortest)
        # The model answers the last message of the prompt.
        while same and sides["chosen"][same - 1].get("role") == "assistant":
            same -= 1
        prompt = sides["chosen"][:same]
        sides = {name: messages[same:] for name, messages in sides.items()}
    result: dict[str, list[int]] = {}
    for name, messages in sides.items():
        prompt_ids, answer_ids, left_out = _sampled_answer(
            fields, prompt, messages, name, date, reject
        )
        if result.setdefault("prompt_ids", prompt_ids) != prompt_ids:
            raise ConversationError("follows another prompt than the chosen answer", field=name)
        result[f"{name}_ids"] = answer_ids
        unused.update(dict.fromkeys(left_out))
    if result["chosen_ids"] == result["rejected_ids"]:
        problem = "is the same as the chosen answer, and teaches nothing; remove the row"
        raise ConversationError(problem, field="rejected")
    _name_unused(list(unused), on_unused)
    return result


def unpaired_preference_example(
    row: Mapping[str, Any],
    *,
    start_date: str | None = TODAY,
    reject: Collection[FindingKind] = REJECTED_FINDINGS,
    on_unused: Callable[[Sequence[str]], None] | None = None,
) -> dict[str, Any]:
    """Make the columns ``prompt_ids``, ``completion_ids`` and ``label`` of a row, for KTO.

    The row has ``prompt`` and ``completion``, lists of Chat Completions messages or texts, or a
    conversation in any form that `row_examples` reads, whose last answer is the completion. Its
    ``label`` (or ``kto_tag``) is true if the completion is good, false if it is bad; also as text.
    What raises `ConversationError`, and the other arguments, are those of `preference_example`.

    >>> example = unpaired_preference_example(
    ...     {"prompt": "2 + 2?", "completion": "5", "label": False}
    ... )
    >>> len(example["completion_ids"]), example["label"]
    (5, False)
    """
    field = JsonField(row)
    fields = dict(field.object())
    prompt, completion = field["prompt"], field["completion"]
    said = verdicts(field)
    if not said:
        given = (field[name] for name in VERDICTS if not field[name].is_null)
        raise next(given, field["label"]).unexpected("true or false")
    for name in said:
        del fields[name]
    date = current_date(start_date)
    if holds_rendered_text(fields) or (prompt.is_null and completion.is_null):
        answered = _last_answer(fields, date, reject)
    elif not field["messages"].is_null:
        raise field["messages"].error("the row has a prompt and a completion; keep one of both")
    else:
        asked, answer = _messages(prompt, "user"), _messages(completion, "assistant")
        for name in ("prompt", "completion"):
            fields.pop(name, None)
        answered = _sampled_answer(fields, asked, answer, "completion", date, reject)
    prompt_ids, answer_ids, unused = answered
    _name_unused(unused, on_unused)
    return {"prompt_ids": prompt_ids, "completion_ids": answer_ids, "label": said.popitem()[1]}


def _sampled_answer(
    fields: Mapping[str, Any],
    prompt: Sequence[Mapping[str, Any]],
    answer: Sequence[Mapping[str, Any]],
    name: str,
    date: str | None,
    reject: Collection[FindingKind],
) -> tuple[list[int], list[int], Sequence[str]]:
    """Return the tokens of a prompt and of its answer, and the fields of the row that neither has.

    Raises `ConversationError`, with `name` as the field, unless the model samples all tokens of the
    answer in one go, and with the weight 1.
    """
    _refuse_weights(fields, (JsonField(message, name) for message in answer), name)
    silent, weights = unlearned(prompt)
    chat = {**fields, **weights, "messages": [*silent, *answer]}
    read, made = row_examples(chat, form="chat", start_date=date, reject=reject)
    (*others, example) = made.examples
    start = next(index for index, label in enumerate(example.labels) if label != IGNORED)
    if others or IGNORED in example.labels[start:]:
        problem = "holds more than the model samples in one go; end it with a call or an answer"
        raise ConversationError(problem, field=name)
    return example.input_ids[:start], example.input_ids[start:], read.unused


def _last_answer(
    row: Mapping[str, Any], date: str | None, reject: Collection[FindingKind]
) -> tuple[list[int], list[int], Sequence[str]]:
    """Return what `_sampled_answer` does, for the last that the model samples in a conversation."""
    field, form = JsonField(row), detect_form(row)
    chat = field if form in ("harmony", "rendered") else as_chat(field, form)
    messages = [*parsed_json(chat["messages"]).optional_items()]
    backwards = dropwhile(lambda message: not is_assistant(message.value), reversed(messages))
    answer = [*takewhile(lambda message: is_assistant(message.value), backwards)]
    _refuse_weights(row, answer, "messages")
    before = takewhile(lambda message: message is not answer[-1], messages) if answer else ()
    _, weights = unlearned([message.value for message in before], "messages")
    options = TrainingOptions(turns="last")
    read, made = row_examples(row, options, form=form, start_date=date, reject=reject)
    example = made.examples[-1]
    start = len(example) - example.labels[::-1].index(IGNORED)
    return example.input_ids[:start], example.input_ids[start:], [*read.unused, *weights]


def _refuse_weights(row: Mapping[str, Any], answer: Iterable[JsonField], name: str) -> None:
    """Raise `ConversationError` if a row, or a message of its answer, has a weight other than 1."""
    weighted = [JsonField({"weight": row.get("weight")}), *answer]
    if any(read_weight(field) not in (None, 1) for field in weighted):
        raise ConversationError("a preference has no weights; remove the weight", field=name)


def _name_unused(unused: Sequence[str], on_unused: Callable[[Sequence[str]], None] | None) -> None:
    if unused and on_unused is not None:
        on_unused(unused)
    elif unused:
        warnings.warn(f"fields that are in no column: {', '.join(unused)}", stacklevel=3)


def _parts(row: JsonField) -> tuple[list[Any], dict[str, list[Any]], dict[str, Any]]:
    """Return the prompt, both answers, and the other fields of a row."""
    fields = dict(row.object())
    prompt_name, names = "prompt", dict(zip(_SIDES, _SIDES, strict=True))
    if not row["preferred_output"].is_null:
        names = {"chosen": "preferred_output", "rejected": "non_preferred_output"}
        prompt_name = "messages"
        given = fields.pop("input", None)
        if given is not None and not isinstance(given, list):
            given = JsonField(given, "input").object()
            fields |= given
        else:
            fields["messages"] = given
    elif isinstance(row["messages"].value, list):
        prompt_name = "messages"  # of data sets that keep the prompt there
    given_prompt = JsonField(fields.pop(prompt_name, None), prompt_name)
    sides = {side: _messages(row[name], "assistant") for side, name in names.items()}
    prompt = [] if given_prompt.is_null else _messages(given_prompt, "user")
    if _repeats(prompt, sides):
        prompt = []  # as in UltraFeedback: the answers repeat the question
    for name in names.values():
        fields.pop(name, None)
    return prompt, sides, fields


def _messages(field: JsonField, role: str) -> list[Any]:
    return [JsonField(message, field.path).object() for message in spoken(field, role)]


def _repeats(prompt: list[Any], sides: Mapping[str, list[Any]]) -> bool:
    """Return whether both answers begin with the prompt."""
    texts = [message.get("content") for message in prompt]
    return bool(texts) and all(
        [message.get("content") for message in messages[: len(texts)]] == texts
        and len(messages) > len(texts)
        for messages in sides.values()
    )


def rollout_columns(sequences: Sequence[TokenSequence]) -> dict[str, list[list[Any]]]:
    """Return the columns that a ``rollout_func`` of TRL's `GRPOTrainer` returns for sequences.

    A completion goes from the first sampled token to the last. ``env_mask`` is 0 for its tokens
    that were not sampled, such as the results of calls. Sequences in `earlier` are not included.

    >>> from gpt_oss_harmony import Conversation, Message
    >>> question = Conversation.from_messages([Message.from_role_and_content("user", "2 + 2?")])
    >>> prompt = TokenSequence.of_prompt(question)
    >>> sequence = prompt.add_sampled([200005, 17196, 200008, 19, 200002], [-0.1] * 5)
    >>> columns = rollout_columns([sequence])
    >>> len(columns["prompt_ids"][0]), columns["env_mask"]
    (11, [[1, 1, 1, 1, 1]])
    """
    names = ("prompt_ids", "completion_ids", "logprobs", "env_mask")
    columns: dict[str, list[list[Any]]] = {name: [] for name in names}
    for sequence in sequences:
        mask = sequence.sampled_mask()
        start = mask.index(True)
        columns["prompt_ids"].append(sequence.input_ids[:start])
        columns["completion_ids"].append(sequence.input_ids[start:])
        columns["logprobs"].append(sequence.logprobs[start:])
        columns["env_mask"].append([int(sampled) for sampled in mask[start:]])
    return columns
