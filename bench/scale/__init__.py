"""The family ``scale``: the cost of a logical channel, and a test that thousands of them work."""
