"""What all families share: pinned processes, rounds, interleaving, rows, tables and figures."""
