"""The shell around the core: the only package that touches sockets and clocks."""
