"""The subtask: it runs a chain, takes part in checkpoints and restores state."""
