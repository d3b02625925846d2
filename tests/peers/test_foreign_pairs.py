"""Two peers written from the specification understand each other, without flinknet."""

from __future__ import annotations

from typing import Any

import pytest

from tests.peers.programs import Language, consumer, producer
from tests.peers.rows import FORMS, LONG_FORMS

PAIRS: list[tuple[Language, Language]] = [("python", "node"), ("node", "python")]


@pytest.mark.parametrize(("writing", "reading"), PAIRS)
@pytest.mark.parametrize("credit", [0, 1, 3])
async def test_foreign_peers_exchange_everything(
    writing: Language, reading: Language, credit: int
) -> None:
    parts = [FORMS, [], LONG_FORMS, list(range(500))]
    options: dict[str, Any] = {"secret": "π", "checksums": credit % 2}
    async with producer(writing, {"p": parts}, buffer_bytes=100, **options) as (peer, address):
        async with consumer(
            reading, address, "p", 0, 1, 2, 3, credit=credit, worker_id="reading", **options
        ) as foreigner:
            found = {0: FORMS, 2: LONG_FORMS, 3: list(range(500))}
            assert await foreigner.records() == (found, "complete")
        assert await peer.end() == "complete"
