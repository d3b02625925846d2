"""The subtask, which runs a chain, takes part in checkpoints and restores state."""
