"""The steps by which the tables came to be; run in order when a store is opened."""
