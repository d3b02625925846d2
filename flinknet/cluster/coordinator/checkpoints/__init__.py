"""The completion of a job's checkpoints."""
