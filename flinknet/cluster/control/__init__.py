"""The control plane: what coordinator, workers and clients say to each other."""
