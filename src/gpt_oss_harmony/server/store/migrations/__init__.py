"""The migrations of the tables, which run in order when a store is opened."""
