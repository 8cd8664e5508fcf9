"""The Responses API.

::

    history, encryption        the items before a request: in the store, or encrypted by the server
    compaction                 a conversation as fewer tokens
    plan                       a request, read and prepared; also token counts
    machine, driver            one response: its states and decisions, and the work that it commands
    output_item, stream        turn events to the items and events of a response
    live_responses             running responses
    lifecycle                  start, retrieve, cancel and delete responses by their ids
    routes, websocket          the endpoints
"""
