"""A subtask: one parallel instance of a vertex, with its gates, its chain and its partitions.

Theory of operation. ``execution_state.py`` has the states and their transitions.

- DEPLOYING begins with ``open``. The result partitions are registered and the gates have requested
  theirs, so that neighbours find each other in any order. No operator has run.
- INITIALIZING and RUNNING are in ``run``. Operators are opened. Then batches come from the source,
  or from the gates, one buffer each; several gates are read in turn (``UnionInputGate``). The chain
  runs in the subtask's own thread, several batches in a step (``task_thread.py``), or on the event
  loop, which then runs other code after each buffer and each batch of a source. Between two steps
  the subtask runs its mails (``mailbox.py``), timers among them, and passes event time to the
  operators.
- At the end of the input, operators emit held-back results and close, and two-phase sinks prepare.
  Every writer then finishes, which waits until the consumers have processed everything. After that
  the subtask is FINISHED. Checkpoints go on meanwhile and count the subtask as finished. If an
  operator must commit with a checkpoint, the writers finish first, and the operators close when a
  checkpoint from after the end is complete. A subtask that is restored from that checkpoint opens
  its operators and ends without a record.
- FAILED or CANCELING: the partitions are failed with the cause first, so that consumers see the
  first cause and not "connection closed". Then operators, gates and writers close.

Counters: the reader counts bytes and records in, a source counts the records it has read, and the
writers count bytes and records out. Reader and writers share one account of times. The subtask is
idle until ``run``, and while no gate has data.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Sequence
from contextlib import aclosing, suppress
from dataclasses import asdict, dataclass, field
from functools import partial
from inspect import isawaitable
from itertools import accumulate
from operator import length_hint
from typing import TYPE_CHECKING, Any, NamedTuple

from flinknet.buffer.availability import Availability, WaitReason
from flinknet.config import MetricsConfig
from flinknet.consumer.input_gate import InputGate
from flinknet.consumer.union_input_gate import UnionInputGate
from flinknet.environment.cancellation import is_cancelled
from flinknet.environment.processing_time import ProcessingTimeService
from flinknet.environment.savepoint_stop import SavepointStop, Stopped
from flinknet.environment.task_thread import (
    STEP_S,
    ChainThread,
    OnLoop,
    TaskThread,
    on_loop,
    soon_on_loop,
)
from flinknet.errors import ClosedResourceError, JobCancelledError
from flinknet.functions.builtin_types import record_types
from flinknet.functions.context import RuntimeContext
from flinknet.graph.deployment import GateDescriptor, ResultDescriptor, SubtaskDescriptor
from flinknet.graph.graph import JobEdge, JobGraph
from flinknet.metrics.io_metrics import IOMetrics
from flinknet.metrics.latency_statistics import LatencyHistogram
from flinknet.metrics.operator_totals import OperatorTotals
from flinknet.metrics.task_times import TaskTimes, TaskTimesStatistics
from flinknet.metrics.worker_statistics import KeyGroupCount
from flinknet.net.task_clock import task_time
from flinknet.operators.mailbox import Mailbox, MailboxStatistics
from flinknet.operators.operators import StreamElement
from flinknet.operators.record_slices import SLICE_S, RecordSlices
from flinknet.operators.source import SourceOperator
from flinknet.operators.watermark_valve import StatusWatermarkValve
from flinknet.partition.result_partition import ResultPartition
from flinknet.records.cooperative_budget import yield_to_loop
from flinknet.records.partitioner import HashPartitioner
from flinknet.records.reader import RecordReader
from flinknet.records.record_iterator import ArrivedRecords
from flinknet.records.serialization.packer import RecordPacker
from flinknet.records.serialization.serializer import RecordUnpacker
from flinknet.runtime.chain import OperatorChain, RecordWriterOutput
from flinknet.runtime.execution_state import ExecutionState, ExecutionStep
from flinknet.runtime.input_events import InputEvents
from flinknet.runtime.key_group_sample import KeyGroupOf, KeyGroupSample
from flinknet.runtime.restored_state import RestoredState
from flinknet.runtime.running_subtask import RUNNING_SUBTASK
from flinknet.runtime.subtask_checkpoints import SubtaskCheckpoints
from flinknet.state.state_handler import BackendFactory
from flinknet.wire.events import MAX_WATERMARK, CheckpointBarrier, Watermark

if TYPE_CHECKING:
    from flinknet.net.network_environment import NetworkEnvironment

__all__ = ["Subtask", "SubtaskResult", "SubtaskStatistics"]

TURN_S = 0.01
"""Approximate time in seconds for which a chain may occupy the event loop that runs it."""

BUFFERS_IN_STEP = 4
"""Maximum number of buffers in a step in the thread. The producer's credit for them returns when
all are processed, and the producer needs some credit to continue meanwhile. A step of this many
full buffers takes about two milliseconds, so that the cost of a step is negligible."""


class SubtaskStatistics(NamedTuple):
    """The counters and times of a subtask.

    The statistics of inputs and outputs are not included; they are read from the gates and
    partitions themselves.
    """

    state: str
    """Name of the ``ExecutionState``."""
    io_metrics: IOMetrics
    mailbox: MailboxStatistics
    times: TaskTimesStatistics
    input_watermark: int | None
    """Event time at the inputs, in milliseconds; None if no input has timestamps."""
    key_groups: tuple[KeyGroupCount, ...]
    """Sample of a keyed input, see ``KeyGroupSample``."""
    latencies: tuple[LatencyHistogram, ...]
    """Latencies of the markers that have arrived."""
    operators: tuple[OperatorTotals, ...]
    """Counts of the chain's operators, first to last."""


@dataclass(frozen=True, slots=True)
class SubtaskResult(IOMetrics):
    """Counters and output of a subtask that has finished."""

    collected: dict[str, list[Any]] = field(repr=False)
    """Records of the chain's collect sinks, by sink name."""
    metrics: dict[str, Any]
    """Plain JSON values that functions left in their ``RuntimeContext.metrics``, by operator
    name."""
    committables: dict[str, list[Any]] = field(default_factory=dict)
    """Prepared output of two-phase sinks, to be committed, by operator uid."""
    checkpoint_taken: int = -1
    """The newest checkpoint for which the subtask has captured its state; -1 for none."""


class Subtask:
    """One parallel instance of a vertex of ``graph``, in this worker's network environment.

    Args:
        graph: the graph of the job.
        descriptor: the place of the subtask in the graph, its gates and its results.
        environment: the network environment of this worker.
        collect_records_max: maximum number of records in a collect sink; more records fail the
            subtask. None sets no limit.
        mailbox_mails_max: maximum number of calls that wait until the subtask is between two
            batches.
        checkpoints: the subtask's part in checkpoints; None to take no part.
        restored: the checkpoint that the job continues from.
        finished: whether the subtask had finished in that checkpoint. It then only passes on the
            end of its channels and of event time.
        state_backends: creates the backend for keyed state; None for the heap.
        metrics: configures the measurement of latency markers.
    """

    def __init__(
        self,
        graph: JobGraph,
        descriptor: SubtaskDescriptor,
        environment: NetworkEnvironment,
        *,
        collect_records_max: int | None = None,
        mailbox_mails_max: int = 1_000,
        checkpoints: SubtaskCheckpoints | None = None,
        restored: RestoredState | None = None,
        finished: bool = False,
        state_backends: BackendFactory | None = None,
        metrics: MetricsConfig | None = None,
    ) -> None:
        """Create a subtask; nothing is registered before ``open``."""
        self.descriptor = descriptor
        self.state = ExecutionState.CREATED
        self._graph = graph
        self._vertex = graph.vertices[descriptor.vertex]
        self._types = record_types(graph.types)
        self._environment = environment
        self._outputs: list[RecordWriterOutput] = []
        self._gates: list[InputGate] = []
        self._reader: RecordReader | None = None
        self._chain: OperatorChain | None = None
        self._slices: RecordSlices | None = None
        self._looks_up = False
        """Whether mails and barriers may interrupt a batch (``record_slices.py``). They may in jobs
        with unaligned checkpoints, and if an operator may run out of room."""
        self._checkpoints = checkpoints
        self._restored = restored
        self._has_finished = finished
        self._mailbox = Mailbox(descriptor.name, mailbox_mails_max)
        self._early: dict[int, CheckpointBarrier] = {}
        """Barriers of checkpoints that were triggered before the subtask runs, by checkpoint."""
        self._notified = Availability()
        """Set when a checkpoint has completed or was aborted."""
        self._stop = SavepointStop(self._mailbox.post)
        self._thread: ChainThread = OnLoop()
        """Runs the chain; set by ``run``."""
        self._clock = ProcessingTimeService(self._stop.post_timer)
        """Timer service that calls back on the event loop."""
        self._processing_time = ProcessingTimeService(self._post_timer_of_chain)
        """Timer service that calls back in the thread of the chain."""
        edges = [(graph.edges[gate.edge], len(gate.producers)) for gate in descriptor.gates]
        self._metrics = metrics or MetricsConfig()
        latency_interval_ms = graph.latency_interval_ms
        if latency_interval_ms is None:
            latency_interval_ms = self._metrics.latency_interval_ms
        self._has_event_time = any(edge.stamped for edge, _ in edges)
        self._events = _event_handler(edges, has_markers=latency_interval_ms > 0)
        self._key_groups = _key_group_sample(edges)
        self._times = TaskTimes(descriptor.name, task_time())
        self._times.begin_wait(WaitReason.IDLE, task_time())
        self._context = RuntimeContext(
            operator_name=self._vertex.name,
            task_name=self._vertex.name,
            index=descriptor.index,
            parallelism=descriptor.parallelism,
            max_parallelism=self._vertex.max_parallelism,
            job_id=descriptor.job_id,
            attempt=descriptor.attempt,
            types=self._types,
            state_backends=state_backends,
            checkpointed=graph.checkpointing is not None,
            allows_repeated_output=(
                graph.checkpointing is not None and graph.checkpointing.allow_repeated_output
            ),
            collect_records_max=collect_records_max,
            processing_time=self._processing_time,
            auto_watermark_interval_ms=graph.auto_watermark_interval_ms,
            latency_interval_ms=latency_interval_ms,
            channels_of_first_input=sum(count for edge, count in edges if edge.input == 0),
            interrupt=self._interrupt,
            idle=partial(self._times.waiting, WaitReason.IDLE, task_time),
        )

    @property
    def job_name(self) -> str:
        """Name of the job."""
        return self._graph.name

    @property
    def vertex_name(self) -> str:
        """Name of the vertex."""
        return self._vertex.name

    @property
    def gates(self) -> Sequence[InputGate]:
        """Inputs of the subtask, once it is open."""
        return tuple(self._gates)

    @property
    def partitions(self) -> Sequence[ResultPartition]:
        """Outputs of the subtask, once it is open."""
        return tuple(output.writer.partition for output in self._outputs)

    def open(self) -> None:
        """Register the result partitions and request the inputs.

        After an error nothing is left behind. Raises InsufficientNetworkBuffersError, or the error
        of a user's function that cannot be copied.
        """
        self._take(ExecutionStep.OPEN)
        try:
            outputs: dict[int, list[RecordWriterOutput]] = {}
            for result in self.descriptor.results:
                operator = self._graph.edges[result.edge].operator
                outputs.setdefault(operator, []).append(self._open_output(result))
            self._chain = OperatorChain(self._vertex, self._context, outputs, self._metrics)
            for gate in self.descriptor.gates:
                self._gates.append(self._open_gate(gate))
            if self._gates:
                self._reader = self._open_reader()
        except BaseException:
            self._take(ExecutionStep.FAILED)
            self.close()
            raise

    async def run(self) -> SubtaskResult:
        """Process the whole input; must be awaited once, after ``open``.

        Raises the first cause of a failure. Cancelling ``run`` releases everything, too.
        """
        self._take(ExecutionStep.RUN)
        RUNNING_SUBTASK.set(self.descriptor)
        chain = self._chain
        assert chain is not None, "an open subtask has its chain"
        self._times.end_wait(WaitReason.IDLE, task_time())
        try:
            # A subtask that was restored as finished runs no code of its chain: it needs no thread.
            if chain.gathered is not None and not self._has_finished:
                self._thread = TaskThread(self.descriptor.name, chain.gathered)
            if self._has_finished:
                self._begin_to_run()
                await self._pass_on_end_of_time()
                await self._await_ends()
            else:
                had_ended = self._had_ended(chain)
                await self._begin(chain)
                self._begin_to_run()
                try:
                    if had_ended:
                        await self._pass_on_end_of_time()
                        await self._await_ends()
                    else:
                        await self._process_input(chain)
                        await self._mailbox.run_mails()
                        await self._thread.run(chain.end_of_input())
                        await self._await_final_checkpoint(chain)
                    self._note_end_of_input(chain)
                except Stopped:  # The savepoint that stops the job is complete.
                    await self._await_ends()
                    if self._checkpoints is not None:
                        taken = self._checkpoints.taken
                        await self._thread.run(chain.notify_checkpoint_complete(taken))
                self._close_timers()  # No timer may call a closed operator.
                await self._thread.run(chain.close())
            await self._finish_outputs()
            if self._checkpoints is not None:
                await self._checkpoints.finish()
            self._take(ExecutionStep.FINISHED)
        except BaseException as error:
            self._take(ExecutionStep.CANCEL if is_cancelled(error) else ExecutionStep.FAILED)
            # Fail the outputs first, so that consumers see this cause and not "connection closed".
            self._fail_outputs(error)
            if chain.gathered is not None:
                chain.gathered.discard()
            await self._close_after(error, chain)
            raise
        finally:
            self.close()
            try:
                if self._checkpoints is not None:
                    await self._checkpoints.close()
            finally:  # Closing the checkpoints may be cancelled once more.
                self._thread.end(chain.close_state)
        return SubtaskResult(
            **asdict(self.io_metrics()),
            collected=self._context.collected,
            metrics=chain.metrics(),
            committables=chain.committables(),
            checkpoint_taken=-1 if self._checkpoints is None else self._checkpoints.taken,
        )

    async def _close_after(self, error: BaseException, chain: OperatorChain) -> None:
        """Close the operators of a subtask that has failed.

        Consumers that have learnt of the failure may have the subtask cancelled meanwhile. That
        must not hide the cause. The close under way in the thread is still awaited.
        """
        try:
            await self._thread.run(chain.close(error))
        except asyncio.CancelledError as cancelled:
            if not is_cancelled(cancelled):
                raise
            await self._thread.work(lambda: None)

    async def wait_closed(self) -> None:
        """Wait, after ``run``, until the state is closed and the thread has ended.

        Until then they hold their resources. The wait may take as long as a state store needs, so
        the handling of a failure must not wait for it. A cancellation ends only the wait.
        """
        await self._thread.wait_ended()

    def close(self) -> None:
        """Release partitions and gates. Idempotent; ``run`` calls it itself."""
        if self.state is ExecutionState.CANCELING:
            self._take(ExecutionStep.CLOSED)
        elif not self.state.is_terminal:
            self._take(ExecutionStep.CANCEL)
        self._close_timers()
        self._mailbox.close()
        if self._reader is not None:
            self._reader.close()
        for gate in self._gates:
            gate.release()
        for output in self._outputs:
            output.writer.close()

    def _close_timers(self) -> None:
        self._clock.close()
        self._processing_time.close()

    def _post_timer_of_chain(self, action: Callable[[], Any]) -> None:
        self._stop.post_timer(lambda: self._thread.run(_called(action)))

    def _take(self, step: ExecutionStep) -> None:
        self.state = self.state.after(step, f'subtask "{self.descriptor.name}"')

    def _begin_to_run(self) -> None:
        self._take(ExecutionStep.RUNNING)
        early, self._early = self._early, {}
        for barrier in early.values():
            self.trigger_checkpoint(barrier)

    def submit(self, action: Callable[[], Any]) -> asyncio.Future[Any]:
        """Have a function or coroutine function called between two batches; see Mailbox."""
        return self._mailbox.submit(action)

    def trigger_checkpoint(self, barrier: CheckpointBarrier) -> None:
        """Begin a checkpoint here.

        A trigger that comes before the subtask runs is kept, because the coordinator does not wait
        until all state is restored. A subtask that has ended, or is about to, ignores the trigger.
        """
        if self.state in (ExecutionState.DEPLOYING, ExecutionState.INITIALIZING):
            self._early[barrier.checkpoint_id] = barrier
            return
        if self._checkpoints is not None and barrier.options.kind.stops:
            # The subtask ends with this savepoint, and no sender waits for an error of the call.
            # So the call is posted, and an error fails the subtask.
            action = partial(SubtaskCheckpoints.trigger_checkpoint, barrier=barrier)
            self._mailbox.post(partial(self._unless_ended, action, self._checkpoints))
            return
        self._mail_checkpoints(lambda checkpoints: checkpoints.trigger_checkpoint(barrier))

    def abort_checkpoint(self, checkpoint_id: int) -> None:
        """Abort a checkpoint that the coordinator has given up."""
        self._stop.ended(checkpoint_id, complete=False)
        self._early.pop(checkpoint_id, None)
        self._mail_checkpoints(lambda checkpoints: checkpoints.abort_checkpoint(checkpoint_id))
        self._notified.set(True)

    def complete_checkpoint(self, checkpoint_id: int) -> None:
        """Note that a checkpoint is complete on all subtasks.

        Sinks then commit the output prepared for it, and functions are notified. Their errors fail
        the subtask.
        """
        self._stop.ended(checkpoint_id, complete=True)
        if self._checkpoints is not None and self.state is ExecutionState.RUNNING:
            self._mailbox.post(partial(self._notify_complete, checkpoint_id))

    async def _notify_complete(self, checkpoint_id: int) -> None:
        if self._chain is not None and not self._has_finished:
            await self._thread.run(self._chain.notify_checkpoint_complete(checkpoint_id))
            self._notified.set(True)

    def _mail_checkpoints(self, action: Callable[[SubtaskCheckpoints], Any]) -> None:
        checkpoints = self._checkpoints
        if checkpoints is not None and self.state is ExecutionState.RUNNING:
            with suppress(ClosedResourceError):
                self._mailbox.submit(partial(self._unless_ended, action, checkpoints))

    def _unless_ended(
        self, action: Callable[[SubtaskCheckpoints], Any], checkpoints: SubtaskCheckpoints
    ) -> Any:
        # A subtask with results to report does not set ``input_has_ended``, nor does one that was
        # restored as finished. A checkpoint must not count the former as finished before its
        # results have arrived.
        ended = self._has_finished and not checkpoints.input_has_ended
        return None if ended else action(checkpoints)

    def _had_ended(self, chain: OperatorChain) -> bool:
        """Return whether the restored checkpoint is from after the end of the input.

        Work that was due at the completion of that checkpoint is done when operators are opened.
        """
        if self._restored is None or self._checkpoints is None:
            return False
        place = self.descriptor.index, self._vertex.parallelism
        self._checkpoints.has_emitted_all = self._restored.has_ended(chain.uids, *place)
        return self._checkpoints.has_emitted_all

    async def _await_final_checkpoint(self, chain: OperatorChain) -> None:
        """Wait until a complete checkpoint includes all results, if an operator needs one."""
        is_checkpointed = self._graph.checkpointing is not None
        if self._checkpoints is None or not is_checkpointed or not chain.awaits_checkpoint():
            return
        self._checkpoints.has_emitted_all = True
        # A timer would emit records after the ends of the outputs.
        self._close_timers()
        await self._finish_writers()
        await self._checkpoints.await_checkpoint()
        with self._times.waiting(WaitReason.IDLE, task_time):
            while chain.awaits_checkpoint():
                self._notified.set(False)
                await self._mailbox.until(self._notified)

    def _note_end_of_input(self, chain: OperatorChain) -> None:
        """Tell the checkpoints that nothing more is emitted.

        A subtask with metrics, committables or collected records has not finished before its result
        has arrived, so it does not report this.
        """
        has_made = chain.metrics() or chain.committables() or self._context.collected
        if self._checkpoints is not None and not has_made:
            self._checkpoints.end_input()

    def measure_latency(self) -> None:
        """Measure, in a running subtask, how long a call waits for a place between two batches."""
        if self.state is ExecutionState.RUNNING:
            self._mailbox.measure_latency()

    def statistics(self) -> SubtaskStatistics:
        """Return the current counters and times."""
        chain, moved, watermark = self._chain, self.io_metrics(), self._input_watermark()
        return SubtaskStatistics(
            state=self.state.name,
            mailbox=self._mailbox.statistics(),
            io_metrics=moved,
            times=self._times.statistics(task_time()),
            input_watermark=watermark,
            key_groups=() if self._key_groups is None else self._key_groups.counts(),
            latencies=() if chain is None else chain.latency_histograms(),
            operators=() if chain is None else chain.operator_totals(moved.records_in, watermark),
        )

    def _input_watermark(self) -> int | None:
        if self._events is None or not self._has_event_time:
            return None
        return self._events.watermark

    def io_metrics(self) -> IOMetrics:
        """Return the current counters of records, bytes and time."""
        head = self._chain.head if self._chain is not None else None
        reader = self._reader
        received = reader.records_in if reader is not None else 0
        writers = [output.writer for output in self._outputs]
        idle_ms, busy_ms, backpressured_ms = self._times.accumulated_ms(task_time())
        return IOMetrics(
            records_in=head.records_read if isinstance(head, SourceOperator) else received,
            records_out=sum(writer.records_out for writer in writers),
            bytes_in=reader.bytes_in if reader is not None else 0,
            bytes_out=sum(writer.bytes_out for writer in writers),
            idle_time_ms=round(idle_ms),
            busy_time_ms=round(busy_ms),
            backpressured_time_ms=round(backpressured_ms),
        )

    def _open_output(self, result: ResultDescriptor) -> RecordWriterOutput:
        edge = self._graph.edges[result.edge]
        partitioner = edge.partitioner()
        partitioner.setup(
            result.subpartitions,
            subtask_index=self.descriptor.index,
            parallelism=self.descriptor.parallelism,
        )
        partition = self._environment.create_result_partition(
            result.partition_id,
            subpartitions=result.subpartitions,
            consumers=result.consumers,
            exchange_mode=result.exchange_mode,
        )
        writer = self._environment.create_record_writer(
            partition,
            partitioner,
            buffer_timeout_ms=edge.buffer_timeout_ms,
            task_times=self._times,
            types=self._types,
        )
        operator_name = self._vertex.operators[edge.operator].name
        output = RecordWriterOutput(
            writer,
            edge.name,
            operator_name,
            edge.tag,
            is_silent=self._graph.is_silent_beside_time(edge),
        )
        self._outputs.append(output)
        return output

    def _open_gate(self, gate: GateDescriptor) -> InputGate:
        source = self._graph.vertices[self._graph.edges[gate.edge].source].name
        return self._environment.create_input_gate(
            gate.locations, name=f"{self.descriptor.name} <- {source}"
        )

    def _open_reader(self) -> RecordReader:
        """Create the reader of all gates; a union numbers the channels gate by gate."""
        gates = self._gates
        reader = self._environment.create_record_reader(
            gates[0] if len(gates) == 1 else UnionInputGate(gates),
            task_times=self._times,
            types=self._types,
            interruptible=self._mailbox.interruptible,
            event_handler=self._checkpoints or self._events,
        )
        # The thread of the chain unpacks the records, but a gate may only be failed on the loop.
        reader.fail_gate = partial(soon_on_loop, reader.gate.fail)
        return reader

    async def _begin(self, chain: OperatorChain) -> None:
        """Restore and open the operators, and take part in checkpoints from then on."""
        if self._restored is not None:
            place = self.descriptor.index, self._vertex.parallelism, self._vertex.max_parallelism
            await self._restored.restore(chain, *place)
        await self._thread.run(chain.open())
        checkpointing = self._graph.checkpointing
        unaligned = checkpointing is not None and checkpointing.unaligned
        self._looks_up = bool(chain.rooms) or unaligned
        self._slices = self._make_slices(chain)
        if self._checkpoints is not None:
            writers = [output.writer for output in self._outputs]
            exactly_once = checkpointing is None or checkpointing.mode == "exactly_once"
            self._checkpoints.begin(
                chain,
                writers,
                self._reader,
                exactly_once=exactly_once,
                timers=self._clock,
                stop=self._stop,
                thread=self._thread,
                others=self._events,
                slices=self._slices,
            )
        if self._restored is not None and self._reader is not None:
            await self._process_in_flight(chain, self._restored)

    def _make_slices(self, chain: OperatorChain) -> RecordSlices:
        outputs = [output.writer.partition.availability for output in self._outputs]
        packer = RecordPacker(self._types)
        # Short slices serve barriers and mails. Otherwise a slice only ends to give other subtasks
        # a turn. A step in a thread has a fixed cost, and a barrier waits for its end.
        slice_s = SLICE_S if self._looks_up else TURN_S
        if chain.gathered is not None:
            slice_s = STEP_S
        return RecordSlices(
            self._mailbox,
            outputs,
            self._times,
            self._reader,
            packer,
            self._thread,
            slice_s,
            chain.rooms,
        )

    async def _process_in_flight(self, chain: OperatorChain, restored: RestoredState) -> None:
        """Process the restored records in flight before any new record."""
        descriptor, gates = self.descriptor, self._gates
        first_channels = [0, *accumulate(len(gate.channels) for gate in gates)]
        channels = restored.channels(self._graph)
        unpacker = RecordUnpacker.of(self._environment.config, self._types)
        in_flight = channels.records_of(descriptor.vertex, descriptor.index, unpacker)
        async with aclosing(in_flight):
            async for gate, producer, records in in_flight:
                # The former producer may not exist any more, so choose a channel of the same gate.
                place = producer % len(gates[gate].channels)
                chain.set_channel(first_channels[gate] + place)
                await self._thread.run(chain.head.process(records))
                if self._mailbox.mails:
                    await self._mailbox.run_mails()
                await asyncio.sleep(0)

    async def _pass_on_end_of_time(self) -> None:
        """Repeat the end of event time, which checkpoints do not store.

        Otherwise consumers would wait for the channels of a subtask that had finished (Flink:
        FinishedOnRestoreInput).
        """
        for result, output in zip(self.descriptor.results, self._outputs, strict=True):
            if self._graph.edges[result.edge].stamped or output.is_silent:
                await output.pass_on(Watermark(MAX_WATERMARK))

    async def _await_ends(self) -> None:
        """Read the channels to their ends.

        No record comes before the ends: the producers of a finished subtask had finished, too, and
        no subtask emits a record after a savepoint that stops the job.
        """
        while self._reader is not None and (batch := await self._reader.next_batch()) is not None:
            assert not len(batch), "a finished subtask receives no records"

    async def _process_input(self, chain: OperatorChain) -> None:
        mailbox, slices = self._mailbox, self._slices
        assert slices is not None, "a running subtask has begun"
        if isinstance(chain.head, SourceOperator):
            await chain.head.run(
                mailbox, slices, looks_up=self._looks_up, cuts=chain.may_cut_batches
            )
            return
        assert self._reader is not None, "a vertex without a source has a gate"
        events = self._events
        # Each request for a batch returns the buffer of the last one, and so the producer's credit.
        while (number := await self._reader.begin_batch()) is not None:
            if events is not None and events.pending:
                await self._thread.run(_pass_on(chain, events.take()))
            if number:
                await self._process_batches(chain, self._reader, slices, number)
            if mailbox.mails:
                await mailbox.run_mails()

    async def _process_batches(
        self, chain: OperatorChain, reader: RecordReader, slices: RecordSlices, number: int
    ) -> None:
        """Process ``number`` records that have arrived.

        Records that take long are processed in slices. In the thread, a short batch is processed
        together with the batches after it.
        """
        size, head = slices.size, chain.head
        if self._looks_up or (number > size.records and chain.may_cut_batches):
            taken = list(self._records_of(chain, reader.channel, reader.arrived))
            chain.set_channel(reader.channel)
            await slices.work_off(taken, head.process, reader.channel)
            return
        batches = [(reader.channel, reader.arrived)]
        more = BUFFERS_IN_STEP - 1 if chain.gathered is not None else 0
        while more and number < size.records:
            other = reader.begin_another_batch()
            if other is None:
                break
            if some := length_hint(other.arrived):  # A buffer within a long record completes none.
                batches.append((other.channel, other.arrived))
            number += some
            more -= 1
        began = self._thread.working_time()
        await self._thread.run(self._process(chain, batches))
        size.took(number, self._thread.working_time() - began)

    async def _process(
        self, chain: OperatorChain, batches: Iterable[tuple[int, ArrivedRecords]]
    ) -> None:
        """Process batches, each with the channel that it arrived on."""
        for channel, arrived in batches:
            chain.set_channel(channel)
            await chain.head.process(self._records_of(chain, channel, arrived))

    def _records_of(self, chain: OperatorChain, channel: int, arrived: ArrivedRecords) -> Any:
        """Return the records of a batch; they are unpacked on demand if that is possible.

        The head of the chain, or the sample of key groups, may need all records at once.
        """
        key_groups = self._key_groups
        weight = 0 if key_groups is None else key_groups.weigh(channel, length_hint(arrived))
        if not weight and chain.head.iterates_once:
            return arrived
        records = list(arrived.take_all())
        if key_groups is not None and weight:
            key_groups.take(channel, records, weight)
        return records

    async def _interrupt(self) -> None:
        """Give other subtasks a turn in the middle of long work.

        If batches may be interrupted, mails run and overtaking barriers are handled, too.
        """
        await on_loop(self._interrupted)

    async def _interrupted(self) -> None:
        await yield_to_loop()
        if self._slices is not None and self._looks_up:
            await self._slices.interrupt()

    async def _finish_outputs(self) -> None:
        """Wait until the consumers have processed everything, then accept no more mails."""
        self._has_finished = True
        await self._finish_writers()
        self._mailbox.quiesce()
        await self._mailbox.run_mails()  # Run the mails that were accepted before.

    async def _finish_writers(self) -> None:
        """Wait until the consumers have processed everything, and run mails meanwhile."""
        if self._outputs:
            finishing = _all_of([output.writer.finish for output in self._outputs])
            await self._mailbox.run_beside(finishing)

    def _fail_outputs(self, error: BaseException) -> None:
        """Fail the partitions; a cause that was set earlier remains."""
        if isinstance(error, asyncio.CancelledError):
            error = JobCancelledError(f'subtask "{self.descriptor.name}" was cancelled')
        for output in self._outputs:
            output.writer.fail(error)


def _event_handler(
    gates: Sequence[tuple[JobEdge, int]], *, has_markers: bool
) -> InputEvents | None:
    """Create the event handler for gates, given as edges with their numbers of channels.

    Returns None without latency markers and timestamps. Channels without timestamps only hold back
    the end of event time.
    """
    if not has_markers and not any(edge.stamped for edge, _ in gates):
        return None
    stamped = [edge.stamped for edge, channels in gates for _ in range(channels)]
    silent = [channel for channel, has_time in enumerate(stamped) if not has_time]
    return InputEvents(StatusWatermarkValve(len(stamped), silent))


async def _pass_on(chain: OperatorChain, elements: Iterable[StreamElement]) -> None:
    for element in elements:
        await chain.head.process_stream_element(element)


async def _called(action: Callable[[], Any]) -> Any:
    """Call a function or coroutine function of the chain, in the thread of the chain."""
    returned = action()
    return await returned if isawaitable(returned) else returned


def _key_group_sample(gates: Sequence[tuple[JobEdge, int]]) -> KeyGroupSample | None:
    """Create the sample for gates, given as edges with their numbers of channels.

    Returns None if no edge has a key.
    """
    key_group_of: list[KeyGroupOf | None] = []
    for edge, channels in gates:
        partitioner = edge.partitioner()
        if isinstance(partitioner, HashPartitioner):
            key_group_of += [partitioner.key_group_of] * channels
        else:
            key_group_of += [None] * channels
    return KeyGroupSample(key_group_of) if any(key_group_of) else None


async def _all_of(parts: list[Callable[[], Coroutine[Any, Any, None]]]) -> None:
    """Run the parts concurrently; the first failure cancels the others and is raised unwrapped."""
    if len(parts) == 1:
        await parts[0]()
        return
    failures: tuple[BaseException, ...] = ()
    try:
        async with asyncio.TaskGroup() as group:
            for part in parts:
                group.create_task(part())
    except BaseExceptionGroup as raised:
        failures = raised.exceptions
    if failures:
        raise failures[0]
