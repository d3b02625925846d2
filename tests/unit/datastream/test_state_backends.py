"""A job's state backend, by PyFlink's names."""

from __future__ import annotations

from typing import Any

import pytest

from flinknet.datastream import (
    EmbeddedRocksDBStateBackend,
    HashMapStateBackend,
    StreamExecutionEnvironment,
)
from flinknet.errors import ConfigurationError
from flinknet.graph.graph import JobGraph


def graph_of(environment: StreamExecutionEnvironment) -> JobGraph:
    environment.from_collection([1]).sink_to(print)
    return JobGraph.from_bytes(environment.job_graph().to_bytes())


def test_a_job_says_which_backend_it_wants_or_leaves_it_to_the_workers() -> None:
    environment = StreamExecutionEnvironment()
    assert environment.get_state_backend() is None
    assert graph_of(environment).state_backend is None
    named = {"hashmap": HashMapStateBackend(), "rocksdb": EmbeddedRocksDBStateBackend()}
    for name, backend in named.items():
        assert environment.set_state_backend(backend) is environment
        assert environment.get_state_backend() is backend
        assert graph_of(environment).state_backend == name


@pytest.mark.parametrize("backend", ["rocksdb", None, HashMapStateBackend])
def test_anything_else_is_refused(backend: Any) -> None:
    with pytest.raises(ConfigurationError, match="choose a HashMapStateBackend or an Embedded"):
        StreamExecutionEnvironment().set_state_backend(backend)


def test_an_unsupported_option_is_refused() -> None:
    EmbeddedRocksDBStateBackend(False)
    with pytest.raises(ConfigurationError, match="incremental checkpoints are not supported"):
        EmbeddedRocksDBStateBackend(enable_incremental_checkpointing=True)
