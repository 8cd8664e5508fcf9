"""Tokens to messages.

::

    recovery, state          the parser's state, and the record of repairs
    strict                   strict parsing, as in the reference
    header_words → sound_header, edits → least_cost → unmarked_text → lenient
                             lenient parsing, which repairs damaged tokens
    mended_json              arguments that are nearly JSON, on request
    parser                   the public parser
    partial_json             the JSON in bodies, while it is written
"""
