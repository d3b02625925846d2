"""``dict``: an order of a web shop, keyed by customer; eight fields, about 130 bytes as msgpack."""

from __future__ import annotations

from operator import itemgetter
from random import Random

from bench.harness.case import Block, Case

__all__ = ["CASE"]

RECORDS = 2048
CUSTOMERS = 10_000
CURRENCIES = ("EUR", "USD", "GBP", "JPY")
FIRST_TIME_MS = 1_767_225_600_000


def make_block() -> Block:
    """Draw orders."""
    random = Random(3)
    return [
        {
            "order_id": random.getrandbits(40),
            "customer": f"customer-{random.randrange(CUSTOMERS):05}",
            "product": f"{random.randbytes(4).hex()}-{random.randbytes(2).hex()}",
            "quantity": random.randint(1, 12),
            "price": round(random.uniform(1.0, 500.0), 2),
            "currency": random.choice(CURRENCIES),
            "express": random.random() < 0.2,
            "time_ms": FIRST_TIME_MS + number,
        }
        for number in range(RECORDS)
    ]


CASE = Case(
    name="dict",
    summary="an order with eight fields, keyed by customer",
    make_block=make_block,
    weigh=itemgetter("order_id"),
    key=itemgetter("customer"),
)
