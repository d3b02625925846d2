"""What is measured, and what leaves the worker."""
