"""The output of ``flinknet explain`` about a job's memory."""

from __future__ import annotations

import io
from dataclasses import replace

from rich.console import Console

from flinknet.cli.explanation_table import explanation, summary
from flinknet.cluster.launch.job_memory import JobMemory
from flinknet.config import FlinknetConfig
from flinknet.config.job_checkpointing import JobCheckpointingConfig
from flinknet.graph.buffer_needs import BufferOwner, WorkerNeeds
from flinknet.net.memory_bound import MemoryBound
from flinknet.records.partitioner import BroadcastPartitioner
from tests.unit.cluster.graphs import keyed_graph


def shown(buffers: int) -> list[str]:
    """Return the lines for a source on worker-0 with two of four sinks, and two on worker-1."""
    config = FlinknetConfig()
    network = replace(config.network, network_memory_bytes=buffers * config.network.segment_bytes)
    return rendered(
        JobMemory.of_graph(keyed_graph(parallelism=4), replace(config, network=network))
    )


def summed_up(buffers: int) -> list[str]:
    config = FlinknetConfig()
    network = replace(config.network, network_memory_bytes=buffers * config.network.segment_bytes)
    memory = JobMemory.of_graph(keyed_graph(parallelism=4), replace(config, network=network))
    written = io.StringIO()
    Console(file=written, width=80, color_system=None).print(summary(memory))
    return [" ".join(line.split()) for line in written.getvalue().splitlines()]


def test_the_verdict_and_the_advice_come_first() -> None:
    assert summed_up(20)[:2] == [
        'Job "sums" fits: more network memory would change nothing.',
        "It takes 2 workers with 2 slots each.",
    ]
    text = " ".join(summed_up(5))
    assert "runs more slowly, because it has less network memory than configured" in text
    assert (
        "Set network.network_memory_bytes to 1MiB (FLINKNET_NETWORK_NETWORK_MEMORY_BYTES=1MiB) so "
        "that it runs as configured."
    ) in text
    assert "does not fit: there is too little network memory, so it is refused" in summed_up(4)[0]


def test_memory_is_allocated_expected_and_at_most() -> None:
    lines = summed_up(2000)
    start = next(place for place, line in enumerate(lines) if line.startswith("allocated "))
    allocated, expected, most = (
        next(line for line in lines[start:] if line.startswith(word))
        for word in ("allocated", "expected", "at most")
    )
    assert allocated == "allocated 63.0 MiB the network memory, when the worker starts"
    assert expected.startswith("expected 63.5 MiB the same, with 2 channels, 1 connection, 2 ")
    assert most.startswith("at most 1,")
    assert "for records read (record_bytes_max," in " ".join(lines)


def test_flinks_terms_are_shown_on_request() -> None:
    text = " ".join(summed_up(6))
    assert not any(word in text for word in ("overdraft", "comfortable", "floating", "gate"))


def rendered(memory: JobMemory) -> list[str]:
    """Return the lines, with each run of spaces replaced by one."""
    written = io.StringIO()
    Console(file=written, width=160, color_system=None).print(explanation(memory))
    return [" ".join(line.split()) for line in written.getvalue().splitlines()]


def test_every_owner_has_a_row_and_every_worker_a_total() -> None:
    lines = shown(6)

    assert "worker-0: fits" in lines
    assert (
        "Source: Collection -> Map (1/1) partition, HASH to Reduce -> Sink: Collect 2 2 5 5 16 5"
        in lines
    )
    gate = "Reduce -> Sink: Collect (2/4) gate, HASH from Source: Collection -> Map 0 1 1 3 10 0"
    assert gate in lines
    assert "all 2 6 20 0" in lines
    assert "in bytes 66,048 198,144 660,480 0" in lines


def test_the_verdict_names_the_settings_that_improve_it() -> None:
    assert 'Job "sums": comfortable; each subtask gets as many buffers as it can use.' in shown(20)
    assert not any("network_memory_bytes = 198144 " in line for line in shown(20))

    fits = shown(6)
    assert "A worker has 6 buffers of 33024 bytes (network.network_memory_bytes = 198144)." in fits
    assert "network.network_memory_bytes = 660480 to run as fast as it can" in fits

    degraded = shown(5)
    assert 'Job "sums": degraded; it runs with fewer exclusive buffers than configured.' in degraded
    assert "network.network_memory_bytes = 198144 to run as configured" in degraded
    assert "network.required_buffers_per_gate_max = 2 is the limit that it then gets" in degraded

    too_small = shown(4)
    assert 'Job "sums": too small; it is refused.' in too_small
    assert "network.network_memory_bytes = 165120 to run, degraded" in too_small


def test_the_bound_is_shown_part_by_part() -> None:
    lines = shown(6)

    start = lines.index("part worker-0 worker-1 set by")
    rows = [line for line in lines[start + 2 :] if line]
    parts = [part.replace("_", " ") for part in MemoryBound._fields]
    names = ["allocated", "expected", *parts, "at most"]
    assert len(rows) == len(names)
    assert all(row.startswith(name) for row, name in zip(rows, names, strict=True))
    assert rows[0] == "allocated 0.2 0.2 network_memory_bytes"
    assert rows[1].startswith("expected 0.7 0.6 ")
    assert rows[2] == "network memory 0.2 0.2 network_memory_bytes"


def test_the_data_that_unaligned_checkpoints_store_is_shown() -> None:
    memory = JobMemory.of_graph(keyed_graph(parallelism=4), FlinknetConfig())
    assert not any("in flight" in line for line in rendered(memory))

    lines = rendered(replace(memory, unaligned=True))

    start = lines.index("in flight worker-0 worker-1 job set by")
    rows = [line for line in lines[start + 2 :] if line]
    assert [row.split(" ", 2)[:2] for row in rows] == [
        ["network", "buffers"],
        ["broadcast", "copies"],
        ["unfinished", "records"],
        ["at", "once"],
        ["limit", "768.0"],
    ]
    assert rows[-1] == "limit 768.0 512.0 1,280.0 checkpointing.channel_state_bytes_max"


def test_broadcasts_that_forbid_another_parallelism_are_named() -> None:
    graph = keyed_graph(parallelism=4)
    edges = (replace(graph.edges[0], partitioner=BroadcastPartitioner), *graph.edges[1:])
    unaligned = JobCheckpointingConfig(1000.0, unaligned=True)
    broadcast = replace(graph, edges=edges, checkpointing=unaligned)
    ends = edges[0].source, edges[0].target
    place = " to ".join(f'"{graph.vertices[end].name}"' for end in ends)
    said = f"in-flight records of {place} the job continues only at the same parallelism"
    for job, is_said in (
        (broadcast, True),
        (replace(broadcast, checkpointing=None), False),
        (replace(graph, checkpointing=unaligned), False),
    ):
        memory = JobMemory.of_graph(job, FlinknetConfig())
        printed = io.StringIO()
        Console(file=printed, width=1_000, color_system=None).print(summary(memory))
        assert (said in printed.getvalue()) is is_said
        assert memory.to_dict()["broadcasts_in_flight"] == ([place] if is_said else [])


def test_a_name_with_brackets_is_shown_as_it_is() -> None:
    owner = BufferOwner("[bold] (1/1)", "gate", "HASH from [red]", local=0, remote=1)
    worker = WorkerNeeds("worker-0", (owner,), frozenset(), 1, readers=1)

    lines = rendered(JobMemory("[dim]", FlinknetConfig(), (worker,)))

    assert "[bold] (1/1) gate, HASH from [red] 0 1 1 3 10 0" in lines
    assert any('Job "[dim]": ' in line for line in lines)
