"""Consumer: the buffers a channel owns, local and remote input channels, and the gate over them."""
