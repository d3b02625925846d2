"""The asyncio shell around the core: the only package that uses sockets and clocks."""
