"""The operators of a chain: they turn records into other records, a batch at a time."""
