"""Network memory: segments, buffers, builders, pools, and the view of a subpartition."""
