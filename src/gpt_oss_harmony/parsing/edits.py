"""The damage that headers may have: one table of edits, with their costs and reasons.

A cost has one of six sizes: 0.3 and 0.6 for what can hardly mean anything else, 1 for what may, 2
and 3 for what nearly always does, and 6 for the last resort. `scripts/recovery/costs.py` measures
what they are worth, and docs/reference/recoveries.md has an example for each edit.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from .recovery import RecoveryKind as Kind


class EditRow(NamedTuple):
    """The kind that an edit is noted as (None: not by itself), its cost, and the cost's reason."""

    kind: Kind | None
    cost: float
    reason: str


class Edit(Enum):
    """The damage that a header may have."""

    # Between words
    GLUED = EditRow(Kind.GLUED_WORDS, 0.3, "models often leave out a space")
    # The role
    ROLE_SPELLED = EditRow(Kind.UNKNOWN_ROLE, 0.3, "no tool is named like a role")
    ROLE_REPEATED = EditRow(Kind.REPEATED_ROLE, 0.3, "the prompt has the role already")
    ROLE_OTHER = EditRow(Kind.OTHER_ROLE, 0.6, "the prompt decides, not the model")
    ROLE_LATE = EditRow(Kind.HEADER_ORDER, 0.6, "the role comes first")
    ROLE_MISSING = EditRow(Kind.MISSING_ROLE, 0.3, "the header's other words say enough")
    ROLE_UNKNOWN = EditRow(Kind.UNKNOWN_ROLE, 1.0, "a name that is no tool cannot be called")
    # The author, if it is a tool
    TOOL_ANSWERS = EditRow(Kind.UNKNOWN_ROLE, 0.3, "only after a call, a tool answers")
    TOOL_NAMED_TWICE = EditRow(Kind.REPEATED_ROLE, 0.3, "`tool` before the name says the same")
    TOOL_UNKNOWN = EditRow(Kind.UNKNOWN_ROLE, 1.0, "only a tool has a header without a channel")
    TOOL_AS_ROLE = EditRow(Kind.TOOL_AS_ROLE, 0.6, "the assistant calls a tool that is declared")
    # The channel
    CHANNEL_NEARLY = EditRow(Kind.UNKNOWN_CHANNEL, 0.6, "a channel in another case or language")
    CHANNEL_FOREIGN = EditRow(Kind.UNKNOWN_CHANNEL, 1.0, "a word in another script: never shown")
    CHANNEL_UNUSUAL = EditRow(None, 0.6, "a channel of any name is possible")
    CHANNEL_LOST = EditRow(Kind.UNKNOWN_CHANNEL, 1.0, "the channel is no word that one could mean")
    CHANNEL_EMPTY = EditRow(Kind.EMPTY_CHANNEL, 0.3, "nothing competes")
    CHANNEL_UNMARKED = EditRow(None, 0.3, "the name of a channel is rarely anything else")
    CHANNEL_REPLACED = EditRow(Kind.REPEATED_CHANNEL, 0.6, "models correct themselves")
    CHANNEL_KEPT = EditRow(Kind.REPEATED_CHANNEL, 1.0, "models seldom correct the right one")
    # The recipient
    TO_SPELLED = EditRow(Kind.TOOL_NAME, 0.3, "no other word of a header has an equals sign")
    TO_REPEATED = EditRow(Kind.REPEATED_RECIPIENT, 0.3, "no name begins with `to=`")
    TO_EMPTY = EditRow(Kind.MISSING_RECIPIENT, 0.6, "a name may follow")
    TO_OTHER_WORD = EditRow(Kind.GLUED_WORDS, 0.6, "no tool has the name of a channel or a type")
    TOOL_RESPELLED = EditRow(Kind.TOOL_NAME, 0.3, "a declared name is rarely an accident")
    TOOL_GLUED = EditRow(Kind.GLUED_WORDS, 0.3, "a declared name before a type, without a space")
    TOOL_WITH_DIRT = EditRow(Kind.TOOL_NAME, 0.6, "a declared name before signs that no name has")
    TOOL_UNDECLARED = EditRow(None, 1.0, "the model was given other names")
    TOOL_UNMARKED = EditRow(None, 0.6, "a declared name is rarely an accident")
    TOOL_AS_CHANNEL = EditRow(Kind.TOOL_AS_CHANNEL, 0.3, "no channel has the name of a tool")
    TOOL_AS_TYPE = EditRow(Kind.TOOL_AS_TYPE, 0.3, "no type has the name of a tool")
    RECIPIENT_REPLACED = EditRow(Kind.REPEATED_RECIPIENT, 0.3, "models correct themselves")
    RECIPIENT_KEPT = EditRow(Kind.REPEATED_RECIPIENT, 0.6, "models seldom correct the right one")
    CALL_ON_FINAL = EditRow(Kind.CALL_ON_FINAL, 1.0, "a call is never shown")
    CALL_ON_ANALYSIS = EditRow(None, 0.6, "calls of built-in tools are sound there")
    # The content type
    TYPE_AS_CHANNEL = EditRow(Kind.UNKNOWN_CHANNEL, 0.6, "no channel has the name of a type")
    TYPE_UNUSUAL = EditRow(None, 0.6, "a type of any name is possible after its marker")
    TYPE_IN_DIRT = EditRow(Kind.HEADER_TEXT, 0.3, "foreign letters before a known type")
    # What is left out
    DROP_DIRT = EditRow(Kind.HEADER_TEXT, 0.6, "no header has signs alone, or another script")
    DROP_WORD = EditRow(Kind.HEADER_TEXT, 1.0, "it may be the name of something")
    DROP_NAME = EditRow(Kind.HEADER_TEXT, 3.0, "a channel, a type or a tool is rarely an accident")
    # The body
    BODY = EditRow(None, 0.6, "every header without `<|message|>` needs it")
    BODY_UNNAMED = EditRow(None, 1.0, "a header has a channel or a recipient")
    BODY_OF_CALL_IS_PROSE = EditRow(None, 2.0, "the arguments of a call are JSON or code")
    BODY_BEGINS_ODDLY = EditRow(None, 3.0, "it rarely begins with signs or a header's word")
    BODY_INSIDE_WORD = EditRow(None, 1.0, "a small letter continues the word before")
    BODY_HAS_MARKERS = EditRow(None, 6.0, "a body has no special tokens")
    BODY_MISSING = EditRow(None, 2.0, "words that are left out are rather a body")
    BODY_BEFORE_MARKER = EditRow(Kind.MISSING_MESSAGE, 6.0, "a few words of dirt are more likely")


COST = {edit: edit.value.cost for edit in Edit}
"""The cost of each edit, in use."""
