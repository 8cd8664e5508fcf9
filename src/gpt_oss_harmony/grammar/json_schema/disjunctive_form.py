"""The disjunctive normal form: a document in, a graph of states out.

A state is a conjunction of atoms on one value. A state with a disjunction leads to one state for
each of its terms, with the other atoms distributed over them. A state without one has a shape, the
intersection of its constraints, which leads to the states of items and properties. Equal
conjunctions are one state, so a recursive schema has a finite number of states.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ...typescript.json_text import JsonValue, Schema
from ..errors import GrammarError, Report, raise_error
from .budget import spend
from .constraints import TYPES, Constraints
from .documents import Document, child_pointer
from .intersection import add_items, add_properties, intersection
from .listed_values import ListedValues
from .normalization import Normalizer
from .settled_terms import SettledTerms, absorb
from .states import State
from .terms import Atom, Disjunction, Overlap, Term

STATE_LIMIT = 5_000
"""The most states of a schema."""

_ALL_PROPERTIES_LIMIT = 20_000


@dataclass
class DisjunctiveForm:
    """The states of a document.

    - `contexts`: the pointers of the schemas beside each `oneOf` in each state, by its pointer.
    - `omits_values`: True if the grammar leaves out some values of a state.
    """

    roots: list[State]
    states: list[State]
    contexts: dict[str, set[frozenset[str]]]
    omits_values: bool


def build_states(
    document: Document,
    roots: list[Schema],
    report: Report = raise_error,
    overlaps: Mapping[str, Overlap] | None = None,
) -> DisjunctiveForm:
    """Return the states of some schemas of a document.

    `overlaps` has the `oneOf` whose schemas may hold together, by pointer; they are set apart.
    """
    normalizer = Normalizer(document, report, overlaps or {})
    distribution = _Distribution(document, normalizer, report)
    of_roots = [distribution.joined([root], "#") for root in roots]
    while distribution.waiting:
        distribution.expand(distribution.waiting.popleft())
    normalizer.check_recursion()
    absorb(distribution.states.values())
    return DisjunctiveForm(
        of_roots,
        list(distribution.states.values()),
        distribution.contexts,
        normalizer.disjunctions.omits_values,
    )


class _Distribution:
    """The states so far, and those that wait to be expanded."""

    def __init__(self, document: Document, normalizer: Normalizer, report: Report) -> None:
        self._normalizer = normalizer
        self._report = report
        self._listed_values = ListedValues(document, report)
        self._settled_terms = SettledTerms(document)
        self._properties = 0
        self.states: dict[frozenset[Atom], State] = {}
        self.waiting: deque[State] = deque()
        self.contexts: dict[str, set[frozenset[str]]] = {}
        self._impossible = State((), never=True)

    def joined(self, schemas: Iterable[JsonValue], pointer: str) -> State:
        """Return the state that requires all of these schemas."""
        atoms: dict[Atom, None] = {}
        for schema in schemas:
            if not self._normalizer.add_atoms(schema, atoms, pointer):
                return self._impossible
        return self._state(atoms)

    def _state(self, atoms: dict[Atom, None]) -> State:
        spend(5 + len(atoms) // 8)
        key = frozenset(atoms)
        state = self.states.get(key)
        if state is None:
            state = State(tuple(atoms))
            if self._normalizer.disjunctions.omits_values:
                rules = (atom for atom in atoms if isinstance(atom, Constraints))
                state.omitted = any(rule.omitted for rule in rules)
            self.states[key] = state
            self.waiting.append(state)
            if len(self.states) > STATE_LIMIT:
                raise GrammarError(
                    f"its schemas combine in more than {STATE_LIMIT:,} ways",
                    remedy="use fewer anyOf side by side, or a smaller schema",
                    pointer=state.pointer,
                )
        return state

    def expand(self, state: State) -> None:
        """Give a state its alternatives or its shape, unless its atoms contradict each other."""
        spend(10 + len(state.atoms) // 2)
        constraints = [atom for atom in state.atoms if isinstance(atom, Constraints)]
        types = frozenset(TYPES).intersection(*(rule.types for rule in constraints))
        if any(rule.fractional for rule in constraints) and any(rule.whole for rule in constraints):
            types -= {"number"}
        if not types:
            return
        self._report_refusals(constraints, "")
        if self._decide(state, constraints):
            return
        spend(10 + 5 * len(constraints))
        values = self._listed_values.common(constraints)
        if values is None:
            if self._choose_witness(state, constraints):
                return
            for name in TYPES:
                if name in types:
                    self._report_refusals(constraints, name)
        state.shape = intersection(constraints, types)
        state.shape.values = values
        if values is None:
            add_items(state.shape, constraints, self.joined)
            add_properties(state.shape, constraints, self.joined, self._report)
            self._properties += len(state.shape.properties)
            if self._properties > _ALL_PROPERTIES_LIMIT:
                raise GrammarError(
                    f"its schemas combine into more than {_ALL_PROPERTIES_LIMIT:,} properties",
                    remedy="use fewer anyOf beside properties",
                    pointer=state.shape.pointer,
                )

    def _decide(self, state: State, constraints: list[Constraints]) -> bool:
        """Leave out the first disjunctions that hold anyway, or distribute the first.

        Returns whether there is any.
        """
        held: set[Atom] = set()
        for atom in state.atoms:
            if isinstance(atom, Disjunction):
                terms = self._settled_terms.of(atom, constraints)
                if terms is not None:
                    if not held:
                        self._distribute(state, atom, terms)
                        return True
                    break
                held.add(atom)
        if held:
            others = (atom for atom in state.atoms if atom not in held)
            state.alternatives = [self._state(dict.fromkeys(others))]
        return bool(held)

    def _distribute(
        self, state: State, disjunction: Disjunction, terms: list[tuple[Term, ...]]
    ) -> None:
        """Distribute the other atoms over the terms of a disjunction."""
        own = self._normalizer.own_atoms
        beside = frozenset(atom.pointer for atom in state.atoms if atom in own)
        self.contexts.setdefault(disjunction.pointer, set()).add(beside)
        state.alternatives = []
        state.exclusive = disjunction.pointer if disjunction.exclusive else ""
        for index, conjunction in enumerate(terms):
            spend(10 + len(state.atoms) // 8)
            atoms: dict[Atom, None] = dict.fromkeys(state.atoms)
            del atoms[disjunction]
            # In the order of the schema: first the keywords beside a disjunction, then its term.
            pointer = child_pointer(disjunction.pointer, index)
            if all(self._normalizer.add_atoms(term, atoms, pointer) for term in conjunction):
                alternative = self._state(atoms)
                # Equal schemas of a `oneOf` stay side by side, so that their overlap is found.
                if disjunction.exclusive or alternative not in state.alternatives:
                    state.alternatives.append(alternative)
            elif disjunction.exclusive:
                state.alternatives.append(self._impossible)  # so the others keep their indices

    def _choose_witness(self, state: State, constraints: list[Constraints]) -> bool:
        """Lead to one state for each name that is a witness; return whether there is a list.

        A rule may require some name outside another schema. If a third schema lists all names,
        those of them that are outside are the possible witnesses.
        """
        rule = next((rule for rule in constraints if rule.outside is not None), None)
        closed = [
            other
            for other in constraints
            if other.additional is False and not other.named_by_pattern
        ]
        if rule is None or rule.outside is None or not closed:
            return False
        atoms: dict[Atom, None] = dict.fromkeys(atom for atom in state.atoms if atom is not rule)
        state.alternatives = [
            self._state({**atoms, self._normalizer.negations.present(name, rule): None})
            for name in closed[0].properties
            if rule.outside.leaves_open(name)
        ]
        return True

    def _report_refusals(self, constraints: list[Constraints], name: str) -> None:
        """Report keywords that cannot be enforced for values of a type."""
        for rule in constraints:
            for refusal in rule.refusals:
                if refusal.type == name:
                    self._report(refusal.error(rule))
