"""The routes of the coordinator's HTTP server."""
