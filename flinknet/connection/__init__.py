"""Multiplexing: all channels between two workers over one stream of bytes, both directions."""
