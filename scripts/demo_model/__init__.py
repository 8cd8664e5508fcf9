"""The demo model: what it learns from, how it learns, and how often it is right."""
