"""The Responses API.

::

    history                    the items before a request, from the store or a connection
    compaction                 a conversation as fewer tokens
    plan                       a request, read and prepared; also token counts
    machine, driver            one response: its states and decisions, and the work that it commands
    output_item, stream        turn events to the items and events of a response
    lifecycle                  start, retrieve, cancel and delete responses by their ids
    routes, websocket          the endpoints
"""
