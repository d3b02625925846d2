"""Metrics, stack samples and printed lines that the coordinator collects from workers."""
