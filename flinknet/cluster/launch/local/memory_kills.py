"""Recognition of processes that the kernel has killed because memory ran out."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

__all__ = ["MemoryKills"]

_HINT = (
    " - likely because memory ran out: the kernel has killed a process of this control group for "
    "its memory ({file}). Give it more memory, or use less: fewer workers or slots "
    "(cluster.workers, cluster.slots_per_worker), less network.network_memory_bytes, smaller state "
    'or state.backend = "rocksdb"'
)


class MemoryKills:
    """The processes of this cluster that the kernel has killed because memory ran out.

    A process killed for its memory ends by SIGKILL, as if killed by hand. The cluster's control
    group counts such kills: in ``memory.events`` for version 2 of control groups, and in
    ``memory.oom_control`` for version 1. An increased count makes this the likely reason. A
    container may see its own group at the root. Without control groups, there is no count.
    """

    def __init__(self, root: Path = Path("/")) -> None:
        """``root`` is the directory that contains ``/proc`` and ``/sys``."""
        self._files = _candidates(root)
        """The files that may have the count of kills."""
        self._before = self._count()[0]
        """The count at the last call of ``hint``."""

    def hint(self) -> str:
        """Return advice about a process that was killed by SIGKILL.

        The result is empty if the count has not increased since the last call.
        """
        count, file = self._count()
        has_risen, self._before = count > self._before, max(count, self._before)
        return _HINT.format(file=file) if has_risen else ""

    def _count(self) -> tuple[int, str]:
        for file in self._files:
            with suppress(OSError, ValueError):
                for line in file.read_text().splitlines():
                    name, _, value = line.partition(" ")
                    if name == "oom_kill":
                        return int(value), f"{file}: oom_kill {value}"
        return 0, ""


def _candidates(root: Path) -> list[Path]:
    """Return the files that may have the count, the group's own first."""
    files = []
    with suppress(OSError):
        for line in (root / "proc/self/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if controllers == "":
                mounted, name = root / "sys/fs/cgroup", "memory.events"
            elif "memory" in controllers.split(","):
                mounted, name = root / "sys/fs/cgroup/memory", "memory.oom_control"
            else:
                continue
            files += [mounted / path.lstrip("/") / name, mounted / name]
    return files
