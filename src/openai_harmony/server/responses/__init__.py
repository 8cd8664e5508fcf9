"""The Responses API.

::

    past, sealing → truncation → plan    a request and what came before it, prepared
    tool_loop                            turn after turn, with the server's tools between them
    log, open_item → stream → run → runs, start
                                         a response under way: its events, and its end in the store
    records, lookup                      responses as they are stored
    compaction                           a long conversation as one sealed item
    routes, websocket                    the endpoints
"""
