"""JSON Schemas to simpler ones that the grammar engine enforces exactly.

The engine (llguidance) supports most of JSON Schema but gives some keywords another meaning. This
package splits a schema into states (`disjunctive_form`) and writes these with the few keywords that
have the same meaning in the engine and the specification. Other schemas raise `GrammarError`.

::

    documents                                the schema as JSON, and the targets of `$ref`
    simple_schemas                           a fast path for what is simple in a schema
    pattern_parser → patterns, formats       regular expressions of ECMA-262, and formats
    pattern_lengths                          lengths as a part of patterns
    constraints, keywords                    the keywords of one schema object
    negations                                schemas that a value must not satisfy
    disjunctions, unevaluated                schemas of which a value must satisfy one
    normalization                            all of these, for one value (`terms`)
    disjunctive_form, settled_terms          normal forms to a graph of `states`
    intersection, listed_values              the constraints and the `enum` of a state
    witnesses, disjointness                  states with a value, and pairs without a common value
    bounds                                   numbers and counts that the engine misreads
    schema_writer                            states to a schema
    loosening                                all of these; what cannot be enforced is an error or
                                             left out
    budget                                   the work of all of these, with its limit
"""

from ..json_spelling import JSON_OPTIONS
from .budget import STEP_LIMIT
from .loosening import (
    LoosenedSchema,
    enforceable_schema,
    loosened_schema,
    narrowed_schema,
    outlined_schema,
)

__all__ = [
    "JSON_OPTIONS",
    "STEP_LIMIT",
    "LoosenedSchema",
    "enforceable_schema",
    "loosened_schema",
    "narrowed_schema",
    "outlined_schema",
]
