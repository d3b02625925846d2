"""The routes of a coordinator's HTTP server."""
