"""What a hundred hostile clients leave to a good job, and to a worker that wants to join."""
