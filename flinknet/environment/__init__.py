"""The thread and the time that the chain of a subtask runs in."""
