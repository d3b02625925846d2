"""Completion of a job's checkpoints in their storage."""
