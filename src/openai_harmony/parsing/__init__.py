"""Tokens to messages.

::

    recovery, state          the parser's state, and the record of repairs
    header → strict          the format as it is written
    damaged_header → lenient what models write instead
    parser                   the parser that people use
"""
