"""The family ``micro``: what a record and a buffer cost on each part of their way."""
