"""Checkpoints: barriers, what they capture, and the bookkeeping of those under way."""
