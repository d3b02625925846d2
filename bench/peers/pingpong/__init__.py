"""One record back and forth between two processes: the round trip of an otherwise idle exchange."""
