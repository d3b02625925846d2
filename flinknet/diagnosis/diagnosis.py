"""The diagnosis of a job: a sentence, findings that name the culprits, and the tables behind them.

``diagnose`` is a pure function of the job's topology and of the reports of its workers. Programs
read it as JSON (``Diagnosis.to_json``)::

    {
      "verdict": "healthy" | "troubled" | "unknown",
      "sentence": "Sink (1/2) is the bottleneck: ...",
      "seconds": 50.0, "refresh_s": 5.0,
      "findings": [{
        "kind": "SLOW_OPERATOR",
        "sentence": "...", "evidence": ["...", ...],
        "severity": 0.93,
        "culprit": {"operator": "Sink", "vertex_id": "0a...", "tasks": [TASK, ...],
                    "worker_ids": ["worker-1"], "key_groups": [17]},
        "lost": [{"task": TASK, "seconds": 4.6, "share": 0.93, "is_ongoing": true,
                  "throughput": THROUGHPUT}, ...],
        "lost_s": 9.1, "throughput": THROUGHPUT
      }, ...],
      "waits": [{"waiter": TASK, "waited_for": TASK, "seconds": 4.6, "share": 0.93,
                 "is_ongoing": true, "buffers": 7.5}, ...],
      "tasks": [{"task": TASK, "worker_id": "worker-0", "seconds": 50.0,
                 "busy": 0.05, "backpressured": 0.93, "idle": 0.02, "level": "HIGH",
                 "meaning": "BACKPRESSURED", "sentences": ["...", ...],
                 "in_pool": 0.1, "out_pool": 1.0, "floating": 0.0, "exclusive": 0.2,
                 "queued_in": 1, "queued_out": 16, "backlog": 3,
                 "credit_announced": 4, "credit_unannounced": 0, "credit_held": 0,
                 "channels": 4, "channels_short": 0,
                 "throughput": THROUGHPUT}, ...]
    }

TASK is ``{"vertex": 2, "vertex_id": "0a...", "subtask": 0, "name": "Sink (1/2)"}``. ``vertex`` is
the position in the job graph, and ``vertex_id`` the name in Flink's REST API. THROUGHPUT is
``{"records_in_per_s", "records_out_per_s", "bytes_in_per_s", "bytes_out_per_s"}``. Kinds are names
of ``FindingKind``, and meanings are names of ``PoolMeaning``.

Shares are fractions of ``seconds``, the time for which the tasks were observed. Pools and queues
are averages over the reports of that time. Findings are sorted by severity, the worst first. A
finding about a checkpoint follows its cause and has the same culprit. The verdict is "unknown" for
a job without findings if its reports cover less than two refresh intervals since it started or
restarted.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from flinknet.diagnosis.causes import Causes
from flinknet.diagnosis.checkpoint_trouble import CheckpointTrouble
from flinknet.diagnosis.finding import Culprit, Finding, FindingKind, TaskName, Throughput
from flinknet.diagnosis.history import REFRESHES
from flinknet.diagnosis.pool_usage import PoolMeaning, PoolUsage
from flinknet.diagnosis.reading import Readings, TaskReading
from flinknet.diagnosis.topology import TaskKey, Topology
from flinknet.diagnosis.wait_graph import WaitGraph
from flinknet.metrics.plain import to_plain
from flinknet.metrics.task_times import BackpressureLevel

__all__ = ["Diagnosis", "TaskRow", "WaitRow", "diagnose", "restarting"]

WAITS_MAX = 1_000
"""Maximum number of reported edges of the wait-for graph."""

_USAGE = frozenset(PoolUsage._fields) - {"short", "backpressured", "waited_for"}
"""Fields of a task's pool usage that its row contains under the same name."""


TOLD_MAX = 3
"""Maximum number of failures in the evidence."""


def restarting(topology: Topology, readings: Readings) -> Finding | None:
    """Return the finding about a job that keeps restarting; None for other jobs.

    Times and waits count from the last restart. With failures every few seconds, no reading is long
    enough for a judgement, so the restarts are the finding. It requires at least two failures
    within the period of a diagnosis, and that the next failure is not overdue.
    """
    looked_back_s = REFRESHES * readings.refresh_s
    failures = [one for one in readings.failures if one.ago_s <= looked_back_s]
    if len(failures) < 2:
        return None
    every_s = (failures[-1].ago_s - failures[0].ago_s) / (len(failures) - 1)
    if failures[0].ago_s > 2 * every_s:  # The next failure is overdue: the job has recovered.
        return None
    last = failures[0]
    tasks = [task for task in topology.tasks() if topology.task_name(task) == last.subtask]
    vertices = [topology.vertices[vertex] for vertex, _ in tasks[:1]]
    culprit = Culprit(
        operator=vertices[0].name if vertices else "",
        vertex_id=vertices[0].rest_id if vertices else "",
        tasks=tuple(TaskName.of(topology, task) for task in tasks),
        worker_ids=(last.worker_id,) if last.worker_id else (),
    )
    reasons = dict.fromkeys(one.said for one in failures)
    return Finding(
        kind=FindingKind.RESTARTS,
        sentence=(
            f"the job restarts every {every_s:.1f} s, {len(failures)} times in the last "
            f"{failures[-1].ago_s:.0f} s: {last.said}"
        ),
        evidence=tuple(reasons)[:TOLD_MAX],
        culprit=culprit,
        severity=1.0,
        lost=(),
        lost_s=0.0,
        throughput=Throughput.of([]),
    )


class WaitRow(NamedTuple):
    """An edge of the wait-for graph."""

    waiter: TaskName
    waited_for: TaskName
    seconds: float
    share: float
    is_ongoing: bool
    buffers: float
    """Average number of the waiter's buffers that the other task holds."""


class TaskRow(NamedTuple):
    """A task and the usage of its pools."""

    task: TaskName
    reading: TaskReading
    usage: PoolUsage

    def to_json(self) -> dict[str, Any]:
        """Return the JSON object that the module describes."""
        reading, usage = self.reading, self.usage
        backpressured = reading.share(reading.backpressured_s)
        return {
            "task": to_plain(self.task),
            "worker_id": reading.worker_id,
            "seconds": reading.seconds,
            "busy": reading.share(reading.busy_s),
            "backpressured": backpressured,
            "idle": reading.share(reading.idle_s),
            "level": BackpressureLevel.of(1000 * backpressured).name,
            "meaning": usage.meaning.name,
            "sentences": usage.sentences(),
            **{name: value for name, value in usage.rounded()._asdict().items() if name in _USAGE},
            "throughput": to_plain(Throughput.of([reading])),
        }


class Diagnosis(NamedTuple):
    """The findings about a job, with the tables behind them."""

    readings: Readings
    findings: tuple[Finding, ...]
    waits: tuple[WaitRow, ...]
    tasks: tuple[TaskRow, ...]

    @property
    def seconds(self) -> float:
        """Time for which the tasks were observed, in seconds."""
        return max((one.seconds for one in self.readings.tasks.values()), default=0.0)

    @property
    def verdict(self) -> str:
        """The verdict in one word."""
        if self.findings:
            return "troubled"
        return "healthy" if self.seconds >= self._needed_s else "unknown"

    @property
    def sentence(self) -> str:
        """The worst finding in one sentence, or a sentence that there is none."""
        if self.findings:
            return self.findings[0].sentence
        if not self.readings.tasks:
            return "no worker has reported on the job since it began"
        if self.seconds < self._needed_s:
            return (
                f"the reports of the workers cover {self.seconds:.0f} s of the job, but a "
                f"diagnosis needs {self._needed_s:.0f} s, so that it ignores short spikes"
            )
        return f"no task was held up in the last {self.seconds:.0f} s"

    @property
    def _needed_s(self) -> float:
        """Minimum time before a job can be called healthy.

        A wait counts if it exceeds one refresh interval, so two intervals must have passed.
        """
        return 2 * self.readings.refresh_s

    def meanings(self) -> dict[TaskKey, PoolMeaning]:
        """Return the meaning of each task's pools."""
        return {(one.task.vertex, one.task.subtask): one.usage.meaning for one in self.tasks}

    def to_json(self) -> dict[str, Any]:
        """Return the JSON object that the module describes."""
        return {
            "verdict": self.verdict,
            "sentence": self.sentence,
            "seconds": self.seconds,
            "refresh_s": self.readings.refresh_s,
            "findings": [{**to_plain(one), "kind": one.kind.name} for one in self.findings],
            "waits": [to_plain(one) for one in self.waits],
            "tasks": [one.to_json() for one in self.tasks],
        }


def diagnose(topology: Topology, readings: Readings) -> Diagnosis:
    """Return the diagnosis of a job."""
    graph = WaitGraph(topology, readings)
    causes = Causes(topology, readings, graph).findings()
    findings = CheckpointTrouble(topology, readings, causes).with_causes()
    restarts = restarting(topology, readings)
    if restarts is not None:
        findings.insert(0, restarts)
    tasks = [
        TaskRow(TaskName.of(topology, task), reading, graph.usage(task))
        for task, reading in sorted(readings.tasks.items())
    ]
    return Diagnosis(readings, tuple(findings), _wait_rows(topology, readings, graph), tuple(tasks))


def _wait_rows(topology: Topology, readings: Readings, graph: WaitGraph) -> tuple[WaitRow, ...]:
    waits = [wait for every in graph.waits.values() for wait in every]
    waits.sort(key=lambda wait: -wait.seconds)
    return tuple(
        WaitRow(
            TaskName.of(topology, wait.waiter),
            TaskName.of(topology, wait.waited_for),
            wait.seconds,
            readings.tasks[wait.waiter].share(wait.seconds),
            wait.is_ongoing,
            wait.buffers,
        )
        for wait in waits[:WAITS_MAX]
    )
