"""Multiplexing: all channels between two workers over one byte stream, in both directions."""
