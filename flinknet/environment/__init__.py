"""The thread and the clocks of a subtask's chain."""
