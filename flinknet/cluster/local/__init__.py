"""A cluster on this machine: its processes, and the program that uses it."""
