"""Producer: result partitions, their subpartitions, and the registry for consumers."""
