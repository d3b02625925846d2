"""The harness of all families: pinned processes, rounds, interleaving, rows, tables, figures."""
