"""The family ``channels``: throughput and CPU against the number of channels of a connection."""
