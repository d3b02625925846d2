"""Producer: result partitions, their subpartitions, and the registry where consumers find them."""
