"""The family ``micro``: the cost of a record and a buffer on each part of their path."""
