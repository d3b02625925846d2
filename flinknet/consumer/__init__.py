"""Consumer: a channel's buffers and credit, local and remote input channels, and their gates."""
