"""Completions: a prompt as text or token ids, without any template.

::

    body, answer       the wire format
    text → choices     tokens to pieces of text; all choices as one stream
    routes             the endpoint
"""
