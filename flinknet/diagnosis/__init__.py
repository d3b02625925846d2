"""Who holds a job up: a judgement of what its workers have reported, without I/O."""
