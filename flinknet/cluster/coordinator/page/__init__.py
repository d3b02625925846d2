"""The coordinator's web page: its files, and the JSON for them."""
