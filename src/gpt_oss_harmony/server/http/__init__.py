"""The HTTP parts that all APIs of the server share.

::

    errors                every failure as JSON in the shape of the API
    json                  JSON of any text and size, read and written
    server_sent_events    the log of a stream's events, and the response that sends them
    requests              the size of requests, and clients that disconnect
"""
