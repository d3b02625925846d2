"""A program's own cluster: a launcher starts its processes, and a job runs on it."""
