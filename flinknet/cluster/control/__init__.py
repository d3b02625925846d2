"""The control plane: communication between coordinator, workers and clients."""
