"""The family ``credit-cost``: what credit flow control costs on a healthy link."""
