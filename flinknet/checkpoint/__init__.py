"""Checkpoints: barriers, captured state, storage, and the coordination of pending checkpoints."""
