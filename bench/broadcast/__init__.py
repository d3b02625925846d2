"""The family ``broadcast``: the cost of each further channel of a broadcast."""
