"""Refusals before a stage is launched, with numbers, and the address of the coordinator.

The sessions here are not Spark's. They give the answers of a real one.
"""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from flinknet.cluster.launch.spark.preflight import bound_host, check_spark, unprotected
from flinknet.cluster.launch.spark.stage import Spark
from flinknet.config import ClusterConfig, FlinknetConfig, SparkConfig
from flinknet.errors import ConfigurationError, InsufficientSlotsError

CONFIG = FlinknetConfig(
    cluster=ClusterConfig(workers=3), spark=SparkConfig(slots_timeout_ms=1.0, slots_look_ms=1.0)
)


class Session:
    """A stand-in for a PySpark session, with the needed answers."""

    def __init__(self, master: str, slots: int, /, **settings: str) -> None:
        self.conf = SimpleNamespace(
            get=lambda name, default: settings.get(name.replace(".", "_"), default)
        )
        context: Any = SimpleNamespace(
            isStopped=lambda: slots == 0,
            maxNumConcurrentTasks=lambda profile: slots,
            resourceProfileManager=lambda: SimpleNamespace(defaultResourceProfile=lambda: None),
        )
        self.sparkContext = SimpleNamespace(master=master, _jsc=SimpleNamespace(sc=lambda: context))


def spark(master: str, slots: int = 2, /, **settings: str) -> Spark:
    return Spark(Session(master, slots, **settings))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("master", "remedy"),
    [
        ("local[2]", r'the master "local\[3\]"'),
        ("local-cluster[2,1,1024]", r'the master "local-cluster\[3,1,1024\]"'),
        ("spark://there:7077", r"spark.executor.instances"),
    ],
)
def test_too_few_slots_are_refused_with_both_numbers(master: str, remedy: str) -> None:
    with pytest.raises(InsufficientSlotsError, match=rf"3 workers.* 2 tasks.*workers 2.*{remedy}"):
        check_spark(spark(master), CONFIG)
    check_spark(spark(master, 3), CONFIG)


def test_dynamic_allocation_is_refused_with_the_setting() -> None:
    session = spark("yarn", 3, spark_dynamicAllocation_enabled="true")
    with pytest.raises(ConfigurationError, match=r"SPARK-24942.*dynamicAllocation.enabled=false"):
        check_spark(session, CONFIG)


def test_a_session_that_is_stopped_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"is stopped: .*flinknet.spark.use"):
        check_spark(spark("local[2]", 0), CONFIG)


def test_the_coordinator_listens_where_executors_reach_it() -> None:
    other = replace(CONFIG, cluster=ClusterConfig(host="192.0.2.7"))
    driver = {"spark_driver_host": "192.0.2.9"}
    assert bound_host(spark("local-cluster[2,1,1024]", **driver), CONFIG) == "127.0.0.1"
    assert bound_host(spark("spark://there:7077", **driver), CONFIG) == "192.0.2.9"
    assert bound_host(spark("spark://there:7077", **driver), other) == "192.0.2.7"
    assert bound_host(spark("spark://127.0.0.1:7077", **driver), CONFIG) == "127.0.0.1"
    assert bound_host(spark("yarn", spark_driver_host="127.0.0.1"), CONFIG) == "127.0.0.1"
    assert bound_host(spark("yarn", spark_driver_host="[2001:db8::9]"), CONFIG) == "2001:db8::9"


def test_a_token_that_travels_in_clear_is_warned_of() -> None:
    on = {"spark_authenticate": "true", "spark_network_crypto_enabled": "true"}
    assert unprotected(spark("yarn", **on)) == ""
    del on["spark_authenticate"]
    warning = unprotected(spark("yarn", **on))
    assert "spark.authenticate=true" in warning
    assert "crypto" not in warning
