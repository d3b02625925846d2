"""The family ``ramp-up``: what each buffer timeout costs from a trickle to a flood."""
