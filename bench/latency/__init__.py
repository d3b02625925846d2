"""The family ``latency``: the latency of records while others keep coming."""
