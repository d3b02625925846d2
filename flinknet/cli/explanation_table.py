"""The output of ``flinknet explain``: whether a job fits, and which owner needs which memory."""

from __future__ import annotations

from rich import box
from rich.console import Group
from rich.table import Table
from rich.text import Text

from flinknet.cluster.launch.fitting_table import FittingTable
from flinknet.cluster.launch.job_memory import JobMemory, Level
from flinknet.graph.buffer_needs import BufferNeed, Verdict, WorkerNeeds
from flinknet.graph.channel_state_bound import ChannelStateBound
from flinknet.net.memory_bound import MemoryBound
from flinknet.texts import counted, printable

__all__ = ["explanation", "summary"]

_MEANINGS = {
    Verdict.COMFORTABLE: "each subtask gets as many buffers as it can use",
    Verdict.FITS: "each subtask gets its reserved buffers, and all share the rest",
    Verdict.DEGRADED: "it runs with fewer exclusive buffers than configured",
    Verdict.TOO_SMALL: "it is refused",
}
_MEMORY = (
    "Memory that the exchange of a worker takes beyond a fresh process, in MiB: the allocation at "
    "its start, the total expected of a job whose records are small beside record_bytes_max, and "
    "the maximum of each part, with the options that set it. Memory of the kernel and of functions "
    "is not included."
)
_LIMITS = {
    "network_memory": "network_memory_bytes",
    "sockets": "segment_bytes",
    "tls": "outbox_bytes_max",
    "receive_buffers": "receive_buffer_bytes",
    "control_messages": "wire.control_bytes_max",
    "requests": "wire.channels_per_worker_max",
    "handshakes": "wire.pending_handshakes_max",
    "events": "wire.events_per_channel_max, wire.event_bytes_max",
    "reassembly": "reassembly_memory_bytes",
    "records_read": "record_bytes_max, record_elements_max",
    "records_reused": "REUSED_RECORDS_BYTES",
    "records_written": "record_bytes_max",
    "remembered_keys": "remembered_keys_bytes",
    "objects": "channels, connections, segments",
}
"""The settings that determine each part of the bound."""

_CHANNEL_STATE = (
    "In-flight data that an unaligned checkpoint stores, in MiB. If the barriers of a subtask "
    "arrive together, it is at most the data in flight at that moment. Data that arrives between "
    "the first barrier and the last one is stored, too, up to the limit; beyond it, the checkpoint "
    "is given up. Workers hold this data in memory until it is written, in addition to the maximum "
    "above."
)
_CHANNEL_STATE_LIMITS = {
    "network_buffers": "segment_bytes, buffers_per_channel, floating_buffers_per_gate",
    "broadcast_copies": "consumers of broadcast streams",
    "unfinished_records": "record_bytes_max, channels",
    "at_once": "",
    "limit": "checkpointing.channel_state_bytes_max",
}

_LEVELS: dict[Level, str] = {
    "minimum": "to run, degraded",
    "required": "to run as configured",
    "comfortable": "to run as fast as it can",
}


_SUMMARIES = {
    Verdict.COMFORTABLE: "fits: more network memory would change nothing",
    Verdict.FITS: "fits: it runs as configured, and faster with more network memory",
    Verdict.DEGRADED: "runs more slowly, because it has less network memory than configured",
    Verdict.TOO_SMALL: "does not fit: there is too little network memory, so it is refused",
}
_WISHES: dict[Level, str] = {
    "minimum": "so that it runs at all",
    "required": "so that it runs as configured",
    "comfortable": "so that it runs as fast as it can",
}


def summary(memory: JobMemory) -> Group:
    """Return whether the job fits, its memory use, and advice if there is too little memory."""
    cluster, network = memory.config.cluster, memory.config.network
    table = FittingTable(
        names=("worker",),
        numbers=("needs, MiB", "uses at most", "has"),
    )
    for worker in memory.workers:
        need = memory.needs[worker.worker_id]
        table.add_row(
            worker.worker_id,
            _mebibytes(need.required * network.segment_bytes),
            _mebibytes(need.comfortable * network.segment_bytes),
            _mebibytes(network.network_memory_bytes),
        )
    workers, slots = cluster.workers, cluster.slots_per_worker
    lines = [
        f'Job "{memory.job}" {_SUMMARIES[memory.verdict]}.',
        f"It takes {counted(workers, 'worker')} with {counted(slots, 'slot')} each.",
    ]
    for level, setting in memory.settings().items():
        rounded = f"{-(-setting // 2**20)}MiB"
        lines.append(
            f"Set network.network_memory_bytes to {rounded} "
            f"(FLINKNET_NETWORK_NETWORK_MEMORY_BYTES={rounded}) {_WISHES[level]}."
        )
    stored = sum(bound.at_once for bound in memory.channel_state().values())
    if stored:
        lines.append(f"A checkpoint may store {_mebibytes(stored)} MiB of in-flight records.")
    if memory.broadcasts:
        lines.append(
            f"From a checkpoint with in-flight records of {', '.join(memory.broadcasts)} the job "
            "continues only at the same parallelism, because these are broadcast and each consumer "
            "had different ones in flight. A savepoint has no in-flight records."
        )
    return Group(
        Text("\n".join(printable(line) for line in lines)),
        table,
        Text(
            "Network memory holds the records between two subtasks. --verbose shows how much of it "
            "each subtask needs."
        ),
        _memory_lines(memory),
    )


def _memory_lines(memory: JobMemory) -> Group:
    """Return the memory that the exchange adds to the worker to which it adds most."""
    bounds, expected = memory.bounds(), memory.expected()
    worker = max(memory.workers, key=lambda one: expected[one.worker_id].total)
    shape, bound = worker.shape, bounds[worker.worker_id]
    part = max(bound._fields, key=lambda name: int(getattr(bound, name)))
    channels = shape.local_channels + shape.remote_channels
    lines = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    lines.add_column(no_wrap=True)
    lines.add_column(justify="right", no_wrap=True)
    lines.add_column(overflow="fold")
    lines.add_row(
        "allocated",
        _size(memory.config.network.network_memory_bytes),
        "the network memory, when the worker starts",
    )
    lines.add_row(
        "expected",
        _size(expected[worker.worker_id].total),
        f"the same, with {counted(channels, 'channel')}, "
        f"{counted(shape.connections, 'connection')}, {counted(shape.readers, 'reader')} and "
        f"{counted(shape.partitions, 'writer')}, for small records",
    )
    lines.add_row(
        "at most",
        _size(bound.total),
        f"for any records and peers; {_size(int(getattr(bound, part)))} of it for "
        f"{part.replace('_', ' ')} ({_LIMITS[part]})",
    )
    said = f"\nMemory that the exchange adds to {printable(worker.worker_id)}"
    more = ", the worker with the most" if len(memory.workers) > 1 else ""
    return Group(Text(f"{said}{more}; memory of functions is not included:"), lines)


def _size(number: int) -> str:
    return f"{number / 2**30:,.1f} GiB" if number >= 10 * 2**30 else f"{_mebibytes(number)} MiB"


def explanation(memory: JobMemory) -> Group:
    """Return the detailed explanation of a job's memory.

    It has the buffers that each owner needs, the verdict with advice, and the allocated, expected
    and maximum memory.
    """
    return Group(
        *(_needs_table(memory, worker) for worker in memory.workers),
        Text("\n".join(["", *_verdict(memory), "", _MEMORY])),
        _bounds_table(memory),
        *_channel_state(memory.channel_state()),
    )


def _needs_table(memory: JobMemory, worker: WorkerNeeds) -> FittingTable:
    network = memory.config.network
    table = FittingTable(
        title=Text(f"{worker.worker_id}: {memory.worker_verdict(worker.worker_id)}"),
        names=("subtask", "buffers of"),
        numbers=("local", "remote", "minimum", "required", "comfortable", "overdraft"),
    )
    last = worker.owners[-1] if worker.owners else None
    for owner in worker.owners:
        table.add_row(
            Text(printable(owner.subtask)),
            Text(printable(f"{owner.kind}, {owner.stream}")),
            f"{owner.local:,}",
            f"{owner.remote:,}",
            *_counts(owner.need(network)),
            line_below=owner is last,
        )
    need = memory.needs[worker.worker_id]
    table.add_row("all", "", "", "", *_counts(need))
    table.add_row("in bytes", "", "", "", *_counts(need, network.segment_bytes))
    return table


def _counts(need: BufferNeed, factor: int = 1) -> list[str]:
    levels = (need.minimum, need.required, need.comfortable, need.overdraft)
    return [f"{level * factor:,}" for level in levels]


def _verdict(memory: JobMemory) -> list[str]:
    network = memory.config.network
    available = (
        f"A worker has {network.segments:,} buffers of {network.segment_bytes} bytes "
        f"(network.network_memory_bytes = {network.network_memory_bytes})."
    )
    lines = [available, f'Job "{memory.job}": {memory.verdict}; {_MEANINGS[memory.verdict]}.']
    if memory.verdict is Verdict.DEGRADED:
        limit = memory.degraded_gate_limit
        lines.append(
            f"  network.required_buffers_per_gate_max = {limit}  is the limit that it then gets"
        )
    for level, setting in memory.settings().items():
        lines.append(f"  network.network_memory_bytes = {setting}  {_LEVELS[level]}")
    return lines


def _bounds_table(memory: JobMemory) -> Table:
    bounds, expected = memory.bounds(), memory.expected()
    allocated = memory.config.network.network_memory_bytes
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("part", overflow="fold")
    for worker_id in bounds:
        table.add_column(worker_id, justify="right", no_wrap=True)
    table.add_column("set by", overflow="fold")
    table.add_row("allocated", *(_mebibytes(allocated) for _ in bounds), "network_memory_bytes")
    totals = (_mebibytes(one.total) for one in expected.values())
    table.add_row("expected", *totals, "network_memory_bytes, channels, connections")
    table.add_section()
    for part in MemoryBound._fields:
        sizes = (_mebibytes(getattr(bound, part)) for bound in bounds.values())
        table.add_row(part.replace("_", " "), *sizes, _LIMITS[part])
    table.add_section()
    table.add_row("at most", *(_mebibytes(bound.total) for bound in bounds.values()), "")
    return table


def _channel_state(bounds: dict[str, ChannelStateBound]) -> tuple[Text | Table, ...]:
    if not bounds:
        return ()
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("in flight")
    for heading in (*bounds, "job"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("set by", overflow="fold")
    for part, limit in _CHANNEL_STATE_LIMITS.items():
        sizes = [int(getattr(bound, part)) for bound in bounds.values()]
        table.add_row(part.replace("_", " "), *map(_mebibytes, (*sizes, sum(sizes))), limit)
    return Text("\n" + _CHANNEL_STATE), table


def _mebibytes(number: int) -> str:
    return f"{number / 2**20:,.1f}"
