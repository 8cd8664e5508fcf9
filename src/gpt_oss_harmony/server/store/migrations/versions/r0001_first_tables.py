"""Responses, conversations, their items, and API keys.

No database is older; a new one gets the tables of today at once.
"""

revision = "0001"
down_revision = None
