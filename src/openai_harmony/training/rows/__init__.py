"""Rows of data sets to conversations: harmony, Chat Completions and ShareGPT.

::

    embedded_json   JSON that may stand as text
    row_weight      how much a message counts
    harmony_row     harmony's own JSON
    chat_row        what data sets leave out of Chat Completions, filled in
    sharegpt_row    ShareGPT as Chat Completions
    read_row        any of the three, detected, to a conversation and weights
"""

from .read_row import ReadRow, RowForm, detect_form, read_row

__all__ = ["ReadRow", "RowForm", "detect_form", "read_row"]
