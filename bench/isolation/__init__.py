"""The family ``isolation``: what a consumer that stops does to the others on its connection."""
