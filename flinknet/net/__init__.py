"""The asyncio shell around the exchange's core, which has no event loop, socket or clock."""
