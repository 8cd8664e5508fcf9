"""The HTTP parts that all APIs of the server share.

::

    errors                every failure as JSON in the shape of the API
    json                  responses and lists in JSON
    large_json            the same, so that other threads can run in between
    server_sent_events    streams of events
    requests              the size of requests, and clients that disconnect
"""
