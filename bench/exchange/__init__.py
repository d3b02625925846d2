"""The family ``exchange``: the maximum rate of records from one process to another."""
