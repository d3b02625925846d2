"""The coordinator's jobs: attempts, regions, restarts and persistent records."""
