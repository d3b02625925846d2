"""The family ``adaptive``: the throughput that a slow consumer leaves to a fast one."""
