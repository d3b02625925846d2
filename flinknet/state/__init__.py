"""Keyed state and operator state, and their snapshots."""
