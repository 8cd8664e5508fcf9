"""API keys: the callers of requests, and their limits.

::

    api_keys    creates, checks and revokes keys; the caller of a request
    limits      requests and tokens of a key in the last minute, and what it holds at a time
"""
