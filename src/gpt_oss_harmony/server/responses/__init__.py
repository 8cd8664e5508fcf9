"""The Responses API.

::

    history, encryption        the items before a request: in the store, or encrypted by the server
    compaction                 a conversation as fewer tokens
    plan                       a request, read and prepared; also token counts
    tool_loop                  turn after turn, with the server's tools between them
    output_item, stream        turn events to the items and events of a response
    live_responses             running responses
    run                        one response from its plan to its end in the store
    lifecycle                  start, retrieve, cancel and delete responses by their ids
    routes, websocket          the endpoints
"""
