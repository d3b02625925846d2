"""The family ``credit-cost``: the cost of credit flow control on a healthy link."""
