"""The family ``checkpoints``: what checkpoints cost a keyed job, and how long its loop stands."""
