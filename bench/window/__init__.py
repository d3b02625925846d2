"""The family ``window``: what a credit window carries over a link with a delay."""
