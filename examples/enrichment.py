"""Who placed each order, if the service that knows the customers is slow and not always there?

Each order asks the service for its customer, with up to 20 requests at a time. The service refuses
the first request for some customers: a retry follows. For one customer it never answers: after a
second the order goes on without a name. Results keep the order of the orders.

Shows: AsyncDataStream, capacity, time-out, retries.
Run: flinknet run examples/enrichment.py
"""

from __future__ import annotations

import asyncio
from functools import partial

from flinknet.datastream import (
    AsyncDataStream,
    AsyncFunction,
    AsyncRetryStrategy,
    RuntimeContext,
    StreamExecutionEnvironment,
    Time,
    exception_type_predicate,
)

ORDERS = [(number, number % 8) for number in range(40)]  # order, customer
NAMES = dict(enumerate(["Ann", "Bob", "Cid", "Dee", "Eve", "Fay", "Gus", "Hal"]))
BUSY, SILENT = {2, 5}, 7


class CustomerService:
    """Stand in for a client of a remote service."""

    def __init__(self) -> None:
        self._refused: set[int] = set()

    async def name_of(self, customer: int) -> str:
        await asyncio.sleep(0.01)
        if customer == SILENT:
            await asyncio.Event().wait()
        if customer in BUSY and customer not in self._refused:
            self._refused.add(customer)
            raise ConnectionError("the service is busy")
        return NAMES[customer]


class Enrich(AsyncFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.service = CustomerService()

    async def async_invoke(self, value: tuple[int, int]) -> list[tuple[int, str]]:
        order, customer = value
        return [(order, await self.service.name_of(customer))]

    def timeout(self, value: tuple[int, int]) -> list[tuple[int, str]]:
        order, customer = value
        return [(order, f"customer {customer}")]


if __name__ == "__main__":
    env = StreamExecutionEnvironment.get_execution_environment()
    retries = AsyncRetryStrategy.exponential_backoff(
        max_attempts=3,
        initial_delay=20,
        max_retry_delay=200,
        multiplier=2,
        result_predicate=None,
        exception_predicate=partial(exception_type_predicate, expected_error_type=ConnectionError),
    )
    enriched = AsyncDataStream.ordered_wait_with_retry(
        env.from_collection(ORDERS), Enrich(), Time.seconds(1), retries, capacity=20
    )
    enriched.map(lambda order: f"order {order[0]}: {order[1]}").print()
    env.execute("enrichment")
