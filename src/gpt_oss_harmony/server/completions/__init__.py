"""Completions: a prompt as text or token ids, without any template.

::

    choices    a request, its choices, and sampled tokens to their text
    routes     the endpoint
"""
