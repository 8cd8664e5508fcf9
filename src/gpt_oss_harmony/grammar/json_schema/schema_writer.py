"""Satisfiable states to a schema with the keywords that the engine enforces."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from fractions import Fraction
from itertools import chain, islice, product
from math import inf

from ...typescript.json_text import JsonValue, Schema
from ..engine_trial import try_schema
from ..errors import GrammarError, Report, raise_error
from .bounds import (
    LARGEST_MULTIPLE,
    LARGEST_NUMBER,
    Bound,
    PropertyChoice,
    check_writable,
    coarser_steps,
    missed_numbers,
    plain_bound,
    plain_number,
    property_choices,
    safe_bounds,
)
from .budget import Budget, spend
from .constraints import TYPES, Constraints, type_of
from .disjointness import Disjointness
from .formats import FORMATS
from .pattern_automata import select_texts, share_a_text, texts_but
from .pattern_lengths import least_length, pattern_with_length
from .patterns import has_counts, needs_trial, pattern_accepts, rust_pattern, text_keywords
from .states import Shape, State
from .witnesses import distinct_arrays, possible_types

LEVEL_LIMIT = 120
"""The deepest nesting of references for the engine: at about 160 a stack of 1 MiB is full."""

MULTIPLE_LIMIT = 5_000
"""The largest `multipleOf` without its decimal point; each unit takes the engine about 3 µs."""

VALUE_LIMIT = 10_000
"""The most values of `enum` in total; each takes the engine about 3 µs."""

CHOICE_LIMIT = 1_900
"""The most arrays and objects among which a value is chosen. The engine follows all of them side by
side, with 2,000 items at most, and would fail while the model writes."""

PROPERTY_LIMIT = 2_000
"""The most properties in total; each takes the engine about 40 µs."""

PLACE_LIMIT = 5_000
"""The most places of `prefixItems` in total; `contains` is written with many."""

PATTERN_LIMIT = 6
"""The most patterns and formats of a text: the engine searches for a text that matches all."""

LENGTH_LIMIT = 1_000
"""The largest `minLength` beside a pattern, for the same reason."""

JOIN_LIMIT = 1_000
"""The most schemas in total that the engine joins for names that match a pattern, with references
written out. A few lines of references to references can stand for many schemas."""

# The engine's work for each part of a schema.
_STEPS_OF_A_SCHEMA = 30
_STEPS_OF_A_VALUE = 5
_STEPS_OF_A_PROPERTY = 40

_INLINE_LEVELS = 8
_TEXT_KEYWORDS = ("pattern", "format", "minLength", "maxLength")
_SURE_LENGTH = 8  # up to here the engine joins each length with each format
_FORMAT_PATTERNS = [list(text_format.patterns) for text_format in FORMATS.values()]


class SchemaWriter:
    """Writes states as schemas; one that is used twice, or deep inside, becomes a definition."""

    def __init__(
        self,
        satisfiable: set[State],
        pointer: str,
        report: Report = raise_error,
        budget: Budget | None = None,
    ) -> None:
        self._satisfiable = satisfiable
        self._disjointness = Disjointness(satisfiable)
        self._report = report
        self._pointer = pointer
        self._names: dict[State, str] = {}
        self._waiting: list[State] = []
        self._uses: dict[State, int] = {}
        self._alike: dict[object, State] = {}
        self._multiples = 0
        self._values = 0
        self._properties = 0
        self._places = 0
        self._joins = 0
        self._checked: set[State] = set()
        self._tried: set[str] = set()
        self._trial_steps = (inf if budget is None else budget.left) / 2  # the rest is for writing

    def write(self, roots: list[State]) -> tuple[list[Schema | bool], Schema]:
        """Return the schemas of some states, and the definitions that they refer to."""
        waiting: list[State] = []

        def use(state: State) -> None:
            if state not in self._uses:
                waiting.append(state)
            key = _text_key(state)
            state = self._alike.setdefault(key, state) if key else state
            self._uses[state] = self._uses.get(state, 0) + 1

        for root in roots:
            use(root)
        while waiting:
            for inner in waiting.pop().inside():
                if inner in self._satisfiable:
                    use(inner)
        bodies = [self._schema(root, 0) for root in roots]
        definitions: Schema = {}
        while self._waiting:
            state = self._waiting.pop()
            definitions[self._names[state]] = self._body(state, 0)
        if definitions and _levels(bodies, definitions) > LEVEL_LIMIT:
            raise self._error(f"its schemas nest deeper than {LEVEL_LIMIT} levels", "flatten it")
        if _choices([*bodies, *definitions.values()], definitions) > CHOICE_LIMIT:
            problem = f"a value is one of more than {CHOICE_LIMIT:,} arrays and objects"
            raise self._error(problem, "combine fewer anyOf, or list fewer values")
        written = [body if isinstance(body, dict) else bool(body) for body in bodies]
        return written, definitions

    def _error(self, problem: str, remedy: str) -> GrammarError:
        return GrammarError(problem, remedy=remedy, pointer=self._pointer)

    def _schema(self, state: State, level: int) -> JsonValue:
        while state.alternatives is not None:
            options = [option for option in state.alternatives if option in self._satisfiable]
            if len(options) != 1:
                break
            state = options[0]
        if state not in self._satisfiable:
            return False
        if not state.atoms:
            return True
        state = self._alike.get(_text_key(state), state)
        if not state.is_small and (self._uses[state] > 1 or level >= _INLINE_LEVELS):
            if state not in self._names:
                self._names[state] = str(len(self._names))
                self._waiting.append(state)
            return {"$ref": f"#/$defs/{self._names[state]}"}
        return self._body(state, level)

    def _body(self, state: State, level: int) -> JsonValue:
        spend(_STEPS_OF_A_SCHEMA)
        if state.alternatives is not None:
            alternatives = [inner for inner in state.alternatives if inner in self._satisfiable]
            self._check_texts_together(state, alternatives)
            return {"anyOf": [self._schema(inner, level + 1) for inner in alternatives]}
        shape = state.shape
        if shape is None:
            return False
        if shape.values is not None:
            return self._listed(shape.values, _keyword_pointer(state, "enum", "const"))
        types = possible_types(shape, self._satisfiable)
        options: list[JsonValue] = []
        if "array" in types and shape.unique:
            options += self._distinct_arrays(state, shape)
            if options:
                types -= {"array"}
        if types or not options:
            options += self._of_types(state, shape, types, level)
        return options[0] if len(options) == 1 else {"anyOf": options}

    def _of_types(
        self, state: State, shape: Shape, types: frozenset[str], level: int
    ) -> list[JsonValue]:
        """Return schemas for the values of some types."""
        options: list[JsonValue] = []
        numbers = self._number(state, shape) if "number" in types else {}
        written = dict(numbers)
        if "string" in types:
            written |= self._text(state, shape)
        if "array" in types:
            written |= self._array(shape, level)
        choices = [{}] if "object" not in types else self._objects(state, shape, level)
        if len(choices) == 1:
            options.append(self._typed(types, shape, {**written, **choices[0]}))
        else:
            options += [self._typed(frozenset({"object"}), shape, choice) for choice in choices]
            if types != {"object"}:
                options.append(self._typed(types - {"object"}, shape, written))
        if "number" in types:
            options += self._missed_numbers(state, shape, numbers)
        return options

    def _listed(self, values: list[JsonValue], pointer: str) -> Schema:
        self._values += len(values)
        spend(_STEPS_OF_A_VALUE * len(values))
        try:
            problem = ""
            if self._values > VALUE_LIMIT:
                problem = f"there are more than {VALUE_LIMIT:,} values in total"
            elif sum(isinstance(value, list | dict) for value in values) > CHOICE_LIMIT:
                problem = f"there are more than {CHOICE_LIMIT:,} arrays and objects"
            if problem:
                raise GrammarError(problem, remedy="use a pattern", pointer=pointer)
            return {"enum": [check_writable(value, pointer) for value in values]}
        except GrammarError as error:
            self._report(error)
        types: list[JsonValue] = [name for name in TYPES if name in set(map(type_of, values))]
        return {"type": types}

    def _typed(self, types: frozenset[str], shape: Shape, keywords: Schema) -> JsonValue:
        names = [
            "integer" if name == "number" and shape.whole else name
            for name in TYPES
            if name in types
        ]
        if len(types) == len(TYPES) and not shape.whole:
            return keywords or True
        named: list[JsonValue] = list(names)
        return {"type": names[0] if len(names) == 1 else named, **keywords}

    def _text(self, state: State, shape: Shape) -> Schema:
        # What is reported leaves the shape, since a state may be written more than once.
        if len(shape.patterns) > PATTERN_LIMIT:
            pointer = _keyword_pointer(state, "pattern", "format")
            problem = f"a text must match more than {PATTERN_LIMIT} patterns"
            remedy = "combine them, or check some afterwards"
            self._report(GrammarError(problem, remedy=remedy, pointer=pointer))
            del shape.patterns[PATTERN_LIMIT:]
        if shape.patterns and shape.shortest > LENGTH_LIMIT:
            pointer = _keyword_pointer(state, "minLength")
            problem = f"it is more than {LENGTH_LIMIT:,} beside a pattern"
            self._report(GrammarError(problem, remedy="use a smaller number", pointer=pointer))
            shape.shortest = 0
        written = _text_keywords(shape)
        is_format = shape.patterns in _FORMAT_PATTERNS
        if not shape.patterns or (is_format and shape.shortest <= _SURE_LENGTH):
            return written
        is_alone = len(shape.patterns) == 1
        follows = any(map(needs_trial if is_alone else has_counts, shape.patterns))
        # A pattern may have no text of a length, as `^(ab)*$` has none of 3 characters. The engine
        # searches for one, and gives up for `\s\p{L}$` and 4 characters.
        is_sure = is_alone and not follows and "minLength" not in written
        if is_sure or not self._failure(written, follows=follows):
            return written
        return self._text_in_parts(state, shape)

    def _text_in_parts(self, state: State, shape: Shape) -> Schema:
        """Write a text that the engine cannot follow as it is: with its length in its pattern.

        The engine joins a pattern with a length, and may give up. If the length cannot become part
        of the pattern, it is reported and left out; so is a pattern that is too costly alone.
        """
        if len(shape.patterns) == 1 and shape.shortest:
            pattern = pattern_with_length(shape.patterns[0], shape.shortest, shape.longest)
            if pattern is not None and not self._failure({"pattern": pattern}):
                return {"pattern": pattern}
        problem = self._failure(_text_keywords(replace(shape, shortest=0, longest=None)))
        if problem:
            self._report_costly(problem, _keyword_pointer(state, *_TEXT_KEYWORDS))
            shape.patterns.clear()
            return _text_keywords(shape)
        if shape.shortest:
            # A length that the patterns have anyway is not lost.
            if shape.shortest > max(map(least_length, shape.patterns)):
                self._report_length(_keyword_pointer(state, "minLength"))
            shape.shortest = 0
        written = _text_keywords(shape)
        if shape.longest is not None and self._failure(written):
            self._report_length(_keyword_pointer(state, "maxLength"))
            shape.longest = None
        return _text_keywords(shape)

    def _report_length(self, pointer: str) -> None:
        problem = "the engine cannot join this length with the pattern"
        remedy = "write the length as a count in the pattern"
        self._report(GrammarError(problem, remedy=remedy, pointer=pointer))

    def _report_costly(self, problem: str, pointer: str) -> None:
        remedy = "use smaller counts, or put ^ at its start and $ at its end"
        self._report(GrammarError(problem, remedy=remedy, pointer=pointer))

    def _check_texts_together(self, state: State, alternatives: list[State]) -> None:
        """Check the patterns of all alternatives, which the engine follows at once."""
        counted = [
            (inner, inner.shape)
            for inner in alternatives
            if inner.shape is not None and any(map(has_counts, inner.shape.patterns))
        ]
        texts: list[JsonValue] = [self._text(inner, shape) for inner, shape in counted]
        problem = self._failure({"anyOf": texts}) if len(texts) > 1 else ""
        if problem:
            self._report_costly(problem, state.pointer)
            for _, shape in counted:
                shape.patterns.clear()

    def _failure(self, keywords: Schema, kind: str = "string", *, follows: bool = True) -> str:
        """Return why the engine cannot follow a schema with patterns; empty if it can.

        Patterns without counts need no more than to be compiled: `follows` is False for them.
        """
        text = json.dumps({"type": kind, **keywords})
        if text not in self._tried and self._trial_steps <= 0:
            return "there are too many patterns with counts to try them all in the engine"
        trial = try_schema(text, follows=follows)
        if text not in self._tried:
            self._tried.add(text)
            self._trial_steps -= trial.steps
            spend(trial.steps)
        return "" if trial.succeeds else "the engine runs out of fuel for it"

    def _number(self, state: State, shape: Shape) -> Schema:
        written: Schema = {}
        lowest, highest = safe_bounds(shape)
        if lowest is not None:
            pointer = _keyword_pointer(state, "minimum", "exclusiveMinimum")
            keyword = "exclusiveMinimum" if lowest[1] else "minimum"
            self._write_number(written, keyword, lowest[0], pointer, whole=shape.whole)
            self._report_missing(shape.lowest, lowest[0], pointer, whole=shape.whole)
        if highest is not None:
            pointer = _keyword_pointer(state, "maximum", "exclusiveMaximum")
            keyword = "exclusiveMaximum" if highest[1] else "maximum"
            self._write_number(written, keyword, highest[0], pointer, whole=shape.whole)
            self._report_missing(shape.highest, highest[0], pointer, whole=shape.whole)
        step = shape.step
        if step is not None and not (shape.whole and step == 1):
            pointer = _keyword_pointer(state, "multipleOf")
            self._write_number(written, "multipleOf", step, pointer)
        if "multipleOf" in written:
            if lowest is None:
                written["minimum"] = -LARGEST_MULTIPLE
            if highest is None:
                written["maximum"] = LARGEST_MULTIPLE
        return written

    def _report_missing(
        self, bound: Bound | None, written: Fraction, pointer: str, *, whole: bool
    ) -> None:
        """Report numbers that a bound beyond 2**53 - 1 allows and the engine cannot write."""
        if bound is None:  # numbers without a bound are limited for all schemas
            return
        # An excluded bound of whole numbers is written as its neighbour, 1 away.
        distance = 1 if whole and bound[1] else 0
        if abs(bound[0]) <= LARGEST_NUMBER or abs(bound[0] - written) <= distance:
            return
        missing = f"numbers between {written} and {bound[0]} cannot be written"
        remedy = "use a bound up to 2**53 - 1, or text"
        self._report(GrammarError(missing, remedy=remedy, pointer=pointer, narrows=True))

    def _write_number(
        self,
        written: Schema,
        keyword: str,
        number: Fraction,
        pointer: str,
        *,
        whole: bool = False,
    ) -> None:
        try:
            if keyword == "multipleOf":
                written[keyword] = plain_number(number, pointer)
                self._count_multiple(number, pointer)
            else:
                written[keyword] = plain_bound(number, pointer, whole=whole)
        except GrammarError as error:
            self._report(error)
            written.pop(keyword, None)

    def _missed_numbers(self, state: State, shape: Shape, written: Schema) -> list[JsonValue]:
        """Return schemas for the numbers that the engine misses in what `_number` has written."""
        schemas: list[JsonValue] = []
        missed = missed_numbers(shape)
        if missed:
            schemas.append({"enum": list(missed)})
        for step in coarser_steps(shape):
            number = dict(written)
            pointer = _keyword_pointer(state, "multipleOf")
            self._write_number(number, "multipleOf", step, pointer)
            schemas.append({"type": "number", **number})
        return schemas

    def _count_multiple(self, step: Fraction, pointer: str) -> None:
        digits = step
        while digits.denominator != 1:
            digits *= 10
        self._multiples += int(digits)
        spend(_STEPS_OF_A_VALUE * min(int(digits), MULTIPLE_LIMIT))
        if self._multiples > MULTIPLE_LIMIT:
            raise GrammarError(
                f"all such keywords together have more than {MULTIPLE_LIMIT:,} remainders",
                remedy="use a smaller or rounder number",
                pointer=pointer,
            )

    def _distinct_arrays(self, state: State, shape: Shape) -> list[JsonValue]:
        """Return a schema of all arrays whose items differ; none if no schema is needed for it."""
        if self._disjointness.all_differ(shape):
            return []
        pointer = _keyword_pointer(state, "uniqueItems")
        arrays = distinct_arrays(shape, self._satisfiable)
        if arrays is not None:
            self._values += 2 * sum(map(len, arrays))
            return [self._listed([*arrays], pointer)]
        problem = "a grammar cannot remember the items before"
        remedy = "check it afterwards, or list few values for the items"
        self._report(GrammarError(problem, remedy=remedy, pointer=pointer))
        return []

    def _array(self, shape: Shape, level: int) -> Schema:
        written: Schema = {}
        self._places += len(shape.prefix)
        spend(_STEPS_OF_A_SCHEMA * len(shape.prefix))
        if self._places > PLACE_LIMIT:
            problem = f"its arrays have more than {PLACE_LIMIT:,} places of prefixItems or contains"
            raise self._error(problem, "use fewer contains side by side")
        if shape.prefix:
            written["prefixItems"] = [self._schema(item, level + 1) for item in shape.prefix]
        if shape.items is not None:
            written["items"] = self._schema(shape.items, level + 1)
        if shape.fewest_items:
            written["minItems"] = shape.fewest_items
        if shape.most_items is not None:
            written["maxItems"] = shape.most_items
        return written

    def _objects(self, state: State, shape: Shape, level: int) -> list[Schema]:
        """Return an object schema for each way to have the required number of properties."""
        self._properties += len(shape.properties)
        spend(_STEPS_OF_A_PROPERTY * len(shape.properties))
        if self._properties > PROPERTY_LIMIT:
            raise self._error(f"it has more than {PROPERTY_LIMIT:,} properties", "use fewer")
        self._check_patterns(state, shape)
        is_open = shape.additional is None or shape.additional in self._satisfiable
        others = is_open or not self._satisfiable.isdisjoint(shape.named_by_pattern.values())
        optional = [
            name
            for name, inner in shape.properties.items()
            if inner in self._satisfiable and name not in shape.required
        ]
        fewest, most = shape.fewest_properties, shape.most_properties
        keywords = ("minProperties", "maxProperties") if fewest or most is not None else ()
        pointers = {keyword: _keyword_pointer(state, keyword) for keyword in keywords}
        required = shape.required
        try:
            choices = property_choices(
                required, optional, fewest, most, others=others, pointers=pointers
            )
        except GrammarError as error:
            self._report(error)
            choices = [PropertyChoice(tuple(required), tuple(optional), others=others)]
        return [self._object(shape, choice, level) for choice in choices]

    def _object(self, shape: Shape, choice: PropertyChoice, level: int) -> Schema:
        written: Schema = {}
        allowed = {*choice.required, *choice.optional}
        properties: Schema = {
            # Without its name here, a property that is not chosen would be one of the others.
            name: self._schema(inner, level + 1) if name in allowed else False
            for name, inner in shape.properties.items()
            if name in allowed or choice.others
        }
        if properties:
            written["properties"] = properties
        if choice.others and shape.named_by_pattern:
            written["patternProperties"] = {
                rust_pattern(pattern, shape.pointer): self._schema(inner, level + 1)
                for pattern, inner in shape.named_by_pattern.items()
            }
        if not choice.others:
            written["additionalProperties"] = False
        elif shape.additional is not None:
            written["additionalProperties"] = self._schema(shape.additional, level + 1)
        if choice.required:
            written["required"] = list(choice.required)
        if choice.fewest:
            written["minProperties"] = choice.fewest
        if choice.most is not None:
            written["maxProperties"] = choice.most
        return written

    def _check_patterns(self, state: State, shape: Shape) -> None:
        """Check that the engine can follow the patterns.

        It joins the schema of a listed name with those of the patterns that the name matches, which
        changes nothing, as the first contains them: where that is impossible, it reads the patterns
        without the name.
        """
        if state in self._checked:
            return
        self._checked.add(state)
        pointer = _keyword_pointer(state, "patternProperties", "propertyNames")
        written: dict[str, State] = {}
        for pattern, inner in shape.named_by_pattern.items():
            joined = {
                name: property_state
                for name, property_state in shape.properties.items()
                if inner.atoms and pattern_accepts(pattern, name)
            }
            unjoinable, problem = self._unjoinable(inner, joined)
            unlisted: list[str] | None = [pattern]
            if unjoinable:
                unlisted = select_texts((pattern, texts_but(tuple(unjoinable))))
            if unlisted is None:
                remedy = "use a pattern that the names of properties do not match"
                self._report(GrammarError(problem, remedy=remedy, pointer=pointer))
                shape.drop_patterns()
                return
            written |= dict.fromkeys(unlisted, inner)
        shape.named_by_pattern = written
        # The engine looks for a name that two patterns share, and may give up.
        is_alone = len(shape.named_by_pattern) == 1
        follows = any(map(needs_trial if is_alone else has_counts, shape.named_by_pattern))
        if follows or len(shape.named_by_pattern) > 1:
            names: Schema = {rust_pattern(pattern, ""): {} for pattern in shape.named_by_pattern}
            problem = self._failure({"patternProperties": names}, "object", follows=follows)
            if problem:
                self._report_costly(problem, pointer)
                shape.drop_patterns()

    def _unjoinable(self, inner: State, joined: dict[str, State]) -> tuple[list[str], str]:
        """Return the names whose states the engine cannot join with another one, and why."""
        problem = "the pattern's schema, or a property that matches it, is recursive"
        if joined and inner.is_recursive:
            return [*joined], problem
        before = self._joins
        recursive = {name for name, other in joined.items() if other.is_recursive}
        overlapping = [
            name
            for name, other in joined.items()
            if name not in recursive and self._overlap(inner, other)
        ]
        if self._joins > JOIN_LIMIT:
            self._joins = before  # these are not joined
            problem = (
                "the schemas of the pattern and of the properties that match it contain more "
                f"than {JOIN_LIMIT:,} schemas, with references written out"
            )
            return [*joined], problem
        if overlapping and not recursive:
            problem = "a property that matches the pattern has patterns that overlap with its"
        return [*sorted(recursive), *overlapping], problem

    def _overlap(self, inner: State, other: State) -> bool:
        """Return whether two states that are not recursive may have patterns that share a name."""
        left, right = (_written_out(one, JOIN_LIMIT - self._joins) for one in (inner, other))
        self._joins += sum(map(len, (*left, *right)))
        for state in chain(*left, *right):
            if state.shape is not None:
                self._check_patterns(state, state.shape)  # which may change them
        return any(
            first != second and share_a_text(first, second)
            for level in zip(left, right, strict=False)
            for first, second in product(*map(_name_patterns, level))
        )


def _text_keywords(shape: Shape) -> Schema:
    return text_keywords(shape.patterns, shape.shortest, shape.longest, shape.pointer)


def _text_key(state: State) -> tuple[object, ...] | None:
    """Return a key that is equal for states that allow the same texts; None without patterns."""
    shape = state.shape
    if shape is None or not shape.patterns or shape.types != {"string"}:
        return None
    if shape.values is not None:
        return None
    return (*shape.patterns, shape.shortest, shape.longest)


def _written_out(state: State, limit: int) -> list[list[State]]:
    """Return a state that is not recursive and those inside it, by level of the values.

    Each is there as often as it is used. Stops at the first beyond `limit`.
    """
    levels: list[list[State]] = []
    states, count = [state], 0
    while states and count <= limit:
        levels.append([])
        inside: list[Iterable[State]] = []
        while states and count <= limit:
            count += len(states)
            spend(2 * len(states))
            levels[-1] += states
            inside += [one.inside() for one in states if one.alternatives is None]
            states = [other for one in states for other in one.alternatives or ()]
        states = list(islice(chain.from_iterable(inside), limit + 1))
    return levels


def _name_patterns(states: list[State]) -> set[str]:
    return {text for state in states if state.shape for text in state.shape.named_by_pattern}


def _levels(bodies: list[JsonValue], definitions: Schema) -> int:
    """Return the engine's nesting; it reads a definition at the first reference to it."""
    met: set[str] = set()
    deepest = 0
    path: list[list[JsonValue]] = [list(bodies)]
    while path:
        if not path[-1]:
            path.pop()
            continue
        value = path[-1].pop(0)
        deepest = max(deepest, len(path))
        if isinstance(value, dict):
            reference = value.get("$ref")
            if isinstance(reference, str) and reference not in met:
                met.add(reference)
                path.append([definitions[reference.rpartition("/")[2]]])
            elif not isinstance(reference, str):
                path.append([inner for key, inner in value.items() if key not in ("$defs", "enum")])
        elif isinstance(value, list):
            path.append(list(value))
    return deepest // 2


def _choices(written: list[JsonValue], definitions: Schema) -> int:
    """Return the most arrays and objects that are alternatives of one value."""
    most = 0
    known: dict[str, int] = {}
    waiting = list(written)
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            if "anyOf" in value:
                most = max(most, _alternatives(value, definitions, known))
            waiting += [inner for key, inner in value.items() if key != "enum"]
        elif isinstance(value, list):
            waiting += value
    return most


def _alternatives(schema: JsonValue, definitions: Schema, known: dict[str, int]) -> int:
    """Count the arrays and objects among which a schema lets the value be chosen."""
    if not isinstance(schema, dict):
        return 1
    types = schema.get("type", "object")
    if {"array", "object"}.isdisjoint(types if isinstance(types, list) else [types]):
        return 0  # the engine reads all texts and numbers as one lexeme
    reference = schema.get("$ref")
    if isinstance(reference, str):
        if reference not in known:
            known[reference] = 1  # if it leads back to itself
            target = definitions[reference.rpartition("/")[2]]
            known[reference] = _alternatives(target, definitions, known)
        return known[reference]
    if isinstance(options := schema.get("anyOf"), list):
        return sum(_alternatives(option, definitions, known) for option in options)
    values = schema.get("enum")
    if not isinstance(values, list):
        return 1
    return sum(isinstance(value, list | dict) for value in values)


def _keyword_pointer(state: State, *keywords: str) -> str:
    """Return the pointer of the last of these keywords among the schemas of a state."""
    for atom in reversed(state.atoms):
        if isinstance(atom, Constraints):
            for keyword in keywords:
                if keyword in atom.keywords:
                    return atom.pointer_to(keyword)
    return state.pointer
