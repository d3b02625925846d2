"""Sources and sinks that read and write files."""
