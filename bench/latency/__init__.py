"""The family ``latency``: how long records take while others keep coming."""
