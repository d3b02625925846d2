"""The jobs of a coordinator: their attempts, regions, restarts and records."""
