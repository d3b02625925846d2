"""The family ``timeouts``: what the buffer timeout does to throughput and to latency."""
