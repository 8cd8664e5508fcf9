"""Structural tags of clients: a response format of vLLM and SGLang in, a grammar in Lark out.

Both forms are read: the older one with ``structures`` and ``triggers``, and the newer one, a tree
of ``format`` objects. The tags are part of the answer's text; the turn around it stays harmony's.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from .errors import GrammarError
from .json_schema import enforceable_schema
from .json_schema.documents import child_pointer
from .json_spelling import WHITE_SPACE
from .text_formats import TEXT_PATTERN, TextFormat, text_rule

LEVEL_LIMIT = 20
"""The deepest nesting of formats."""

_KINDS = (
    *("const_string", "json_schema", "regex", "grammar", "any_text", "sequence", "or", "tag"),
    *("triggered_tags", "tags_with_separator"),
)


def tagged_text(response_format: Mapping[str, Any]) -> str:
    """Return the grammar of an answer, in Lark.

    Raises `GrammarError` for a format that cannot be read or enforced.

    >>> tag = {"begin": "<now>", "content": {"type": "any_text"}, "end": "</now>"}
    >>> wanted = {"type": "structural_tag", "format": {"type": "tag", **tag}}
    >>> print(tagged_text(wanted).rpartition("\\n")[0])
    start: "<now>" part_0
    part_0[lazy]: TEXT "</now>"
    """
    writer, pointer = _Writer(), "response_format#"
    wanted = response_format.get("format")
    if wanted is None:
        tags = [
            {
                **structure,
                "content": {"type": "json_schema", "json_schema": structure.get("schema")},
            }
            for structure in _objects(response_format.get("structures"), pointer, "structures")
        ]
        wanted = {"type": "triggered_tags", "triggers": response_format.get("triggers")}
        wanted["tags"] = tags
    else:
        pointer = child_pointer(pointer, "format")
    start = writer.expression(wanted, pointer, is_last=True)
    return "\n".join([f"start: {start}", *writer.rules, f"TEXT: /{TEXT_PATTERN}/"])


class _Writer:
    """Writes formats as expressions of Lark; `rules` has the lines beside them."""

    def __init__(self) -> None:
        self.rules: list[str] = []
        self._count = 0

    def _rule(self, body: str, *, lazy: bool = False) -> str:
        name = f"part_{self._count}"
        self._count += 1
        self.rules.append(f"{name}{'[lazy]' if lazy else ''}: {body}")
        return name

    def expression(self, wanted: object, pointer: str, *, is_last: bool, level: int = 0) -> str:
        """Write a format. `is_last` is True if nothing follows it in the answer."""
        if level > LEVEL_LIMIT:
            raise _error(pointer, f"formats nest deeper than {LEVEL_LIMIT} levels", "flatten them")
        if not isinstance(wanted, Mapping) or wanted.get("type") not in _KINDS:
            kind = wanted.get("type") if isinstance(wanted, Mapping) else wanted
            raise _error(pointer, f"{kind!r:.80} is unknown", f"use one of {', '.join(_KINDS)}")
        kind = wanted["type"]
        if kind == "tag":
            begin = _literal(wanted.get("begin"), child_pointer(pointer, "begin"))
            return f"{begin} {self._rest_of_tag(wanted, pointer, level)}".strip()
        if kind in ("sequence", "or"):
            elements = _objects(wanted.get("elements"), pointer, "elements")
            parts = [
                self.expression(
                    element,
                    child_pointer(pointer, "elements", index),
                    is_last=is_last and (kind == "or" or index == len(elements) - 1),
                    level=level + 1,
                )
                for index, element in enumerate(elements)
            ]
            return " ".join(parts) if kind == "sequence" else f"({' | '.join(parts)})"
        if kind == "triggered_tags":
            return self._triggered(wanted, pointer, is_last, level)
        if kind == "tags_with_separator":
            tags = [
                self.expression({"type": "tag", **tag}, child, is_last=False, level=level + 1)
                for child, tag in _tags(wanted, pointer)
            ]
            any_tag = self._rule(" | ".join(tags))
            separator = _literal(wanted.get("separator"), child_pointer(pointer, "separator"))
            more = "" if wanted.get("stop_after_first") else f" ({separator} {any_tag})*"
            return f"({any_tag}{more}){'' if wanted.get('at_least_one') else '?'}"
        if kind == "any_text":
            if not is_last or wanted.get("excludes"):
                problem = "the end of the text cannot be found"
                raise _error(pointer, problem, "make it the content of a tag, without excludes")
            return "TEXT"
        return _leaf(wanted, pointer)

    def _rest_of_tag(self, tag: Mapping[str, Any], pointer: str, level: int) -> str:
        """Write the content and the end of a tag; its text goes up to the first end."""
        ends = tag.get("end")
        ends = ends if isinstance(ends, list) and ends else [ends]
        end = " | ".join(_literal(text, child_pointer(pointer, "end")) for text in ends)
        end = f"({end})" if len(ends) > 1 else end
        content, child = tag.get("content"), child_pointer(pointer, "content")
        if isinstance(content, Mapping) and content.get("type") == "any_text" and end:
            if content.get("excludes"):
                raise _error(child, "excludes cannot be enforced", "leave it out")
            return self._rule(f"TEXT {end}", lazy=True)
        return f"{self.expression(content, child, is_last=False, level=level + 1)} {end}".strip()

    def _triggered(self, wanted: Mapping[str, Any], pointer: str, is_last: bool, level: int) -> str:
        """Write text in which a trigger begins one of its tags."""
        stops = bool(wanted.get("stop_after_first"))
        if not is_last and not stops:
            problem = "the end of the text cannot be found"
            raise _error(pointer, problem, "put it last, or set stop_after_first")
        triggers = wanted.get("triggers")
        if not isinstance(triggers, list) or not triggers:
            raise _error(pointer, "triggers: expected a list of texts", "correct it")
        by_trigger: dict[str, list[str]] = {}
        for child, tag in _tags(wanted, pointer):
            begin = tag.get("begin")
            trigger = next(
                (text for text in triggers if isinstance(begin, str) and begin.startswith(text)), ""
            )
            if not trigger or not isinstance(begin, str):
                raise _error(f"{child}/begin", "it starts with no trigger", "add a trigger")
            # The text before the tag ends with the trigger, so this part is written already.
            rest = _literal(begin.removeprefix(trigger), child_pointer(child, "begin"))
            rest = f"{rest} {self._rest_of_tag(tag, child, level)}".strip()
            by_trigger.setdefault(trigger, []).append(rest)
        tags = []
        for trigger, options in by_trigger.items():
            text = self._rule(f"TEXT {_literal(trigger, pointer)}", lazy=True)
            tags.append(f"{text} ({' | '.join(options)})")
        any_tag = self._rule(" | ".join(tags))
        needs_tag = bool(wanted.get("at_least_one"))
        if stops:
            # Text without a tag has no end that could be found, so nothing may follow it.
            return any_tag if needs_tag or not is_last else f"({any_tag} | TEXT)"
        return f"{any_tag}{'+' if needs_tag else '*'} TEXT"


def _leaf(wanted: Mapping[str, Any], pointer: str) -> str:
    """Write a format without others inside."""
    kind = wanted["type"]
    if kind == "const_string":
        return _literal(wanted.get("value"), child_pointer(pointer, "value"))
    if kind == "json_schema":
        enforced = enforceable_schema(wanted.get("json_schema"), child_pointer(pointer, kind))
        spelling = {"x-guidance": WHITE_SPACE["separators"]}
        return (
            f"%json {json.dumps({**spelling, **(enforced if isinstance(enforced, dict) else {})})}"
        )
    definition = wanted.get("pattern" if kind == "regex" else "grammar")
    if not isinstance(definition, str):
        raise _error(pointer, f"the {kind} is missing", "send it as text")
    if kind == "regex":
        return text_rule(TextFormat("regex", definition), pointer)
    # Rules of Lark have one colon.
    return text_rule(TextFormat("gbnf" if "::=" in definition else "lark", definition), pointer)


def _literal(text: object, pointer: str) -> str:
    """Write a text that stands in the answer as it is; an empty one is nothing."""
    if not isinstance(text, str):
        raise _error(pointer, f"expected text, found {text!r:.80}", "correct it")
    if re.search(r"<\|\w+\|>", text):
        problem = "the text of an answer cannot contain a special token"
        raise _error(pointer, problem, "use other marks, such as <tool>")
    return json.dumps(text, ensure_ascii=False) if text else ""


def _objects(value: object, pointer: str, name: str) -> Sequence[Mapping[str, Any]]:
    if isinstance(value, list) and value and all(isinstance(one, Mapping) for one in value):
        return value
    raise _error(pointer, f"{name}: expected a list of objects", "correct it")


def _tags(wanted: Mapping[str, Any], pointer: str) -> list[tuple[str, Mapping[str, Any]]]:
    tags = _objects(wanted.get("tags"), pointer, "tags")
    return [(child_pointer(pointer, "tags", index), tag) for index, tag in enumerate(tags)]


def _error(pointer: str, problem: str, remedy: str) -> GrammarError:
    return GrammarError(problem, remedy=remedy, pointer=pointer)
