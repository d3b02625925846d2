"""The workers that a coordinator knows, and its connections to them."""
