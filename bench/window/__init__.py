"""The family ``window``: the throughput of a credit window over a link with a delay."""
