"""State of operators, keyed and operator state, and its snapshots."""
