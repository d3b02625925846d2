"""Checks that a Spark session can run the cluster, before any process is started."""

from __future__ import annotations

from contextlib import suppress
from urllib.parse import urlsplit

from flinknet import machine
from flinknet.cluster.control.event_loop import loop_factory
from flinknet.cluster.launch.spark.session import is_local
from flinknet.cluster.launch.spark.stage import Spark
from flinknet.config import FlinknetConfig, SparkConfig
from flinknet.errors import ConfigurationError, InsufficientSlotsError
from flinknet.net.address import is_loopback
from flinknet.net.tls import tls_of
from flinknet.texts import counted

__all__ = ["bound_host", "check_spark", "too_few_slots", "unprotected", "wait_for_slots"]

_DYNAMIC = "spark.dynamicAllocation.enabled"


def check_spark(spark: Spark, config: FlinknetConfig) -> None:
    """Raise ConfigurationError if the session cannot run the cluster.

    Waits for executors that have not registered yet.
    """
    if spark.is_gone():
        raise ConfigurationError(
            "the Spark session is stopped: give flinknet.spark.use() one that runs"
        )
    loop_factory(config.cluster)
    tls_of(config.cluster.tls)
    if spark.setting(_DYNAMIC, "false").lower() == "true":
        raise ConfigurationError(
            f"Spark runs no barrier stage with dynamic allocation (SPARK-24942), and workers are "
            f"the tasks of one: start the session with {_DYNAMIC}=false and a fixed number of "
            "executors (spark.executor.instances)"
        )
    slots = wait_for_slots(spark, config.spark, config.cluster.workers)
    if slots < config.cluster.workers:
        raise InsufficientSlotsError(too_few_slots(spark, config, slots))


def wait_for_slots(spark: Spark, config: SparkConfig, wanted: int) -> int:
    """Return the number of slots once there are enough, or after the configured time."""
    deadline = machine.monotonic() + config.slots_timeout_ms / 1000
    while (slots := spark.slots()) < wanted and machine.monotonic() < deadline:
        machine.sleep(config.slots_look_ms / 1000)
    return slots


def too_few_slots(spark: Spark, config: FlinknetConfig, slots: int) -> str:
    """Return the message about too few slots, with advice."""
    wanted, master = config.cluster.workers, spark.master()
    if master.startswith("local-cluster"):
        more = f'the master "local-cluster[{wanted},1,1024]"'
    elif is_local(master):
        more = f'the master "local[{wanted}]"'
    else:
        more = "more executors or cores (spark.executor.instances, spark.executor.cores)"
    return (
        f"the cluster has {counted(wanted, 'worker')}, each in a task of Spark, but Spark "
        f"({master}) runs {counted(slots, 'task')} at once: use --workers {max(slots, 1)} "
        f"(cluster.workers), or start the session with {more}"
    )


def bound_host(spark: Spark, config: FlinknetConfig) -> str:
    """Return the address of this machine that executors reach: loopback if they run here."""
    host, master = config.cluster.host, spark.master()
    if not is_loopback(host) or is_local(master):
        return host
    if spark.is_connect:
        with suppress(OSError):  # Spark will report this
            found = machine.address_towards(spark.session.client.host, 1)
            return host if is_loopback(found) else found
        return host
    if is_loopback(urlsplit(master).hostname or ""):
        return host
    return spark.setting("spark.driver.host", host).strip("[]")


def unprotected(spark: Spark) -> str:
    """Return a warning if Spark transfers the cluster token unencrypted, else an empty string."""
    wanted = ("spark.authenticate", "spark.network.crypto.enabled")
    off = [name for name in wanted if spark.setting(name, "false").lower() != "true"]
    if not off:
        return ""
    return (
        f"Spark carries the cluster's token to its executors in tasks that others on the network "
        f"can read: start the session with {' and '.join(f'{name}=true' for name in off)}"
    )
