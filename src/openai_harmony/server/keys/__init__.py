"""Who may ask, and how much.

::

    api_keys    keys, made, checked and revoked
    limits      what a key has used in the last minute
    caller      who sends a request, from its headers
    use         one request as it counts
"""
