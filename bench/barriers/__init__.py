"""The family ``barriers``: how long a checkpoint takes while the job is backpressured for good."""
