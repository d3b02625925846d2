"""The messages of the sink of ``execute_and_collect``, as a subtask runs it."""

from __future__ import annotations

import asyncio
import io
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

import pytest

from flinknet.datastream.program_sink import ProgramSink
from flinknet.errors import JobFailedError
from flinknet.graph.record_frames import read_frame
from flinknet.state.checkpointed_function import FunctionSnapshotContext
from tests.unit.operators.harness import context


class Program:
    """The other end of the socket: it reads messages, and answers when the test says so."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)
        self._came: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._writer: asyncio.Future[asyncio.StreamWriter] = (
            asyncio.get_running_loop().create_future()
        )

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_unix_server(self._serve, self.path)
        return self

    async def __aexit__(self, *ignored: object) -> None:
        self._server.close()
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writer.set_result(writer)
        with suppress(ConnectionError):
            self._came.set_result(await reader.read())
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()

    async def answer(self) -> None:
        (await self._writer).write(b"\0")

    async def hang_up(self) -> None:
        (await self._writer).close()

    async def messages(self) -> list[tuple[Any, ...]]:
        """Return all messages, once the sink has hung up."""
        file = io.BytesIO(await self._came)
        return list(iter(lambda: read_frame(file), None))


async def test_frames_that_a_subtask_sends(tmp_path: Path) -> None:
    async with Program(tmp_path / "socket") as program:
        sink = ProgramSink(program.path)
        await sink.open(context(index=1, attempt=4, checkpointed=True, collect_records_max=3))
        await sink.write([1, 2])
        sink.snapshot_state(FunctionSnapshotContext(7, 0))
        await sink.write([3])
        await sink.notify_checkpoint_complete(7)
        await program.answer()
        await program.answer()
        await sink.finish()
        sink.snapshot_state(FunctionSnapshotContext(8, 0))
        await program.answer()
        await sink.confirm()
        await sink.notify_checkpoint_complete(8)
        await sink.close()
        assert await program.messages() == [
            ("open", 1, 4, None, True),
            ("records", [1, 2]),
            ("mark", 7),
            ("records", [3]),
            ("complete", 7),
            ("end",),
            ("mark", 8),
            ("complete", 8),
        ]


async def test_a_mark_is_confirmed_when_the_program_has_answered_it(tmp_path: Path) -> None:
    """This holds even if the checkpoint before it was aborted while its answer was awaited."""
    async with Program(tmp_path / "socket") as program:
        sink = ProgramSink(program.path)
        await sink.open(context(checkpointed=True))
        sink.snapshot_state(FunctionSnapshotContext(1, 0))
        aborted = asyncio.create_task(sink.confirm())
        sink.snapshot_state(FunctionSnapshotContext(2, 0))
        second = asyncio.create_task(sink.confirm())
        await asyncio.sleep(0)
        aborted.cancel()
        await program.answer()
        await asyncio.wait([aborted])
        assert not second.done()
        await program.answer()
        await second
        await sink.close()


async def test_a_sink_that_ends_leaves_no_checkpoint_unconfirmed(tmp_path: Path) -> None:
    """Another checkpoint may follow the one with which its subtask ends, and it must not fail."""
    async with Program(tmp_path / "socket") as program:
        sink = ProgramSink(program.path)
        await sink.open(context(checkpointed=True))
        await program.answer()
        await sink.finish()
        await sink.notify_checkpoint_complete(1)
        sink.snapshot_state(FunctionSnapshotContext(2, 0))
        waiting, closing = (asyncio.create_task(one) for one in (sink.confirm(), sink.close()))
        await asyncio.sleep(0)
        await program.answer()
        await asyncio.gather(waiting, closing)
        await sink.confirm()


async def test_a_sink_that_fails_gives_up_what_is_not_confirmed(tmp_path: Path) -> None:
    """A declined checkpoint would hide the reason of the failure."""
    async with Program(tmp_path / "socket") as program:
        sink = ProgramSink(program.path)
        await sink.open(context(checkpointed=True))
        sink.snapshot_state(FunctionSnapshotContext(1, 0))
        waiting = asyncio.create_task(sink.confirm())
        await asyncio.sleep(0)
        await sink.close()
        await asyncio.wait([waiting])
        assert waiting.cancelled()


async def test_a_program_that_is_gone_fails_the_sink(tmp_path: Path) -> None:
    """This holds on every loop: writes into a closed connection must not be lost silently."""
    async with Program(tmp_path / "socket") as program:
        sink = ProgramSink(program.path)
        await sink.open(context(checkpointed=True))
        sink.snapshot_state(FunctionSnapshotContext(1, 0))
        await program.hang_up()
        with pytest.raises(JobFailedError, match="the program has closed"):
            await sink.confirm()
        await sink.close()
        with pytest.raises(JobFailedError, match="the program has closed"):
            await sink.notify_checkpoint_complete(1)


async def test_records_between_two_checkpoints_are_bounded(tmp_path: Path) -> None:
    """The program would have to hold them; without checkpoints it gets them at once."""
    for checkpointed in (True, False):
        async with Program(tmp_path / f"socket-{checkpointed}") as program:
            sink = ProgramSink(program.path)
            await sink.open(context(checkpointed=checkpointed, collect_records_max=3))
            await sink.write([1, 2])
            if checkpointed:
                with pytest.raises(JobFailedError, match="take checkpoints more often"):
                    await sink.write([3, 4])
            else:
                await sink.write([3, 4])
            await program.answer()
            await sink.finish()
            await sink.close()
            assert len(await program.messages()) == (3 if checkpointed else 4)


async def test_closing_what_was_never_opened_does_nothing() -> None:
    await ProgramSink("nowhere").close()
