"""The family ``ramp-up``: the cost of each buffer timeout from a trickle to a flood."""
