"""The features of a program, and the features that the programs of a run must have.

A feature is read from the program itself, so that each counted feature has run.
"""

from __future__ import annotations

from collections.abc import Iterator

from tests.fuzz.jobs.clusters import CLUSTERS
from tests.fuzz.jobs.conduct import MANNERS
from tests.fuzz.jobs.generator import SPREADING
from tests.fuzz.jobs.keyed_functions import STATES
from tests.fuzz.jobs.program import Program, Step
from tests.fuzz.jobs.values import KEY_POOLS, SHAPES

__all__ = ["FEATURES", "features"]

_KINDS = (
    "collection",
    "generator",
    "sequence",
    "batches",
    "map",
    "flat_map",
    "filter",
    "process",
    "map_batch",
    "project",
    "assign",
    "async",
    "count",
    "reduce",
    "aggregate",
    "extreme",
    "count_window",
    "timers",
    "window",
    "co_map",
    "co_flat_map",
    "co_process",
    "co_count",
    "rule_count",
    "broadcast_state",
    "collect",
    "iterator",
    "text files",
    "json files",
    "function",
)
_EXCHANGES = (
    *("default", "key_by", "partition_custom", "forward", "broadcast", "global_"),
    *SPREADING,
)
_SETTINGS = (
    "object_reuse",
    "chaining",
    "buffer_timeout",
    "state_backend",
    "watermark_interval",
    "latency_interval",
    "max_parallelism",
    "checkpoints",
    "unaligned",
    "aligned_timeout",
    "mode",
    "restarts",
)
_FORMS = {
    "map": ("class", "function", "coroutine"),
    "flat_map": ("class", "generator", "list", "tuple", "coroutine", "async generator"),
    "filter": ("class", "function", "coroutine"),
    "process": ("class", "list", "coroutine"),
    "map_batch": ("list", "generator"),
    "async": ("class", "coroutine", "thread"),
    "count": ("process", "map", "flat map", "batch", "filter"),
}
_OPTIONS = {
    "method": ("sum", "min", "max", "min_by", "max_by"),
    "assigner": ("tumbling", "sliding", "session"),
    "function": ("reduce", "aggregate", "process", "apply", "aggregate and process"),
    "kind": ("count", "sliding count", "global", "purging global"),
    "retry": ("fixed", "exponential"),
    "sides": ("none", "read", "unread"),
    "state": tuple(STATES),
    "key": ("function", "class", "hash"),
    "mode": ("chain", "count", "sum"),
    "at_end": (True, False),
    "ordered": (True, False),
    "keyed": (True, False),
    "late": (True, False),
    "ttl": (True, False),
    "declared": (True,),
}
_STEP_SETTINGS = ("chain", "slot_sharing_group", "buffer_timeout")
_TROUBLES = ("raise", "kill", "sleep")


def _names() -> Iterator[str]:
    yield from (f"cluster: {name}" for name in CLUSTERS)
    yield from (f"keys: {name}" for name in KEY_POOLS)
    yield from (f"step {name}" for name in _KINDS)
    yield from (f"exchange {name}" for name in _EXCHANGES)
    yield from (f"setting {name}" for name in _SETTINGS)
    yield from (f"form {kind} as {form}" for kind, forms in _FORMS.items() for form in forms)
    yield from (f"{name}={value}" for name, values in _OPTIONS.items() for value in values)
    yield from (f"step setting {name}" for name in _STEP_SETTINGS)
    yield from (f"trouble {name}" for name in _TROUBLES)
    yield from (f"manner {name}" for name in ("polite", *MANNERS, "gives its state away"))
    yield from (f"shape {name}" for name in SHAPES)
    yield from (f"parallelism {number}" for number in (1, 2, 3, 4))
    yield from (f"order {name}" for name in ("total", "key", "none"))
    yield from ("paced source", "a fork", "a union", "an event-time stream")
    yield from ("iterator and checkpoints", "two functions that fail", "kill and a file sink")
    yield from ("stopped and continued", "continued at another parallelism")


FEATURES = tuple(_names())
"""All features that must be drawn."""


def features(program: Program) -> set[str]:
    """Return the features of a program."""
    found = {f"cluster: {program.cluster}", f"keys: {program.keys}"}
    found |= {f"setting {name}" for name in program.settings}
    if program.stop:
        found.add("stopped and continued")
    if program.rescale:
        found.add("continued at another parallelism")
    reads = [(one.step, one.side) for step in program.steps for one in step.inputs]
    if len(set(reads)) < len(reads):
        found.add("a fork")
    kinds = {step.kind for step in program.steps}
    if "iterator" in kinds and "checkpoints" in program.settings:
        found.add("iterator and checkpoints")
    if program.kills and kinds & {"text files", "json files"}:
        found.add("kill and a file sink")
    troubles = [step.trouble.kind for step in program.steps if step.trouble is not None]
    if troubles.count("raise") > 1:
        found.add("two functions that fail")
    for step in program.steps:
        found.update(_features_of_step(step))
    return found


def _features_of_step(step: Step) -> Iterator[str]:
    yield f"step {step.kind}"
    yield from (f"exchange {one.exchange}" for one in step.inputs)
    if step.kind in _FORMS:
        yield f"form {step.kind} as {step.form}"
    yield from (f"{name}={step.options[name]}" for name in _OPTIONS if name in step.options)
    yield from (f"step setting {name}" for name in step.settings)
    if step.trouble is not None:
        yield f"trouble {step.trouble.kind}"
    yield f"manner {step.manner}"
    change = step.options.get("change")
    shape = step.options.get("shape") or (change.shape if change is not None else None)
    if shape is not None:
        yield f"shape {shape}"
    yield f"parallelism {step.parallelism}"
    yield f"order {step.order}"
    if "records_per_s" in step.options:
        yield "paced source"
    if step.kind == "map" and len(step.inputs) > 1:
        yield "a union"
    if step.timed:
        yield "an event-time stream"
