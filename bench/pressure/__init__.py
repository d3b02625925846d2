"""The family ``pressure``: an excessive load, and how backpressure propagates."""
