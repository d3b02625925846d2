"""What it costs to be scraped."""
