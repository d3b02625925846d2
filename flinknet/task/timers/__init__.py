"""Timers: what a keyed function is to be called for at a time."""
