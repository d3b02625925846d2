"""Metrics and statistics of workers, and their export."""
