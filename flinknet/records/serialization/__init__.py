"""Serialisation of records: packers, unpackers, and records that span buffers."""
