"""The family ``exchange``: how fast records get from one process to another."""
