"""The named differences from the reference that its users gain from and cannot lose by.

A difference applies or not by the input of a case alone, never by our answer. Where it applies it
forgives one thing; all else must still be equal. `docs/reference/divergences.md` has a sentence
for each.
"""

from __future__ import annotations

import re
from codecs import getincrementaldecoder
from collections.abc import Callable, Iterator
from itertools import chain, combinations
from typing import Any, NamedTuple

from cases import EOS, VOCABULARY, Case

from gpt_oss_harmony import load_harmony_encoding
from gpt_oss_harmony.tokens.special_tokens import MESSAGE, SPECIAL_TEXTS, START, STOP_TOKENS

ENCODING = load_harmony_encoding("HarmonyGptOss")
PIECES = [VOCABULARY[token] for token in range(len(VOCABULARY))]
PIECES += [text.encode() for text in SPECIAL_TEXTS.values()]
ROLES = {"user", "assistant", "system", "developer", "tool"}


class Difference(NamedTuple):
    """One named difference."""

    applies: Callable[[Case], bool]
    forgive: Callable[[Case, Any], Any]
    """Remove from an answer, ours or the peer's, what may differ."""
    instead: Callable[[Case], Case] = lambda case: case
    """The case whose answer by the peer must equal our answer to this case."""


def explain(
    case: Case, mine: Any, ask: Callable[[Case], Any], agree: Callable[[Any, Any], bool]
) -> list[str] | None:
    """Name the fewest differences that make both answers agree; None where it is a bug."""
    names = [name for name, one in DIFFERENCES.items() if one.applies(case)]
    sizes = range(1, len(names) + 1)
    for chosen in chain.from_iterable(combinations(names, size) for size in sizes):
        asked, my_rest = case, mine
        for name in chosen:
            asked = DIFFERENCES[name].instead(asked)
        other_rest = ask(asked)
        for name in chosen:
            my_rest = DIFFERENCES[name].forgive(case, my_rest)
            other_rest = DIFFERENCES[name].forgive(case, other_rest)
        if agree(my_rest, other_rest):
            return [*chosen]
    return None


def without(key: str, what: Any) -> Any:
    """Remove a key wherever it stands in an answer."""
    if isinstance(what, list):
        return [without(key, item) for item in what]
    if isinstance(what, dict):
        return {name: without(key, value) for name, value in what.items() if name != key}
    return what


# float-exponent: the fork prints 1e+20


def without_plus(_case: Case, answer: Any) -> Any:
    tokens, words = answer
    return [_without_plus(tokens), words]


def _without_plus(tokens: Any) -> Any:
    if tokens and isinstance(tokens, list) and isinstance(tokens[0], int):
        return re.sub(r"(\d)e\+(\d)", r"\1e\2", ENCODING.decode(tokens))
    return [_without_plus(item) for item in tokens] if isinstance(tokens, list) else tokens


# unsafe-header: a field that would be read as something else is an error


def has_unsafe_header(case: Case) -> bool:
    messages = case["conversation"]["messages"] if case["kind"] == "render" else []
    fields = ("name", "channel", "recipient", "content_type")
    values = [message.get(field) or "" for message in messages for field in fields]
    values = [re.sub(r"^<\|constrain\|> ?", "", value) for value in values]
    return any(" " in value or "<|end|>" in value for value in values)


def without_answer(_case: Case, _answer: Any) -> Any:
    return [[], []]


# leading-start: a whole prompt is read in spite of a given role, as if none were given


def leading_start(case: Case) -> int | None:
    """Return the place of a ``<|start|>`` that comes before all other tokens."""
    if of_tokens(case) and case["role"] is not None and START in case["tokens"]:
        first: int = case["tokens"].index(START)
        if not any(is_token(token) for token in case["tokens"][:first]):
            return first
    return None


def without_role(case: Case) -> Case:
    return {**case, "role": None}


def after_leading_start(case: Case, answer: Any) -> Any:
    """Leave out what can be seen up to the first body: the given role, and the header's tokens."""
    if case["kind"] == "parse":
        return answer
    what, words = answer
    tokens = case["tokens"]
    first = tokens.index(MESSAGE) if MESSAGE in tokens else len(tokens)
    before, rest = what["seen"][: first + 1], what["seen"][first + 1 :]
    seen = [*[{}] * len(before), *rest]
    return [{**what, "seen": seen}, words[harmony_errors(before) :]]


def harmony_errors(seen: list[Any]) -> int:
    return sum(step.get("error") == "HarmonyError RuntimeError" for step in seen)


# bare-prompt: tokens may end in a generation prompt


def bare_prompt_end(case: Case) -> int | None:
    """Return where the tokens end in a bare generation prompt, be it an early end."""
    tokens = case["tokens"] if of_tokens(case) else []
    ends = [at for at, token in enumerate(tokens) if token == EOS and case["kind"] == "stream"]
    for end in [*ends, len(tokens)]:
        before = [token for token in tokens[:end] if token != EOS]
        last = max((at for at, token in enumerate(before) if token == START), default=len(before))
        if bytes_of(before[last + 1 :]).decode(errors="replace") in ROLES:
            return end
    return None


def without_bare_prompt(case: Case) -> Case:
    """A parse leaves the prompt out; a stream is compared up to its end, so that it may stay."""
    if case["kind"] == "stream":
        return case
    tokens = [token for token in case["tokens"] if token != EOS]
    return {**case, "tokens": tokens[: len(tokens) - 1 - tokens[::-1].index(START)]}


def up_to_bare_prompt(case: Case, answer: Any) -> Any:
    if case["kind"] == "parse":
        return answer
    what, words = answer
    seen = what["seen"][: (bare_prompt_end(case) or 0) + 1]
    return [{"seen": seen}, words[: harmony_errors(seen)]]


# content-type: the only word after a channel, without to=, is the content type


def has_word_after_channel(case: Case) -> bool:
    for header in headers(case):
        _, marker, after = header.partition("<|channel|>")
        rest = re.sub(r"^(?:[^\s<]|[\x1c-\x1f])*", "", after)
        rest = rest.replace("<|constrain|>", " <|constrain|>")
        words = re.findall(r"[^ \t\n\f\r]+", rest.strip())
        if marker and len(words) == 1 and not words[0].startswith("to="):
            return True
    return False


def without_kind_of_word(_case: Case, answer: Any) -> Any:
    """Forget whether a single word is the recipient or the content type."""
    what, words = answer
    return [_without_kind(what), words]


def _without_kind(what: Any) -> Any:
    if isinstance(what, list):
        return [_without_kind(item) for item in what]
    if not isinstance(what, dict):
        return what
    out = {key: _without_kind(value) for key, value in what.items()}
    found = [out.pop(key, None) for key in ("recipient", "content_type")]
    return {**out, "words": [word for word in found if word is not None]}


# invalid-utf8: joined deltas are the text, so that they come in other pieces


def has_invalid_body(case: Case) -> bool:
    return case["kind"] == "stream" and any(is_invalid(body) for body in bodies(case))


def is_invalid(body: list[Any], *, final: bool = True) -> bool:
    """Whether the bytes are no UTF-8; unless `final`, the last character may be cut."""
    try:
        getincrementaldecoder("utf8")().decode(bytes_of(body), final)
    except UnicodeDecodeError:
        return True
    return False


def without_deltas(_case: Case, answer: Any) -> Any:
    what, words = answer
    for key in ("content_tokens", "delta"):
        what = without(key, what)
    seen = [{**step, "content": None} for step in what["seen"]]
    return [{**what, "seen": seen}, words]


# unknown-token-id: the reference holds back all text of a body after an id outside the vocabulary


def has_unknown_in_body(case: Case) -> bool:
    return any(is_token(token) and not is_known(token) for body in bodies(case) for token in body)


def without_texts(case: Case, answer: Any) -> Any:
    what, words = without_deltas(case, answer) if case["kind"] == "stream" else answer
    return [without("text", what), words]


# The tokens of a case


def of_tokens(case: Case) -> bool:
    return case["kind"] in ("parse", "stream")


def is_token(value: Any) -> bool:
    """Whether the reference takes the value for a token, be it of the vocabulary or not."""
    return isinstance(value, int) and 0 <= value < 2**32


def is_known(token: int) -> bool:
    return token < len(PIECES)


def bytes_of(tokens: list[Any]) -> bytes:
    """Join the bytes of `tokens`; ids outside the vocabulary become a byte that is no UTF-8."""
    return b"".join(
        PIECES[token] if is_known(token) else b"\xff" for token in tokens if is_token(token)
    )


def headers(case: Case) -> Iterator[str]:
    """Yield whatever could be a header: all that ends in a ``<|message|>``, from each start on."""
    tokens = case["tokens"] if of_tokens(case) else []
    starts = [0]
    for at, token in enumerate(tokens):
        if token == START:
            starts.append(at + 1)
        elif token == MESSAGE:
            yield from (bytes_of(tokens[start:at]).decode(errors="replace") for start in starts)
            starts = []


def bodies(case: Case) -> Iterator[list[Any]]:
    """Yield whatever could be a body: what follows a ``<|message|>``, up to a stop token."""
    tokens = case["tokens"] if of_tokens(case) else []
    stops = {*STOP_TOKENS, EOS} if case["kind"] == "stream" else STOP_TOKENS
    for at, token in enumerate(tokens):
        if token == MESSAGE:
            end = next((i for i in range(at, len(tokens)) if tokens[i] in stops), len(tokens))
            yield tokens[at + 1 : end]


# boolean-parameters: a boolean is a schema, too


def has_boolean_parameters(case: Case) -> bool:
    return case["kind"] == "schema" and isinstance(case["schema"], bool)


DIFFERENCES = {
    "boolean-parameters": Difference(has_boolean_parameters, without_answer),
    "unsafe-header": Difference(has_unsafe_header, without_answer),
    "float-exponent": Difference(lambda case: case["kind"] == "render", without_plus),
    "leading-start": Difference(
        lambda case: leading_start(case) is not None, after_leading_start, without_role
    ),
    "bare-prompt": Difference(
        lambda case: bare_prompt_end(case) is not None, up_to_bare_prompt, without_bare_prompt
    ),
    "content-type": Difference(has_word_after_channel, without_kind_of_word),
    "invalid-utf8": Difference(has_invalid_body, without_deltas),
    "unknown-token-id": Difference(has_unknown_in_body, without_texts),
}
