"""The family ``seeing``: the cost of observing a job."""
