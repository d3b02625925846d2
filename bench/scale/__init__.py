"""The family ``scale``: what a logical channel costs, and that thousands of them work."""
