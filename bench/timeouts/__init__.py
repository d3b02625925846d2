"""The family ``timeouts``: the effect of the buffer timeout on throughput and latency."""
