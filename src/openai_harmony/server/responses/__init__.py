"""The Responses API.

::

    history, encryption        the items before a request: stored, or encrypted at the client
    compaction                 a conversation as fewer tokens
    plan                       a request, read and prepared; also token counts
    tool_loop                  turn after turn, with the server's tools between them
    output_item, stream        turn events to the items and events of a response
    live_responses             responses under way, and the log of the events of one
    run                        one response from its plan to its end in the store
    lifecycle                  start, retrieve, cancel and delete responses by their ids
    routes, websocket          the endpoints
"""
