"""The family ``adaptive``: what a slow consumer leaves to a fast one of the same writer."""
