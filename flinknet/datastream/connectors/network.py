"""A source for the output of embedded producers, and a sink for embedded readers.

Each subtask has a network environment of its own beside its worker's, because it takes part in a
different exchange: under the name of the other program's job, with its secret, and with separate
memory (``CONNECTOR_MEMORY_BYTES``). Subtask k of a source reads subpartition k of a partition. Each
subtask of a sink produces a partition, all under one name. The exchange's flow control provides
backpressure: a slow job holds back the producer, and a slow reader holds back the job.

A stream arrives complete and in order, or both sides get an error: the program when the job fails,
and the job when the program fails. The stream cannot be sent again, so no checkpoint can resume
from it, and a job with checkpoints is rejected. A job that restarts without checkpoints finds the
producer's stream consumed, and fails unless the producer's program writes it again.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from flinknet.config import NetworkConfig
from flinknet.errors import ConfigurationError, JobFailedError
from flinknet.functions.context import RuntimeContext
from flinknet.net.address import is_coordinator, with_token
from flinknet.net.network_environment import NetworkEnvironment
from flinknet.operators.sink import Sink
from flinknet.operators.source import Source
from flinknet.records.partitioner import Partitioner
from flinknet.records.serialization.record_types import Registered
from flinknet.records.writer import RecordWriter

__all__ = ["NetworkSink", "NetworkSource"]

CONNECTOR_MEMORY_BYTES = 16 << 20
"""Network memory of one subtask: some hundred buffers, enough for one partition."""


@dataclass(frozen=True)
class Exchange:
    """The exchange that a connector takes part in: the arguments of its NetworkEnvironment."""

    job: str
    secret: bytes | str | None = field(repr=False)
    directory: str | Path | None = field(repr=False)
    config: NetworkConfig | None

    @classmethod
    def of(
        cls,
        job: str,
        secret: bytes | str | None,
        directory: str | os.PathLike[str] | None,
        config: NetworkConfig | None,
    ) -> Exchange:
        """Return an exchange for a program's arguments.

        A directory is resolved relative to this program, and a coordinator's address is completed
        with the token that this program knows.
        """
        place: str | Path | None = None
        if directory is not None:
            is_path = not is_coordinator(directory)
            place = Path(directory).absolute() if is_path else with_token(os.fspath(directory))
        return cls(job, secret, place, config)

    def environment(self, port: int = 0) -> NetworkEnvironment:
        """Return a network environment that takes part in the exchange."""
        return NetworkEnvironment(
            port=port,
            job=self.job,
            secret=self.secret,
            directory=self.directory,
            config=self.config or NetworkConfig(network_memory_bytes=CONNECTOR_MEMORY_BYTES),
        )


class NetworkSource(Source):
    """The records of the partitions called ``name`` that embedded producers write.

    ``addresses`` gives the producers' addresses (``"127.0.0.1:7001"``, or several). Without it, the
    source looks them up in ``directory`` and waits for ``producers`` workers. The source has one
    subtask for each of the partitions' ``subpartitions``. ``job``, ``secret`` and ``config`` are
    the arguments of the producer's ``NetworkEnvironment``, and ``types`` is the argument of its
    writer. The source ends when all producers have ended.
    """

    is_bounded = False
    keeps_no_records = True

    def __init__(
        self,
        name: str,
        *,
        addresses: str | Sequence[str] | None = None,
        directory: str | os.PathLike[str] | None = None,
        producers: int = 1,
        subpartitions: int = 1,
        job: str = "embedded",
        secret: bytes | str | None = None,
        types: Registered = None,
        config: NetworkConfig | None = None,
    ) -> None:
        if (addresses is None) == (directory is None):
            raise ConfigurationError(
                f'a source of "{name}" needs either the addresses of its producers or the '
                "directory that knows them"
            )
        self.parallelism = subpartitions
        self._name = name
        self._addresses = addresses
        self._producers = producers
        self._types = types
        self._exchange = Exchange.of(job, secret, directory, config)

    async def batches(self, context: RuntimeContext) -> AsyncIterator[list[Any]]:
        if context.parallelism != self.parallelism:
            raise ConfigurationError(
                f'"{self._name}" has {self.parallelism} subpartitions, and {context.parallelism} '
                "subtasks to read them: do not set the source's parallelism, or give both sides "
                "the same number of subpartitions"
            )
        place = self._name if self._addresses is None else self._addresses
        name = None if self._addresses is None else self._name
        async with AsyncExitStack() as stack:
            environment = await stack.enter_async_context(self._exchange.environment())
            with context.idle():
                reader = await stack.enter_async_context(
                    environment.open_reader(
                        place,
                        name,
                        subpartition=context.index,
                        producers=self._producers,
                        types=self._types,
                    )
                )
            while True:
                with context.idle():
                    batch = await reader.next_batch()
                if batch is None:
                    return
                yield list(batch)


class NetworkSink(Sink):
    """Writes partitions called ``name`` for embedded readers; one per subtask.

    A reader finds them through the directory, with ``open_reader(name, producers=PARALLELISM)``, or
    at ``port``, ``port + 1`` and so on, by subtask. ``subpartitions``, ``partitioner`` and
    ``types`` are arguments of ``open_writer``; ``job``, ``secret`` and ``config`` are arguments of
    ``NetworkEnvironment``. The job ends when the readers have processed everything.
    """

    takes_whole_batches = False

    def __init__(
        self,
        name: str,
        *,
        port: int | None = None,
        directory: str | os.PathLike[str] | None = None,
        subpartitions: int = 1,
        partitioner: Partitioner | None = None,
        job: str = "embedded",
        secret: bytes | str | None = None,
        types: Registered = None,
        config: NetworkConfig | None = None,
    ) -> None:
        if (port is None) == (directory is None):
            raise ConfigurationError(
                f'a sink of "{name}" needs a port or a directory, so that readers find it'
            )
        self._name = name
        self._port = port
        self._subpartitions = subpartitions
        self._partitioner = partitioner
        self._types = types
        self._exchange = Exchange.of(job, secret, directory, config)
        self._environment: NetworkEnvironment | None = None
        self._opened = AsyncExitStack()
        self._writer: RecordWriter

    async def open(self, runtime_context: RuntimeContext) -> None:
        if runtime_context.checkpointed:
            raise ConfigurationError(
                f'sink "{runtime_context.operator_name}" does not know which records its readers '
                "have processed, so a job could not continue from a checkpoint: run the job "
                "without checkpoints"
            )
        port = 0 if self._port is None else self._port + runtime_context.index
        environment = self._exchange.environment(port)
        self._environment = await environment.__aenter__()
        self._writer = await self._opened.enter_async_context(
            environment.open_writer(
                self._name,
                subpartitions=self._subpartitions,
                partitioner=self._partitioner,
                types=self._types,
            )
        )

    async def write(self, records: list[Any]) -> None:
        await self._writer.emit_many(records)

    async def finish(self) -> None:
        await self._opened.aclose()

    async def close(self) -> None:
        environment, self._environment = self._environment, None
        if environment is None:
            return
        try:
            # If the writer is still open, its readers have not received everything.
            error = JobFailedError(f'the job that writes "{self._name}" has ended before its input')
            await self._opened.__aexit__(type(error), error, None)
        finally:
            await environment.__aexit__(None, None, None)
