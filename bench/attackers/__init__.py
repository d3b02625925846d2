"""The family ``attackers``: a good job and a joining worker beside a hundred hostile clients."""
