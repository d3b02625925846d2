"""The coordinator's connections to workers, and its records of them."""
