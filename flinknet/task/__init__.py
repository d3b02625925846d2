"""What runs a job: its graph, the operators and their chains, and the subtask that drives them."""
