"""The exchange without an event loop: from threads, and errors of wrong use."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain, islice, pairwise
from pathlib import Path
from typing import Any

import pytest

from flinknet import HashPartitioner, sync
from flinknet.config import NetworkConfig
from flinknet.errors import (
    FlinknetError,
    LocalProtocolError,
    PartitionRequestTimeoutError,
    ProducerFailedError,
    SerializationError,
)
from flinknet.sync import RECORDS_AT_ONCE

Start = Callable[..., Any]

LOOK_S = 0.01
"""The pause between two looks at the threads, which need the interpreter."""


def no_thread_is_left() -> bool:
    return all(thread.name != "flinknet.sync" for thread in threading.enumerate())


def read(directory: Path, name: str, subpartition: int = 0) -> list[Any]:
    with sync.open_reader(name, directory=directory, subpartition=subpartition) as reader:
        return list(reader)


@pytest.mark.parametrize("number", [0, 3, 700, RECORDS_AT_ONCE + 3])
def test_records_of_an_iterable_before_its_error_are_written(tmp_path: Path, number: int) -> None:
    """The asynchronous writer writes the same records, each as it was when it was emitted."""

    def failing() -> Iterator[dict[str, int]]:
        row = {"number": -1}
        for row["number"] in range(number):
            yield row
        raise OSError("no more")

    with ThreadPoolExecutor() as pool:
        reader = pool.submit(read, tmp_path, "numbers", 0)
        with (
            sync.open_writer("numbers", directory=tmp_path) as writer,
            pytest.raises(OSError, match="no more"),
        ):
            writer.emit_many(failing())
        assert reader.result() == [{"number": one} for one in range(number)]


def test_several_threads_read_what_one_writes(tmp_path: Path) -> None:
    with ThreadPoolExecutor() as pool:
        readers = [pool.submit(read, tmp_path, "numbers", index) for index in range(3)]
        with sync.open_writer(
            "numbers",
            directory=tmp_path,
            subpartitions=3,
            partitioner=HashPartitioner(key=lambda number: number % 30),
        ) as writer:
            writer.emit_many(number for number in range(5000))
            writer.emit(5000)
            writer.broadcast_emit(-1)
            writer.flush()
        lists = [reader.result() for reader in readers]
    assert sorted(number for some in lists for number in some) == [-1, -1, -1, *range(5001)]
    assert all(len(some) > 1 for some in lists)
    assert no_thread_is_left()


def test_several_threads_write_and_read_in_one_environment() -> None:
    """There are two writers, and one reader of both that two threads share."""
    with sync.NetworkEnvironment() as here, sync.NetworkEnvironment() as there:

        def write(environment: sync.NetworkEnvironment, first: int) -> None:
            with environment.open_writer("numbers") as writer, ThreadPoolExecutor() as pool:
                for half in (first, first + 500):
                    pool.submit(writer.emit_many, range(half, half + 500))

        with ThreadPoolExecutor() as pool:
            writing = [pool.submit(write, here, 0), pool.submit(write, there, 1000)]
            with here.open_reader([here.address, there.address], "numbers") as reader:
                some = [pool.submit(list, reader) for _ in range(2)]
                read = [number for one in some for number in one.result()]
            for one in writing:
                one.result()
        assert sorted(read) == list(range(2000))
        assert here.statistics().network_pool.free > 0
    assert no_thread_is_left()


def test_threads_that_share_a_reader_each_read_onwards() -> None:
    """Threads read record by record or by batches.

    No thread goes back, and each record comes to one of them. A thread that has fetched a batch
    must not be overtaken before it has stored the batch.
    """
    records, threads = 60_000, 4
    config = NetworkConfig(segment_bytes=256, network_memory_bytes=64 * 1024)
    switch = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)  # so that a thread may be held up anywhere
    try:
        with sync.NetworkEnvironment(config=config) as here:

            def write() -> None:
                with here.open_writer("numbers") as writer:
                    writer.emit_many(range(records))

            def take(number: int) -> list[int]:
                if number % 2:
                    return list(reader)
                taken: list[int] = []
                for batch in reader.batches():
                    taken += [*batch, *islice(reader, 3)]
                return taken

            with ThreadPoolExecutor(threads + 1) as pool:
                writing = pool.submit(write)
                with here.open_reader(here.address, "numbers") as reader:
                    lists = list(pool.map(take, range(threads)))
                writing.result()
    finally:
        sys.setswitchinterval(switch)
    assert all(before < after for some in lists for before, after in pairwise(some))
    assert sorted(chain(*lists)) == list(range(records))


def test_batches_are_lists(tmp_path: Path) -> None:
    def write() -> None:
        with sync.open_writer("numbers", directory=tmp_path) as writer:
            writer.emit_many(range(10_000))

    with ThreadPoolExecutor() as pool:
        writing = pool.submit(write)
        with sync.open_reader("numbers", directory=tmp_path) as reader:
            batches = list(reader.batches())
        writing.result()
    assert [number for batch in batches for number in batch] == list(range(10_000))
    assert len(batches) < 1000


@dataclass
class Reading:
    value: int


def test_a_record_may_be_changed_when_it_was_written(tmp_path: Path) -> None:
    def write() -> None:
        with sync.open_writer("readings", directory=tmp_path, types=[Reading]) as writer:
            reading = Reading(0)
            for reading.value in range(100):
                writer.emit(reading)

    with ThreadPoolExecutor() as pool:
        writing = pool.submit(write)
        with sync.open_reader("readings", directory=tmp_path, types=[Reading]) as reader:
            assert [reading.value for reading in reader] == list(range(100))
        writing.result()


def test_errors_are_raised_where_they_belong(tmp_path: Path) -> None:
    """The writer's error is the cause of the reader's.

    A record that cannot be sent is refused by the call.
    """
    was_read = threading.Event()

    def write() -> None:
        with sync.open_writer("numbers", directory=tmp_path) as writer:
            writer.emit(1)
            with pytest.raises(SerializationError):
                writer.emit(object())
            was_read.wait()
            raise ValueError("no more")

    with ThreadPoolExecutor() as pool:
        writing = pool.submit(write)
        with sync.open_reader("numbers", directory=tmp_path) as reader:
            assert next(reader) == 1
            was_read.set()
            with pytest.raises(ProducerFailedError, match="no more"):
                next(reader)
        with pytest.raises(ValueError, match="no more"):
            writing.result()
    assert no_thread_is_left()


def test_a_reader_without_writers_leaves_no_thread(tmp_path: Path) -> None:
    config = NetworkConfig(rendezvous_timeout_ms=1.0)
    with (
        pytest.raises(PartitionRequestTimeoutError),
        sync.open_reader("numbers", directory=tmp_path, config=config),
    ):
        pass
    assert no_thread_is_left()


def test_an_unopened_object_raises(tmp_path: Path) -> None:
    environment = sync.NetworkEnvironment(directory=tmp_path)
    with pytest.raises(LocalProtocolError, match="network environment is not open"):
        environment.statistics()
    with pytest.raises(LocalProtocolError, match="network environment is not open"):
        print(environment.address)
    with environment:
        writer, reader = environment.open_writer("numbers"), environment.open_reader("numbers")
        with pytest.raises(LocalProtocolError, match="writer is not open"):
            writer.emit(1)
        with pytest.raises(LocalProtocolError, match="reader is not open"):
            next(reader)
        with pytest.raises(LocalProtocolError, match="topic is not open"):
            environment.open_topic("ticks").emit(1)
    with pytest.raises(LocalProtocolError, match="entered only once"), environment:
        pass
    with pytest.raises(LocalProtocolError, match="network environment is not open"), writer:
        pass
    assert no_thread_is_left()


def test_readers_of_a_topic_join_while_it_is_written(tmp_path: Path) -> None:
    """One thread writes it, and others read it."""
    heard: list[list[int]] = []

    def read() -> None:
        with sync.open_reader("ticks", directory=tmp_path) as reader:
            heard.append(list(reader))

    with ThreadPoolExecutor() as pool:
        with sync.open_topic("ticks", directory=tmp_path, slow_readers="wait") as topic:
            topic.emit_many([1, 2])
            reading = [pool.submit(read) for _ in range(2)]
            while topic.statistics().readers < len(reading):
                time.sleep(LOOK_S)
            topic.emit(3)
            topic.emit_many(range(4, 3000))
        for one in reading:
            one.result()
    assert heard == [[3, *range(4, 3000)]] * 2
    assert no_thread_is_left()


@pytest.mark.parametrize("policy", ["drop_oldest", "latest", "disconnect"])
def test_a_slow_reader_of_a_topic_delays_no_other(policy: Any, tmp_path: Path) -> None:
    """It reads nothing until all is written, and its lost records are counted."""
    numbers, written = range(20_000), threading.Event()

    def read() -> list[int]:
        with sync.open_reader("ticks", directory=tmp_path) as reader:
            written.wait()
            return list(reader)

    with (
        ThreadPoolExecutor() as pool,
        sync.open_topic(
            "ticks", directory=tmp_path, slow_readers=policy, queue_records_max=10
        ) as topic,
    ):
        reading = pool.submit(read)
        while not topic.statistics().readers:
            time.sleep(LOOK_S)
        topic.emit_many(numbers)
        told = topic.statistics()
        written.set()
        if policy == "disconnect":
            assert (told.readers, told.disconnected_total) == (0, 1)
            with pytest.raises(FlinknetError, match="disconnects slow readers"):
                reading.result()
            return
        assert (told.readers, told.disconnected_total) == (1, 0)
    received = reading.result()
    assert received == sorted(set(received))
    assert received[-1] == numbers[-1]
    assert told.records_dropped_total == len(numbers) - len(received) > 0
