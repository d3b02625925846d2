"""The operators of a chain, which transform records one batch at a time."""
