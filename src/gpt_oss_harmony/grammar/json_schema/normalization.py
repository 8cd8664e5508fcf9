"""Normalization: a schema object in, the constraints and disjunctions that must hold out.

References and ``allOf`` are flattened: the atoms of a schema are its own constraints, its
disjunctions, and the atoms of everything that it joins in the same way.
"""

from __future__ import annotations

from collections.abc import Mapping

from ...typescript.json_text import Schema
from ..errors import GrammarError, Report
from .budget import spend
from .constraints import Constraints
from .disjunctions import Disjunctions
from .documents import REFERENCES, Document, child_pointer
from .keywords import (
    apply_property_names,
    asserts,
    listed_schemas,
    read_constraints,
)
from .negations import Negations
from .states import circular_node
from .terms import Atom, Case, Decisions, NormalForm, Overlap, Term
from .unevaluated import Unevaluated

IN_PLACE_LIMIT = 200
"""The most schemas that references and ``allOf`` may join for one value."""

_UNDECIDED: Decisions = {}
_JOINING = frozenset({*REFERENCES, "allOf"})
_REFERRING = frozenset(
    {
        *REFERENCES,
        "allOf",
        "anyOf",
        "dependencies",
        "dependentRequired",
        "dependentSchemas",
        "if",
        "not",
        "oneOf",
    }
)


class Normalizer:
    """Finds the normal forms of the schemas of a document, each once."""

    def __init__(self, document: Document, report: Report, overlaps: Mapping[str, Overlap]) -> None:
        self._document = document
        self._report = report
        self.negations = Negations(document)
        self.disjunctions = Disjunctions(document, self.negations, overlaps, report)
        self._unevaluated = Unevaluated(document, self.disjunctions, self.normal_form)
        self._normal_forms: dict[int, NormalForm] = {}
        self.own_atoms: set[Atom] = set()
        """The atoms of schemas that the document itself has."""

    def add_atoms(
        self,
        term: Term,
        atoms: dict[Atom, None],
        pointer: str,
        decisions: Decisions = _UNDECIDED,
        visited: dict[int, bool] | None = None,
    ) -> bool:
        """Add the atoms of a term; return False if the term allows nothing.

        `visited` has the schemas on the current path (True) and those that are done.
        """
        if isinstance(term, bool):
            return term
        if isinstance(term, Constraints):
            atoms[term] = None
            return True
        visited = {} if visited is None else visited
        if isinstance(term, Case):
            inside: dict[int, bool] = {}
            form, decisions = self.normal_form(term.schema), term.decisions
            is_possible = self._add_conjuncts(form, atoms, decisions, inside)
            atoms.update({} if term.closing is None else {term.closing: None})
            return is_possible and all(
                self.add_atoms(other, atoms, pointer, decisions, inside) for other in term.also
            )
        if not isinstance(term, dict):
            problem = "a schema must be an object or a boolean"
            self._report(GrammarError(problem, remedy="correct it", pointer=pointer))
            return True
        if visited.get(id(term)) or len(visited) > IN_PLACE_LIMIT:
            self._report(_endless(pointer) if visited.get(id(term)) else _too_many(pointer))
            return True
        form = self.normal_form(term)
        if id(term) in visited or (not decisions and form.constraints in atoms):
            return True
        if form.unevaluated:
            # Each case contains the schema itself, so its other parts are not added again.
            atoms.update(dict.fromkeys(form.unevaluated))
            return True
        return self._add_conjuncts(form, atoms, decisions, visited)

    def _add_conjuncts(
        self,
        form: NormalForm,
        atoms: dict[Atom, None],
        decisions: Decisions,
        visited: dict[int, bool],
    ) -> bool:
        """Add the atoms of a normal form in the order of its schema."""
        spend(5)
        visited[id(form.schema)] = True
        own: list[Term] = [form.constraints] if asserts(form.schema) else []
        before, after = form.conjuncts[: form.before_own], form.conjuncts[form.before_own :]
        for term in (*before, *own, *after):
            if not self.add_atoms(term, atoms, form.conjuncts_pointer, decisions, visited):
                return False
        visited[id(form.schema)] = False
        for disjunction in form.disjunctions:
            if disjunction not in decisions or disjunction.exclusive:
                atoms[disjunction] = None
            for term in decisions.get(disjunction, ()):
                if not self.add_atoms(term, atoms, disjunction.pointer, decisions, visited):
                    return False
        return True

    def normal_form(self, schema: Schema) -> NormalForm:
        """Return the normal form of a schema object."""
        form = self._normal_forms.get(id(schema))
        if form is not None:
            return form
        spend(50)
        pointer = self._document.pointer(schema)
        conjuncts, before_own, is_partial = self._conjuncts(schema, pointer)
        references = [keyword for keyword in REFERENCES if keyword in schema]
        is_old = self._document.is_old
        rule = read_constraints(schema, pointer, self._report, is_old=is_old)
        name_patterns = tuple(rule.named_by_pattern)
        names = self._property_names(schema)
        if names is not None:
            apply_property_names(rule, names)
        form = NormalForm(
            schema,
            rule,
            name_patterns,
            conjuncts,
            before_own,
            child_pointer(pointer, *references[:1] or ["allOf"]),
            self.disjunctions.of(schema, rule),
            [],
            is_partial,
        )
        # Before the cases are sought, which may lead back to this schema.
        self._normal_forms[id(schema)] = form
        for refusal in [refusal for refusal in rule.refusals if refusal.depends]:
            evaluates_all = self._unevaluated.evaluates_all(form, refusal.type)
            if refusal.type in rule.types and not evaluates_all:
                try:
                    form.unevaluated.append(self._unevaluated.cases(form, refusal.type))
                except GrammarError:
                    continue  # the refusal stays
            rule.refusals.remove(refusal)
        if self._document.has(schema):
            self.own_atoms.update((rule, *form.disjunctions, *form.unevaluated))
        return form

    def _conjuncts(self, schema: Schema, pointer: str) -> tuple[list[Term], int, bool]:
        """Return the fields `conjuncts`, `before_own` and `is_partial` of a normal form."""
        conjuncts: list[Term] = []
        before_own, is_partial = None, False
        if _JOINING.isdisjoint(schema):
            return conjuncts, 0, False
        for keyword in schema:
            if keyword in REFERENCES:
                try:
                    conjuncts.append(self._document.referred(schema, keyword))
                except GrammarError as error:
                    self._report(error)
                    is_partial = True
            elif keyword == "allOf":
                conjuncts += listed_schemas(schema, "allOf", pointer, self._report)
            elif keyword in ("properties", "required") and before_own is None:
                before_own = len(conjuncts)
        return conjuncts, len(conjuncts) if before_own is None else before_own, is_partial

    def _property_names(self, schema: Schema) -> Constraints | None:
        """Return the constraints on the names of an object, if one schema has all of them."""
        names = schema.get("propertyNames")
        if names is False:
            return Constraints("", values=[])
        for _ in range(IN_PLACE_LIMIT):
            if not isinstance(names, dict) or asserts(names) or "$ref" not in names:
                break
            names = self._document.referred(names)
        if not isinstance(names, dict) or not _REFERRING.isdisjoint(names):
            return None
        return read_constraints(names, self._document.pointer(names), self._report)

    def check_recursion(self) -> None:
        """Raise if a schema refers to itself without a value in between, even as one of several."""
        schema_id = circular_node(self._normal_forms, self._in_place)
        if schema_id is not None:
            form = self._normal_forms[schema_id]
            first = form.disjunctions[0] if form.disjunctions else None
            raise _endless(form.conjuncts_pointer if first is None else first.pointer)

    def _in_place(self, schema_id: int) -> list[int]:
        """Return the ids of the schemas that may apply to the same value as a schema."""
        form = self._normal_forms[schema_id]
        terms = [term for disjunction in form.disjunctions for term in disjunction.terms]
        return [id(term) for term in [*form.conjuncts, *terms] if id(term) in self._normal_forms]


def _too_many(pointer: str) -> GrammarError:
    return GrammarError(
        f"more than {IN_PLACE_LIMIT} schemas apply to one value",
        remedy="use fewer allOf and $ref",
        pointer=pointer,
    )


def _endless(pointer: str) -> GrammarError:
    return GrammarError(
        "the schema refers to itself without end",
        remedy="refer to it from inside an object or an array",
        pointer=pointer,
    )
