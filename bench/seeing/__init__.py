"""What it costs to look at a job."""
