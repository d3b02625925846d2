"""Memory: segments, buffers, builders, pools, and the view that joins producer and consumer."""
