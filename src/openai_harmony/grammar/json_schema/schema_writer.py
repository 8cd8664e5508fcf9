"""Satisfiable states in, the schema out that says them in keywords which the engine enforces."""

from __future__ import annotations

from fractions import Fraction

from ...typescript.json_text import JsonValue, Schema
from ..errors import GrammarError
from .constraints import TYPES, Constraints, Shape, State
from .instances import possible_types, step_of
from .numbers import check_writable, coarser_steps, missed_numbers, plain_number, safe_bounds
from .patterns import pattern_accepts, rust_pattern
from .property_counts import PropertyChoice, property_choices

__all__ = ["SchemaWriter"]

LEVEL_LIMIT = 120
"""How deep the engine may have to follow references: at about 160 a stack of 1 MiB is full."""

MULTIPLE_LIMIT = 5_000
"""The largest `multipleOf`, without its point; each takes the engine about 3 µs."""

VALUE_LIMIT = 10_000
"""The most values of `enum` in all; each takes the engine about 3 µs."""

PROPERTY_LIMIT = 2_000
"""The most properties in all; each takes the engine about 40 µs."""

PATTERN_LIMIT = 4
"""The most patterns and formats of a text: the engine searches for a text that matches all."""

LENGTH_LIMIT = 1_000
"""The largest `minLength` beside a pattern, for the same reason."""

JOIN_LIMIT = 1_000
"""The most schemas in all that the engine joins for names which match a pattern, references written
out; a schema whose references double has many in a few lines."""

_INLINE_LEVELS = 8
_FEW_VALUES = 8


class SchemaWriter:
    """Writes states as schemas; what is used twice, or deep inside, is written once and named."""

    def __init__(self, satisfiable: set[State], pointer: str) -> None:
        self._satisfiable = satisfiable
        self._pointer = pointer
        self._names: dict[State, str] = {}
        self._waiting: list[State] = []
        self._uses: dict[State, int] = {}
        self._alike: dict[object, State] = {}
        self._multiples = 0
        self._values = 0
        self._properties = 0
        self._joins = 0

    def write(self, root: State) -> Schema | bool:
        """Return the schema of a state."""
        self._count_uses(root)
        written = self._schema(root, 0)
        definitions: Schema = {}
        while self._waiting:
            state = self._waiting.pop()
            definitions[self._names[state]] = self._body(state, 0)
        if not isinstance(written, dict):
            return bool(written)
        if definitions:
            written = {"$defs": definitions, **written}
            if _levels(written, definitions) > LEVEL_LIMIT:
                raise self._error(
                    f"its schemas nest deeper than {LEVEL_LIMIT} levels", "flatten it"
                )
        return written

    def _error(self, problem: str, remedy: str) -> GrammarError:
        return GrammarError(problem, remedy=remedy, pointer=self._pointer)

    def _count_uses(self, root: State) -> None:
        waiting = [root]
        self._uses[root] = 1
        while waiting:
            for inner in waiting.pop().inside():
                if inner in self._satisfiable:
                    if inner not in self._uses:
                        waiting.append(inner)
                    key = _text_key(inner)
                    inner = self._alike.setdefault(key, inner) if key else inner
                    self._uses[inner] = self._uses.get(inner, 0) + 1

    def _schema(self, state: State, level: int) -> JsonValue:
        state = self._only(state)
        if state not in self._satisfiable:
            return False
        if not state.atoms:
            return True
        state = self._alike.get(_text_key(state), state)
        if not _is_small(state) and (self._uses[state] > 1 or level >= _INLINE_LEVELS):
            if state not in self._names:
                self._names[state] = str(len(self._names))
                self._waiting.append(state)
            return {"$ref": f"#/$defs/{self._names[state]}"}
        return self._body(state, level)

    def _only(self, state: State) -> State:
        """Return the one alternative that is left, or of that, or the state itself."""
        while state.alternatives is not None:
            kept = [other for other in state.alternatives if other in self._satisfiable]
            if len(kept) != 1:
                break
            state = kept[0]
        return state

    def _body(self, state: State, level: int) -> JsonValue:
        if state.alternatives is not None:
            kept = [other for other in state.alternatives if other in self._satisfiable]
            return {"anyOf": [self._schema(other, level + 1) for other in kept]}
        shape = state.shape
        if shape is None:
            return False
        if shape.values is not None:
            return self._listed(state, shape.values)
        types = possible_types(shape, self._satisfiable)
        written = self._scalars(state, shape, types)
        if "array" in types:
            written |= self._array(shape, level)
        choices = [{}] if "object" not in types else self._objects(state, shape, level)
        missed = self._missed_numbers(state, shape) if "number" in types else []
        if len(choices) == 1 and not missed:
            return self._typed(types, shape, {**written, **choices[0]})
        options: list[JsonValue] = []
        if len(choices) == 1:
            options.append(self._typed(types, shape, {**written, **choices[0]}))
        else:
            options += [self._typed(frozenset({"object"}), shape, one) for one in choices]
            if types != {"object"}:
                options.append(self._typed(types - {"object"}, shape, written))
        return {"anyOf": [*options, *missed]}

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

    def _listed(self, state: State, values: list[JsonValue]) -> JsonValue:
        self._values += len(values)
        place = _keyword_pointer(state, "enum", "const")
        if self._values > VALUE_LIMIT:
            raise GrammarError(
                f"there are more than {VALUE_LIMIT:,} values in all",
                remedy="use a pattern",
                pointer=place,
            )
        return {"enum": [check_writable(value, place) for value in values]}

    def _scalars(self, state: State, shape: Shape, types: frozenset[str]) -> Schema:
        written: Schema = {}
        if "number" in types:
            written |= self._number(state, shape)
        if "string" in types:
            if shape.shortest:
                written["minLength"] = shape.shortest
            if shape.longest is not None:
                written["maxLength"] = shape.longest
            self._check_texts(state, shape)
            patterns = [rust_pattern(text, shape.pointer) for text in shape.patterns]
            if len(patterns) == 1:
                written["pattern"] = patterns[0]
            elif patterns:
                written["allOf"] = [{"pattern": text} for text in patterns]
        return written

    def _check_texts(self, state: State, shape: Shape) -> None:
        if len(shape.patterns) > PATTERN_LIMIT:
            raise GrammarError(
                f"a text has to match more than {PATTERN_LIMIT} patterns",
                remedy="join them, or check some afterwards",
                pointer=_keyword_pointer(state, "pattern", "format"),
            )
        if shape.patterns and shape.shortest > LENGTH_LIMIT:
            raise GrammarError(
                f"it is more than {LENGTH_LIMIT:,} beside a pattern",
                remedy="use a smaller number",
                pointer=_keyword_pointer(state, "minLength"),
            )

    def _number(self, state: State, shape: Shape) -> Schema:
        written: Schema = {}
        lowest, highest = safe_bounds(shape)
        if lowest is not None:
            place = _keyword_pointer(state, "minimum", "exclusiveMinimum")
            keyword = "exclusiveMinimum" if lowest[1] else "minimum"
            written[keyword] = plain_number(lowest[0], place)
        if highest is not None:
            place = _keyword_pointer(state, "maximum", "exclusiveMaximum")
            keyword = "exclusiveMaximum" if highest[1] else "maximum"
            written[keyword] = plain_number(highest[0], place)
        step = step_of(shape)
        if step is not None and not (shape.whole and step == 1):
            written["multipleOf"] = self._multiple(step, _keyword_pointer(state, "multipleOf"))
        return written

    def _missed_numbers(self, state: State, shape: Shape) -> list[JsonValue]:
        """Return schemas for the numbers that the engine misses in the one from `_number`."""
        schemas: list[JsonValue] = []
        numbers = missed_numbers(shape)
        if numbers:
            schemas.append({"enum": list(numbers)})
        for step in coarser_steps(shape):
            number = self._number(state, shape)
            number["multipleOf"] = self._multiple(step, _keyword_pointer(state, "multipleOf"))
            schemas.append({"type": "number", **number})
        return schemas

    def _multiple(self, step: Fraction, place: str) -> int | float:
        number = plain_number(step, place)
        digits = step
        while digits.denominator != 1:
            digits *= 10
        self._multiples += int(digits)
        if self._multiples > MULTIPLE_LIMIT:
            raise GrammarError(
                f"it has more than {MULTIPLE_LIMIT:,} remainders, all such keywords together",
                remedy="use a smaller or rounder number",
                pointer=place,
            )
        return number

    def _array(self, shape: Shape, level: int) -> Schema:
        written: Schema = {}
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
        """Return an object schema for each way to have as many properties as asked for."""
        self._properties += len(shape.properties)
        if self._properties > PROPERTY_LIMIT:
            raise self._error(f"it has more than {PROPERTY_LIMIT:,} properties", "use fewer")
        is_open = shape.additional is None or shape.additional in self._satisfiable
        others = is_open or any(one in self._satisfiable for one in shape.named_by_pattern.values())
        optional = [
            name
            for name, inner in shape.properties.items()
            if inner in self._satisfiable and name not in shape.required
        ]
        choices = property_choices(
            shape.required,
            optional,
            shape.fewest_properties,
            shape.most_properties,
            others=others,
            places={
                keyword: _keyword_pointer(state, keyword)
                for keyword in ("minProperties", "maxProperties")
            },
        )
        self._check_patterns(state, shape)
        return [self._object(shape, choice, level) for choice in choices]

    def _object(self, shape: Shape, choice: PropertyChoice, level: int) -> Schema:
        written: Schema = {}
        properties = self._named(shape, choice, level)
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

    def _named(self, shape: Shape, choice: PropertyChoice, level: int) -> Schema:
        allowed = {*choice.required, *choice.optional}
        properties: Schema = {}
        for name, inner in shape.properties.items():
            if name in allowed:
                properties[name] = self._schema(inner, level + 1)
            elif choice.others:
                properties[name] = False
        return properties

    def _check_patterns(self, state: State, shape: Shape) -> None:
        """The engine joins the schemas of a name and of its pattern, which must not be endless."""
        for pattern, inner in shape.named_by_pattern.items():
            joined = [
                property_state
                for name, property_state in shape.properties.items()
                if inner.atoms and pattern_accepts(pattern, name)
            ]
            if joined and any(map(_is_recursive, [inner, *joined])):
                raise GrammarError(
                    "a property that matches the pattern, or the pattern's schema, is recursive",
                    remedy="use a pattern that the names of properties do not match",
                    pointer=_keyword_pointer(state, "patternProperties"),
                )
            for property_state in joined:
                self._joins += _written_out([inner, property_state], JOIN_LIMIT - self._joins)
            if self._joins > JOIN_LIMIT:
                raise GrammarError(
                    "the schemas of the pattern and of the properties that match it hold more "
                    f"than {JOIN_LIMIT:,} schemas, references written out",
                    remedy="use a pattern that the names of properties do not match",
                    pointer=_keyword_pointer(state, "patternProperties"),
                )


def _text_key(state: State) -> tuple[object, ...] | None:
    """Return what two states share that allow the same texts by patterns, and nothing else."""
    shape = state.shape
    if shape is None or not shape.patterns or shape.types != {"string"}:
        return None
    if shape.values is not None:
        return None
    return (*shape.patterns, shape.shortest, shape.longest)


def _is_small(state: State) -> bool:
    """Return whether a schema is no longer than the reference to it."""
    shape = state.shape
    if shape is None:
        return False
    if shape.values is not None:
        return len(shape.values) <= _FEW_VALUES
    return not (shape.types & {"array", "object"} or shape.patterns)


def _is_recursive(start: State) -> bool:
    """Return whether states inside of this one lead back to themselves."""
    done: dict[State, bool] = {start: False}
    way = [(start, iter(list(start.inside())))]
    while way:
        state, others = way[-1]
        following = next(others, None)
        if following is None:
            done[state] = True
            way.pop()
        elif following not in done:
            done[following] = False
            way.append((following, iter(list(following.inside()))))
        elif not done[following]:
            return True
    return False


def _written_out(states: list[State], limit: int) -> int:
    """Count states that are not recursive and those inside them, each as often as it is used.

    Stops at the first beyond `limit`.
    """
    count = 0
    waiting = list(states)
    while waiting and count <= limit:
        count += 1
        waiting += waiting.pop().inside()
    return count


def _levels(root: Schema, definitions: Schema) -> int:
    """Return how deep the engine goes, which reads a definition where it first meets its name."""
    met: set[str] = set()
    deepest = 0
    way: list[list[JsonValue]] = [[root]]
    while way:
        if not way[-1]:
            way.pop()
            continue
        value = way[-1].pop(0)
        deepest = max(deepest, len(way))
        if isinstance(value, dict):
            reference = value.get("$ref")
            if isinstance(reference, str) and reference not in met:
                met.add(reference)
                way.append([definitions[reference.rpartition("/")[2]]])
            elif not isinstance(reference, str):
                way.append([one for key, one in value.items() if key not in ("$defs", "enum")])
        elif isinstance(value, list):
            way.append(list(value))
    return deepest // 2


def _keyword_pointer(state: State, *keywords: str) -> str:
    """Return the pointer of the last of these keywords among the schemas of a state."""
    for atom in reversed(state.atoms):
        if isinstance(atom, Constraints):
            for keyword in keywords:
                if keyword in atom.keywords:
                    return atom.pointer_to(keyword)
    return state.atoms[-1].pointer
