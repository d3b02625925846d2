from __future__ import annotations

import pytest

from flinknet.buffer.network_pool import NetworkBufferPool
from flinknet.errors import ConfigurationError
from flinknet.partition.exchange_mode import ExchangeMode
from flinknet.partition.pipelined_subpartition import PipelinedSubpartition
from flinknet.partition.result_partition import ResultPartition
from tests.unit.arrangements import make_config


def test_only_a_pipelined_consumer_runs_beside_its_producer() -> None:
    assert [mode for mode in ExchangeMode if mode.is_pipelined] == [ExchangeMode.PIPELINED_BOUNDED]


def test_the_mode_says_what_kind_the_subpartitions_are() -> None:
    """D16: each exchange mode builds its class of subpartition."""
    factory = ExchangeMode.PIPELINED_BOUNDED.subpartition_factory()
    partition = ResultPartition("p", 2, NetworkBufferPool(8, 64), make_config(), factory)
    assert [type(part) for part in partition.subpartitions] == [PipelinedSubpartition] * 2
    partition.release()


def test_a_mode_that_nothing_implements_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="cannot be BLOCKING: choose PIPELINED_BOUNDED"):
        ExchangeMode.BLOCKING.subpartition_factory()
