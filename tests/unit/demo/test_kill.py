"""The checkpoint from which a job continues; `integration/test_demo.py` kills a worker of a real
one."""

from __future__ import annotations

from pathlib import Path

import pytest

from flinknet.checkpoint.fenced_store import FencedStore
from flinknet.checkpoint.file_storage import FileStorage
from flinknet.checkpoint.store import CheckpointStore
from flinknet.config import CheckpointingConfig
from flinknet.demo.kill import last_of_first_attempt
from flinknet.errors import JobFailedError
from tests.unit.checkpoint.checkpoints import made

CONFIG = CheckpointingConfig()


async def test_the_next_attempt_goes_on_from_the_last_one_of_the_first(tmp_path: Path) -> None:
    store = CheckpointStore(FileStorage(tmp_path, CONFIG), "job-1", CONFIG)
    with pytest.raises(JobFailedError, match="no longer kept"):
        await last_of_first_attempt(store)
    for attempt, numbers in ((0, (1, 2)), (1, (3,))):
        claimed = await FencedStore.claim(store, attempt)
        for number in numbers:
            await made(claimed, number)
    assert str(await last_of_first_attempt(store)) == "checkpoint-2-attempt-0"
