"""HTTP as every API of the server uses it.

::

    errors                every failure as JSON in the shape of the API
    json                  JSON that can hold any text of a client
    large_json            the same, so that other threads can run in between
    identifiers           ids of what the server makes
    server_sent_events    streams of events
    requests              the size of requests, and clients that disconnect
"""
