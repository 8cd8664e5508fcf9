"""JSON Schema to what the grammar engine enforces exactly.

::

    pattern_nodes → pattern_reader → patterns → pattern_overlap    regular expressions of ECMA-262
    formats, json_values, references → keywords → instances        what a schema says
    states → property_names → conjunctions                         schemas that hold together
    finite → disjoint                                              what can be, and what excludes it
    property_counts, number_ranges → schema_writer                 the schema written again
    plain_schema → schemas                                         all of it as one function
"""

from .schemas import JSON_OPTIONS, enforceable_schema

__all__ = ["JSON_OPTIONS", "enforceable_schema"]
