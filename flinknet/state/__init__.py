"""State: what an operator remembers, of each key and of its own, and how it is written and read."""
