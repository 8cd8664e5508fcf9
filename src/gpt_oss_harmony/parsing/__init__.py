"""Tokens to messages.

::

    recovery, state          the parser's state, and the record of repairs
    strict                   strict parsing, as in the reference
    header_words → sound_header, edits → least_cost
                             the words of damaged headers, and their most likely reading
    unmarked_text            text that has lost its special tokens
    mended_json              arguments that are nearly JSON, on request
    damaged_calls → between_messages → damaged_headers → lenient
                             lenient parsing: the step of each token in each state
    parser                   the public parser
    partial_json             the JSON in bodies, while it is written
"""
