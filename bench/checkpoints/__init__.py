"""The family ``checkpoints``: their cost for a keyed job, and how long they stop its loop."""
