"""The exchange as a task sees it: record writer, record reader, partitioners and key groups."""
