"""Who may send requests, and how many.

::

    api_keys    keys: created, checked, revoked
    caller      the owner of a request, by its headers
    limits      requests and tokens of a key in the last minute
"""
