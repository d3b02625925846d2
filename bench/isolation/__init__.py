"""The family ``isolation``: the effect of a stopped consumer on the others on its connection."""
