"""The coordinator: who runs what, and how it ends."""
