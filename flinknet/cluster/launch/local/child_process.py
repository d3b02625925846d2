"""A process that the launcher started: its output, its end, and how it is stopped.

Theory of operation
-------------------
The only transition is STARTED -> EXITED; ``wait`` returns the same status to every caller. Each
output pipe is read at all times in lines of bounded length, because a child must never block on a
full pipe. The last line is kept to explain an early end. The pipes are this class's own, not
asyncio's: a grandchild that still holds them open must not block ``wait``.

The child leads its own session. Ctrl-C in a terminal therefore reaches only the launcher, which
stops its children in order. A child that runs user code is *kept*: a keeper process between it and
the launcher ends as the child ends, after killing everything that the child has started
(``keeper.py``). ``pid`` is the child's own. ``parent_watch.py`` ensures that all of them end with
the launcher.
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
"""Seconds for the rest of an ended process's output.

The coordinator learns of the end afterwards. It waits for this for cluster.cause_grace_ms, which is
1 s by default.
"""

log = logging.getLogger("flinknet.launcher")

OnLine = Callable[[str], None]


def describe_exit(status: int) -> str:
    """Return ``"killed by signal 9 (SIGKILL)"`` or ``"exited with status 3"`` for a return code."""
    if status >= 0:
        return f"exited with status {status}"
    try:
        name = signal.Signals(-status).name
    except ValueError:
        name = "unknown"
    return f"killed by signal {-status} ({name})"


class ChildProcess:
    """One child, made by ``start``; ``stop`` must be awaited in the end."""

    def __init__(self, name: str, process: Process, pid: int) -> None:
        self.name = name
        self.pid = pid
        """Process id; still readable after the end."""
        self.last_line = ""
        """The last line of its output, to explain an early end."""
        self._process = process
        """The child, or its keeper."""
        self._pumps: list[asyncio.Task[None]] = []
        """The tasks that read the output pipes."""

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
        """Start a process.

        ``on_output`` gets the lines of its standard error. It also gets the lines of its standard
        output, unless ``on_printed`` is given for these. ``is_kept`` ends everything that the
        process starts together with it. A process that is not kept inherits ``descriptors``.
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
            # The child has its own copies; an open copy here would hide the end of its output.
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
        """Whether the process has not ended yet."""
        return self._process.returncode is None

    def tell(self, news: Mapping[str, Any]) -> None:
        """Write one JSON line to the child's standard input; ignored if the child has ended."""
        assert self._process.stdin is not None
        # The pipe of a killed child may be closed before its end is known.
        if self.is_running and not self._process.stdin.is_closing():
            self._process.stdin.write(json.dumps(news).encode() + b"\n")

    async def wait(self) -> int:
        """Wait for the end of the process; return its return code, negative for a signal."""
        return await self._process.wait()

    async def stop(self, timeout_s: float) -> None:
        """Terminate the process, kill it after the timeout, and pass on its last output.

        A concurrent ``kill`` makes a running ``stop`` return at once. Cancelling ``stop`` leaves
        the process to ``kill``.
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

        A grandchild that left the group may hold the pipes open. The wait is therefore limited to
        ``_DRAIN_SECONDS``.
        """
        await asyncio.wait(self._pumps, timeout=_DRAIN_SECONDS)

    def kill(self) -> None:
        """Kill the process and everything that it has started."""
        if self.is_running:
            kill_group(self.pid)

    def _signal(self, number: signal.Signals) -> None:
        if self.is_running:
            # Not Popen.send_signal, which would reap a process that has just ended, and so take its
            # status from wait().
            with suppress(ProcessLookupError):
                os.kill(self._process.pid, number)

    def _pass_on(self, on_line: OnLine, line: str) -> None:
        try:
            on_line(line)
        except OSError:
            pass  # no reader is left, which must not affect the child
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
            # A line without an end is passed on in pieces, so that memory stays bounded.
            if len(rest) > _LINE_BYTES_MAX:
                lines, rest = [*lines, rest], b""
            for line in lines:
                on_line(line.decode(errors="replace"))
        if rest:
            on_line(rest.decode(errors="replace"))
    finally:
        transport.close()


async def _start(arguments: Sequence[str], **settings: Any) -> tuple[Process, int]:
    """Start a process; return it and its process id."""
    process = await asyncio.create_subprocess_exec(*arguments, **settings)
    return process, process.pid


async def _start_kept(arguments: Sequence[str], **settings: Any) -> tuple[Process, int]:
    """Start a keeper with its process; return the keeper, and the process id of the other."""
    reading, report = os.pipe()
    try:
        command = [*bare_script(keeper), str(report), *arguments]
        try:
            process, pid = await _start(command, pass_fds=[report], **settings)
        finally:
            os.close(report)
        # The keeper reports no id if the process has ended at once.
        return process, int(await asyncio.to_thread(os.read, reading, 32) or pid)
    finally:
        os.close(reading)


async def _whole(start: Coroutine[Any, Any, tuple[Process, int]]) -> tuple[Process, int]:
    """Start a process; if cancelled, first end the process that has been started."""
    starting = asyncio.ensure_future(start)
    try:
        return await asyncio.shield(starting)
    except asyncio.CancelledError:
        with suppress(OSError):  # it could not be started
            process, _ = await starting
            process.kill()
            await process.wait()
        raise
