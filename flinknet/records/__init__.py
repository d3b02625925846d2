"""What a task sees of the exchange: record writer, record reader, partitioners, key groups."""
