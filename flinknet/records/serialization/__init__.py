"""Records as bytes, and back: packers, unpackers, and the records that span buffers."""
