"""A process that the launcher started: its output, its end, and how it is stopped.

Theory of operation
-------------------
STARTED -> EXITED, nothing else; ``wait`` returns the same status to everyone who asks. Each output
pipe is read at all times (a child must never block on a full pipe) in lines of bounded length; the
last one is kept to explain an early end. The pipes are this class's own, not asyncio's: a
grandchild that still holds them open must not keep ``wait`` from returning.

The child leads a session of its own, so that Ctrl-C in a terminal reaches the launcher alone, which
then stops its children in order. A child that runs user code is *kept*: another process stands
between it and the launcher, and ends as the child ends, when nothing is left that the child has
started (``keeper.py``). ``pid`` is the child's own. That all of them end with the launcher is the
half of ``parent_watch.py``.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
from asyncio.subprocess import Process
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from flinknet.cluster.control.bare_script import bare_script
from flinknet.cluster.control.process_group import kill_group
from flinknet.cluster.launch.local import keeper

__all__ = ["ChildProcess", "describe_exit"]

_LINE_BYTES_MAX = 64 * 1024
_DRAIN_SECONDS = 0.5
"""For the rest of an ended process's output. The coordinator hears of the end afterwards, and waits
for that for cluster.cause_grace_ms, which is 1 s by default."""

log = logging.getLogger("flinknet.launcher")

OnLine = Callable[[str], None]


def describe_exit(status: int) -> str:
    """``"killed by signal 9 (SIGKILL)"`` or ``"exited with status 3"``, from a return code."""
    if status >= 0:
        return f"exited with status {status}"
    try:
        name = signal.Signals(-status).name
    except ValueError:
        name = "unknown"
    return f"killed by signal {-status} ({name})"


class ChildProcess:
    """One child. Made by ``start``; ``stop`` must be awaited in the end."""

    def __init__(self, name: str, process: Process, pid: int) -> None:
        self.name = name
        self.pid = pid
        """Process id; still readable after the end."""
        self.last_line = ""
        """What it wrote last to its output, to explain an early end."""
        self._process = process
        """The child, or its keeper."""
        self._pumps: list[asyncio.Task[None]] = []

    @classmethod
    async def start(
        cls,
        name: str,
        arguments: Sequence[str],
        *,
        environment: Mapping[str, str],
        on_output: OnLine,
        on_printed: OnLine | None = None,
        is_kept: bool = False,
        descriptors: Sequence[int] = (),
    ) -> ChildProcess:
        """Start a process, which inherits ``descriptors`` unless it is kept.

        ``on_output`` gets the lines of its standard error and, unless ``on_printed`` is there to
        get them, of its standard output. ``is_kept`` says that all that it starts ends with it.
        """
        error_read, error_write = os.pipe()
        output_read, output_write = os.pipe() if on_printed else (-1, error_write)
        begin = _start_kept if is_kept else partial(_start, pass_fds=descriptors)
        try:
            process, pid = await _whole(
                begin(
                    arguments,
                    env=dict(environment),
                    stdin=asyncio.subprocess.PIPE,
                    stdout=output_write,
                    stderr=error_write,
                    start_new_session=True,
                )
            )
        except BaseException:
            for descriptor in {error_read, output_read} - {-1}:
                os.close(descriptor)
            raise
        finally:
            for descriptor in {error_write, output_write}:
                os.close(descriptor)
        child = cls(name, process, pid)

        def keep_and_pass_on(line: str) -> None:
            child.last_line = line
            child._pass_on(on_output, line)

        child._pump(error_read, keep_and_pass_on)
        if on_printed:
            child._pump(output_read, partial(child._pass_on, on_printed))
        return child

    @property
    def is_running(self) -> bool:
        """The process has not ended yet."""
        return self._process.returncode is None

    def tell(self, news: Mapping[str, Any]) -> None:
        """Write one JSON line to the child's standard input; a child that is gone hears nothing."""
        assert self._process.stdin is not None
        # The pipe of a child that was killed may be closed before its end is known.
        if self.is_running and not self._process.stdin.is_closing():
            self._process.stdin.write(json.dumps(news).encode() + b"\n")

    async def wait(self) -> int:
        """The return code, once the process has ended; negative for a signal."""
        return await self._process.wait()

    async def stop(self, timeout_s: float) -> None:
        """Ask the process to end, kill it after the time-out, pass on its last words.

        ``kill`` from elsewhere makes a running ``stop`` return at once; cancelling it leaves the
        process to that.
        """
        self._signal(signal.SIGTERM)
        try:
            await asyncio.wait_for(self.wait(), timeout_s)
        except TimeoutError:
            self.kill()
        await self.wait()
        await self.drain()
        assert self._process.stdin is not None
        self._process.stdin.close()
        for pump in self._pumps:
            pump.cancel()
        await asyncio.gather(*self._pumps, return_exceptions=True)

    async def drain(self) -> None:
        """Wait until the output of an ended process has been passed on.

        A grandchild that left the group may hold the pipes open: it is given ``_DRAIN_SECONDS``.
        """
        await asyncio.wait(self._pumps, timeout=_DRAIN_SECONDS)

    def kill(self) -> None:
        """End the process and what it has started at once, without a last word."""
        if self.is_running:
            kill_group(self.pid)

    def _signal(self, number: signal.Signals) -> None:
        if self.is_running:
            # Popen.send_signal would take the status of one that has ended just now from wait().
            with suppress(ProcessLookupError):
                os.kill(self._process.pid, number)

    def _pass_on(self, on_line: OnLine, line: str) -> None:
        try:
            on_line(line)
        except OSError:
            pass  # Nobody is left to read it; the child must not suffer for that.
        except Exception:
            log.exception("a line of %s could not be passed on", self.name)

    def _pump(self, descriptor: int, on_line: OnLine) -> None:
        self._pumps.append(asyncio.create_task(_pass_on_lines(descriptor, on_line)))


async def _pass_on_lines(descriptor: int, on_line: OnLine) -> None:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    transport, _ = await loop.connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(descriptor, "rb", 0)
    )
    try:
        rest = b""
        while data := await reader.read(_LINE_BYTES_MAX):
            *lines, rest = (rest + data).split(b"\n")
            if len(rest) > _LINE_BYTES_MAX:
                lines, rest = [*lines, rest], b""
            for line in lines:
                on_line(line.decode(errors="replace"))
        if rest:
            on_line(rest.decode(errors="replace"))
    finally:
        transport.close()


async def _start(arguments: Sequence[str], **settings: Any) -> tuple[Process, int]:
    """Start a process; return it, and its process id."""
    process = await asyncio.create_subprocess_exec(*arguments, **settings)
    return process, process.pid


async def _start_kept(arguments: Sequence[str], **settings: Any) -> tuple[Process, int]:
    """Start a process that keeps another one; return the first, and the id of the other."""
    reading, report = os.pipe()
    try:
        command = [*bare_script(keeper), str(report), *arguments]
        try:
            process, pid = await _start(command, pass_fds=[report], **settings)
        finally:
            os.close(report)
        # It has no id to tell if it has ended at once.
        return process, int(await asyncio.to_thread(os.read, reading, 32) or pid)
    finally:
        os.close(reading)


async def _whole(start: Coroutine[Any, Any, tuple[Process, int]]) -> tuple[Process, int]:
    """Start a process; if this is cancelled it goes on when the process has ended again."""
    starting = asyncio.ensure_future(start)
    try:
        return await asyncio.shield(starting)
    except asyncio.CancelledError:
        with suppress(OSError):  # it could not be started
            process, _ = await starting
            process.kill()
            await process.wait()
        raise
