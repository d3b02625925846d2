"""A worker: the process that runs subtasks."""
