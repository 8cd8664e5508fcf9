"""The Responses API.

::

    history                    the items before a request, from the store or a connection
    compaction                 a conversation as fewer tokens
    plan                       a request, read and prepared; also token counts
    truncation                 the oldest turns left out, until there is room
    run, effects               one response: its states and decisions, and the work for them
    lifecycle                  start, retrieve, cancel and delete responses by their ids
    routes, websocket          the endpoints
"""
