"""A record is the same in a chain of operators and behind a network exchange, in a job."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from flinknet.cluster import run_job
from flinknet.config import FlinknetConfig, NetworkConfig
from flinknet.datastream import CollectSink, StreamExecutionEnvironment
from flinknet.errors import ConfigurationError, JobFailedError
from tests.unit.records.serialization.record_values import TYPES, VALUES, Reading, arrives, same

CONFIG = FlinknetConfig(network=NetworkConfig(network_memory_bytes=8 << 20, segment_bytes=4096))


class Order(msgspec.Struct, frozen=True):
    number: int


def test_every_value_is_the_same_in_a_chain_and_behind_an_exchange() -> None:
    """Each value passes a chain, exchanges to another process and back, and a broadcast."""
    values = [*VALUES, Order(5)]
    environment = StreamExecutionEnvironment().set_parallelism(2)
    assert environment.register_type(*TYPES, Order) is environment
    numbered = environment.from_collection(list(enumerate(values))).map(lambda pair: pair)
    numbered.sink_to(CollectSink()).name("chained")
    numbered.rebalance().map(lambda pair: pair).key_by(lambda pair: pair[0]).map(
        lambda pair: pair
    ).sink_to(CollectSink()).name("exchanged")
    numbered.broadcast().map(lambda pair: pair).sink_to(CollectSink()).name("to all")
    collected = run_job(environment.job_graph("types"), CONFIG).collected
    for number, value in enumerate(values):
        for name, times in (("chained", 1), ("exchanged", 1), ("to all", 2)):
            came = [each for at, each in collected[name] if at == number]
            assert len(came) == times
            for each in came:
                assert same(each, arrives(value))


def test_a_class_that_is_not_registered_is_refused_with_its_operator() -> None:
    def make(number: int) -> Any:
        return Reading("a", number)

    environment = StreamExecutionEnvironment()
    made = environment.from_collection([1]).map(make).name("make readings")
    made.rebalance().map(lambda reading: reading.value).set_parallelism(2).print()
    with pytest.raises(
        JobFailedError,
        match=r'operator "make readings" emitted a record that cannot be sent: a record of type '
        r"Reading cannot be serialised: Reading is a dataclass that is not registered: "
        r"register it with env\.register_type\(Reading\)",
    ):
        run_job(environment.job_graph("unregistered"), CONFIG)


def test_an_invalid_type_is_refused_where_it_is_registered() -> None:
    environment = StreamExecutionEnvironment().register_type(Reading)
    with pytest.raises(ConfigurationError, match="int cannot be registered"):
        environment.register_type(int)
    environment.register_type(Reading)
    environment.from_collection([1]).print()
    assert environment.job_graph("registered").types == (Reading,)
