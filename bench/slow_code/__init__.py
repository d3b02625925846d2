"""The family ``slow-code``: the cost of slow user code for other code in the same worker."""
