"""A load that is too much, and how the news of it travels."""
