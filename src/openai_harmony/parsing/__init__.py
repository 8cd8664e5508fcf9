"""Tokens to messages.

::

    recovery, state          the parser's state, and the record of repairs
    strict_header → strict   the format, as the reference reads it
    header_words → damaged_header → unfinished_header → lenient
                             what models write instead
    parser                   the parser that people use
"""
