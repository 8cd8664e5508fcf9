"""JSON Schema to what the grammar engine enforces exactly.

::

    pattern_parser → patterns, formats       regular expressions of ECMA-262, and named ones
    references                               `$ref`, `$id`, `$anchor`: a schema's pointers
    constraints, keywords                    the keywords of one schema object
    instances                                which values a schema has, and two schemas share
    conjunctions                             schemas that hold together, as states
    numbers, property_counts                 what the engine misreads or cannot count
    schema_writer → schemas                  the states as a schema again; all as one function
"""

from .schemas import JSON_OPTIONS, enforceable_schema

__all__ = ["JSON_OPTIONS", "enforceable_schema"]
