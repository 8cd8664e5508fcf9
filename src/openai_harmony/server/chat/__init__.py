"""Chat Completions.

::

    turn               a request at the engine, and its choices as one stream of events
    answer, deltas     the wire format
    choice             events to a choice, whole or streamed
    routes             the endpoint
"""
