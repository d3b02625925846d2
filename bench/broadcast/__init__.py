"""The family ``broadcast``: what each further channel of a broadcast costs."""
