"""The family ``barriers``: the duration of a checkpoint under permanent backpressure."""
