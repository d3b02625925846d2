"""The generator: it draws a random job from a seed alone.

It adds steps one by one to the open ends of the graph. It knows how far the order of each stream is
determined (``Order``), and whether its records have timestamps. It draws only functions with a
determined result: on a stream in any order a keyed function counts, and on an ordered one it
computes a number that depends on all records before. No record exceeds the bound of event time, so
that none is late. If chance decides which record has which number, its timestamps are random, too,
and such a stream counts as not timed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, TypeVar

from tests.fuzz.jobs.clusters import CLUSTERS
from tests.fuzz.jobs.conduct import MANNERS
from tests.fuzz.jobs.keyed_functions import STATES
from tests.fuzz.jobs.program import Change, Input, Order, Program, Step, Trouble
from tests.fuzz.jobs.values import KEY_POOLS, SHAPES

__all__ = ["SPREADING", "generate"]

T = TypeVar("T")

STEPS_MAX = 5
RECORDS_MAX = 60
STOP_SHARE, KILL_SHARE, RAISE_SHARE = 0.05, 0.02, 0.15
"""Shares of all programs. Kills and stops take seconds, other programs a tenth of a second."""

SPREADING = ("rebalance", "rescale", "shuffle", "adaptive rebalance", "adaptive rescale")


@dataclass(frozen=True)
class End:
    """A stream that a step may read."""

    step: int
    side: bool = False


def order_behind(order: Order, exchange: str, before: int, after: int) -> Order:
    """Return how far the order is determined behind an exchange.

    The exchange is from ``before`` subtasks to ``after`` subtasks.
    """
    if exchange in ("key_by", "partition_custom", "global_"):
        return "key" if order == "total" and after > 1 else order
    if after == 1 or exchange == "forward" or (exchange == "default" and before == after):
        return order
    return "none"


class Generator:
    """The construction of one program."""

    def __init__(self, seed: int) -> None:
        self._random = Random(f"job {seed}")
        self._seed = seed
        self._steps: list[Step] = []
        self._ends: list[End] = []
        self._trouble_left: list[Trouble] = []

    # -- the program ------------------------------------------------------------------------------

    def program(self) -> Program:
        """Draw a program."""
        run = self._random.random()
        self._stop = run < STOP_SHARE
        self._kill = not self._stop and run < STOP_SHARE + KILL_SHARE
        raises = not self._kill and not self._stop and self._random.random() < RAISE_SHARE
        self._fails = self._kill or raises
        self._rescale = self._stop and self._chance(0.7)
        self._object_reuse = self._chance(0.15)
        self._keys = self._one_of(tuple(KEY_POOLS))
        self._types = self._keys == "texts" and self._chance(0.8)
        self._is_broadcast = False
        cluster = self._one_of(tuple(CLUSTERS))
        settings = self._settings()
        if self._kill:
            self._trouble_left.append(Trouble("kill", self._random.randint(2, 25)))
        if raises:
            self._trouble_left.append(Trouble("raise", self._random.randint(1, 30)))
            if self._chance(0.3):
                self._trouble_left.append(Trouble("raise", self._random.randint(1, 30)))
        if self._chance(0.1):
            self._trouble_left.append(Trouble("sleep", self._random.randint(1, 10)))
        for _ in range(self._random.choice((1, 1, 1, 1, 2, 2, 3))):
            self._add_source()
        for _ in range(self._random.randint(1, STEPS_MAX)):
            self._add_operator()
        while self._ends:
            self._add_sink(settings)
        return Program(
            self._seed,
            tuple(self._with_trouble()),
            settings,
            cluster,
            self._keys,
            self._stop,
            self._rescale,
        )

    def _settings(self) -> dict[str, Any]:
        settings: dict[str, Any] = {}
        if self._object_reuse:
            settings["object_reuse"] = True
        if self._chance(0.15):
            settings["chaining"] = False
        if self._chance(0.5):
            settings["buffer_timeout"] = self._one_of((-1, 0, 1, 100, "adaptive"))
        if self._chance(0.3):
            settings["state_backend"] = "rocksdb"
        if self._chance(0.4):
            settings["watermark_interval"] = self._one_of((0, 1, 20))
        if self._chance(0.1):
            settings["latency_interval"] = 5
        if self._chance(0.1):
            settings["max_parallelism"] = 4 if not self._rescale else 16
        if self._kill or self._chance(0.5):
            settings["checkpoints"] = self._one_of((10, 20, 50))
            if self._chance(0.4):
                settings["unaligned"] = True
                if self._chance(0.4):
                    settings["aligned_timeout"] = self._one_of((1, 10))
            elif not self._fails and self._chance(0.2):
                settings["mode"] = "at least once"
        if self._fails:
            settings["restarts"] = 20
        return settings

    def _with_trouble(self) -> list[Step]:
        """Return the steps, some with the trouble that was drawn."""
        able = [step.number for step in self._steps if step.kind in TROUBLED]
        troubles = {}
        for trouble in self._trouble_left:
            if able:
                troubles[self._random.choice(able)] = trouble
        return [
            step.with_trouble(troubles[step.number]) if step.number in troubles else step
            for step in self._steps
        ]

    # -- sources ----------------------------------------------------------------------------------

    def _add_source(self) -> None:
        kind = self._one_of(("collection", "generator", "sequence", "batches"))
        parallelism = 1 if self._chance(0.7) else self._parallelism()
        options: dict[str, Any] = {
            "count": self._random.randint(1 if self._chance(0.1) else 5, RECORDS_MAX),
            "shape": self._one_of(SHAPES),
            "payloads": self._chance(0.6),
        }
        if self._stop:
            kind = "batches"
            options["hold_at"] = self._random.randint(0, options["count"])
        elif (self._kill or self._chance(0.1)) and kind != "batches":
            options["records_per_s"] = 2000.0 if not self._kill else 400.0
        manner = "polite"
        if self._is_rude() and kind in ("generator", "batches") and self._chance(0.5):
            manner = "reuses one object"
        timed = self._chance(0.65)
        if timed:
            options["jitter_ms"] = self._one_of((0, 35))
        self._add(
            kind,
            (),
            parallelism,
            options,
            manner=manner,
            order="total" if parallelism == 1 else "none",
            timed=timed,
        )

    # -- operators --------------------------------------------------------------------------------

    def _add_operator(self) -> None:
        end = self._take_end()
        if end is None:
            return
        step = self._steps[end.step]
        names = list(ANY_STREAM)
        if step.timed:
            names += TIMED_STREAM * 3
        if len(self._ends) >= 1:
            names += TWO_STREAMS * 2
        name = self._one_of(names)
        getattr(self, f"_add_{name}")(end)

    def _take_end(self) -> End | None:
        """Return a stream to read, which other steps may read, too."""
        if not self._ends:
            return None
        end = self._one_of(self._ends)
        if len(self._ends) > 3 or not self._chance(0.2):
            self._ends.remove(end)
        return end

    def _add_map(self, end: End) -> None:
        change = self._change()
        options: dict[str, Any] = {"change": change}
        if self._types:
            change = Change(change.times, change.plus, change.payload, change.bare, change.keys)
            options = {
                "change": _in_shape(change, self._one_of(("tuple", "row"))),
                "declared": True,
            }
        self._add_plain(end, "map", options, ("class", "function", "coroutine"))

    def _add_flat_map(self, end: End) -> None:
        forms = ("class", "generator", "list", "tuple", "coroutine", "async generator")
        options = {"change": self._change(), "most": self._random.randint(1, 3)}
        self._add_plain(end, "flat_map", options, forms)

    def _add_filter(self, end: End) -> None:
        options = {"modulus": self._random.randint(2, 5)}
        self._add_plain(end, "filter", options, ("class", "function", "coroutine"))

    def _add_process(self, end: End) -> None:
        options = {"change": self._change(), "most": self._random.randint(1, 2)}
        self._add_plain(
            end, "process", options | self._sides(), ("class", "list", "coroutine"), sides=True
        )

    def _add_map_batch(self, end: End) -> None:
        options = {"change": self._change()}
        self._add_plain(end, "map_batch", options, ("list", "generator"), timed=False)

    def _add_identity(self, end: End) -> None:
        """Add a map function that returns its argument."""
        self._add_plain(end, "map", {"change": Change()}, ("function",))

    def _add_project(self, end: End) -> None:
        end = self._in_shape(end, "tuple")
        self._add_plain(end, "project", {}, ("class",))

    def _add_assign(self, end: End) -> None:
        self._add_plain(end, "assign", {}, ("class",), timed=True)

    def _add_asynchronous(self, end: End) -> None:
        ordered = self._chance(0.5)
        options: dict[str, Any] = {
            "ordered": ordered,
            "change": self._change(),
            "most": self._random.randint(1, 2),
            "capacity": self._one_of((1, 3, 100)),
            "timeout_s": 60,
        }
        if self._chance(0.4):
            options["retry"] = self._one_of(("fixed", "exponential"))
        form = "class" if "retry" in options else self._one_of(("class", "coroutine", "thread"))
        self._add_plain(
            end,
            "async",
            options,
            (form,),
            timed=False,
            order=None if ordered else "none",
        )

    # -- on keyed streams -------------------------------------------------------------------------

    def _add_count(self, end: End) -> None:
        """Add a keyed function with state."""
        order, parallelism, read = self._keyed(end)
        ordered = order != "none"
        form = self._one_of(
            ("process", "process", "map", "flat map", "batch", *(("filter",) if ordered else ()))
        )
        options = {
            "mode": "chain" if ordered else "count",
            "key": self._key_form(sees_key=False),
            **self._state(),
        }
        if form == "batch" and order == "total":
            order = "key"
        self._add(
            "count",
            (read,),
            parallelism,
            options,
            manner=self._state_manner(),
            form=form,
            order=order,
            timed=self._steps[end.step].timed and form != "batch" and ordered,
        )

    def _add_reduce(self, end: End) -> None:
        """Add a reduce function; on a stream in any order, one that ignores the order."""
        at_end = self._chance(0.4)
        order = self._order_of_keyed(end)
        mode = "chain"
        if order == "none":
            mode = "sum" if at_end else "count"
            end = self._bare(end, ones=not at_end)
        order, parallelism, read = self._keyed(end)
        self._add(
            "reduce",
            (read,),
            parallelism,
            {"mode": mode, "at_end": at_end, "key": self._key_form(sees_key=False)},
            manner=self._state_manner(),
            order="none" if at_end else order,
            timed=self._steps[end.step].timed and not at_end and order != "none",
        )

    def _add_aggregate(self, end: End) -> None:
        at_end = self._chance(0.4)
        order, parallelism, read = self._keyed(end)
        mode = "chain" if order != "none" else "sum" if at_end else "count"
        self._add(
            "aggregate",
            (read,),
            parallelism,
            {
                "mode": mode,
                "at_end": at_end,
                "shape": self._one_of(SHAPES),
                "key": self._key_form(),
            },
            manner=self._state_manner(),
            order="none" if at_end else order,
            timed=self._steps[end.step].timed and not at_end and order != "none",
        )

    def _add_extreme(self, end: End) -> None:
        """Add sum, min, max, min_by or max_by."""
        method = self._one_of(("sum", "min", "max", "min_by", "max_by"))
        shape = self._one_of(("tuple", "list", "row", "dict", "point"))
        if self._order_of_keyed(end) == "none":
            method = "sum"
            end = self._bare(end, ones=True, shape=shape)
        else:
            end = self._in_shape(end, shape)
        order, parallelism, read = self._keyed(end)
        self._add(
            "extreme",
            (read,),
            parallelism,
            {"method": method, "field": "n" if shape in ("row", "dict") else 1},
            order=order,
            timed=self._steps[end.step].timed and order != "none",
        )

    def _add_count_window(self, end: End) -> None:
        order, parallelism, read = self._keyed(end)
        kinds = ("count", "sliding count", "global", "purging global")
        self._add(
            "count_window",
            (read,),
            parallelism,
            {
                "kind": self._one_of(kinds),
                "size": self._random.randint(1, 5),
                "slide": self._random.randint(1, 4),
                "ordered": order != "none",
                "shape": self._one_of(SHAPES),
                "key": self._key_form(),
            },
            manner=self._manner_of_functions(),
        )

    # -- on streams with timestamps ---------------------------------------------------------------

    def _add_timers(self, end: End) -> None:
        _, parallelism, read = self._keyed(end)
        options = {"shape": self._one_of(SHAPES), "span_ms": self._random.randint(1, 300)}
        self._add("timers", (read,), parallelism, options)

    def _add_window(self, end: End) -> None:
        assigner = self._one_of(("tumbling", "sliding", "session"))
        size = self._random.randint(1, 400)
        slide = self._random.randint(max(1, size // 4), size * 2)
        function = self._one_of(
            ("reduce", "aggregate", "process", "apply", "aggregate and process")
        )
        late = self._chance(0.2)
        is_keyed = self._chance(0.75)
        if not is_keyed:
            end = self._changed(end, Change(keys=1))
        end = self._bare(end) if function == "reduce" else end
        if is_keyed:
            _, parallelism, read = self._keyed(end)
        else:
            parallelism, read = 1, Input(end.step, "default", end.side)
        self._add(
            "window",
            (read,),
            parallelism,
            {
                "assigner": assigner,
                "size_ms": size,
                "slide_ms": slide,
                "offset_ms": self._one_of((0, 0, 3)),
                "function": function,
                "late": late,
                "lateness_ms": self._one_of((0, 50)),
                "shape": self._one_of(SHAPES),
                "keyed": is_keyed,
            },
            manner=self._state_manner(),
        )

    # -- on two streams ---------------------------------------------------------------------------

    def _add_union(self, end: End) -> None:
        ends = [end, *(self._like(end) for _ in range(self._random.randint(1, 2)))]
        timed = all(self._steps[one.step].timed for one in ends)
        reads, parallelism = self._spread(ends)
        self._add("map", reads, parallelism, {"change": self._change()}, timed=timed)

    def _like(self, end: End) -> End:
        """Return another stream that agrees with this one about event time, or the same stream.

        A stream without timestamps holds back only the end of event time, as does a stream that
        emits its records when its input ends. Beside a stream of the other kind, chance would
        decide which timers fire before its records.
        """
        step = self._steps[end.step]
        fitting = [one for one in self._ends if self._steps[one.step].agrees_with(step)]
        other = self._one_of(fitting or [end])
        if other in self._ends:
            self._ends.remove(other)
        return other

    def _add_co_map(self, end: End) -> None:
        self._add_connected(end, "co_map", {})

    def _add_co_flat_map(self, end: End) -> None:
        self._add_connected(end, "co_flat_map", {"most": 2})

    def _add_co_process(self, end: End) -> None:
        self._add_connected(end, "co_process", {"most": 2} | self._sides(), sides=True)

    def _add_connected(
        self, end: End, kind: str, options: dict[str, Any], *, sides: bool = False
    ) -> None:
        ends = (end, self._like(end))
        timed = all(self._steps[one.step].timed for one in ends)
        reads, parallelism = self._spread(ends)
        options = {"change": self._change(), "other": self._change(), **options}
        self._add(
            kind,
            reads,
            parallelism,
            options,
            manner=self._manner_of_functions(),
            timed=timed,
            sides=sides,
        )

    def _add_co_count(self, end: End) -> None:
        ends = (end, self._like(end))
        parallelism = self._parallelism()
        modes = [self._keyed(one, parallelism)[0] != "none" for one in ends]
        options = {
            "modes": tuple("chain" if ordered else "count" for ordered in modes),
            **self._state(),
            **self._sides(),
        }
        reads = tuple(Input(one.step, "key_by", one.side) for one in ends)
        self._add(
            "co_count",
            reads,
            parallelism,
            options,
            manner=self._state_manner(),
            sides=True,
        )

    def _add_broadcast_state(self, end: End) -> None:
        other = self._like(end)
        rules = Input(other.step, "broadcast", other.side)
        keyed = self._chance(0.5)
        if keyed:
            order, parallelism, read = self._keyed(end)
            options = {"mode": "chain" if order != "none" else "count", **self._state()}
            self._add(
                "rule_count", (read, rules), parallelism, options, manner=self._state_manner()
            )
            return
        (read,), parallelism = self._spread((end,))
        self._add(
            "broadcast_state",
            (read, rules),
            parallelism,
            {"change": self._change()},
            manner=self._manner_of_functions(),
        )

    # -- sinks ------------------------------------------------------------------------------------

    def _add_sink(self, settings: dict[str, Any]) -> None:
        end = self._ends.pop(0)
        kinds = ["collect"] * 4
        if not self._stop or "checkpoints" in settings:
            kinds += ["text files", "json files"]
        if not self._fails:
            kinds.append("function")
        collected = any(step.kind == "iterator" for step in self._steps)
        is_checkpointed = "checkpoints" in settings
        may_collect = not self._stop and (not self._fails or is_checkpointed)
        if not collected and may_collect:
            kinds += ["iterator"]
        kind = self._one_of(kinds)
        source = self._steps[end.step]
        parallelism = source.parallelism if kind == "iterator" else self._parallelism()
        read = Input(end.step, "default", end.side)
        order = order_behind(source.order, "default", source.parallelism, parallelism)
        manner = self._manner_of_functions() if kind == "function" else "polite"
        self._add(kind, (read,), parallelism, {}, manner=manner, order=order, is_end=False)

    # -- parts of steps ---------------------------------------------------------------------------

    def _add_plain(
        self,
        end: End,
        kind: str,
        options: dict[str, Any],
        forms: Sequence[str],
        *,
        timed: bool | None = None,
        order: Order | None = None,
        sides: bool = False,
    ) -> None:
        """Add an operator that has one input and no key."""
        (read,), parallelism = self._spread((end,))
        step = self._steps[end.step]
        behind = order_behind(step.order, read.exchange, step.parallelism, parallelism)
        change = options.get("change")
        if change is not None and change.keys is not None and behind == "key":
            behind = "none"
        self._add(
            kind,
            (read,),
            parallelism,
            options,
            manner=self._manner_of_functions(),
            form=self._one_of(forms),
            order=behind if order is None else order,
            timed=step.timed if timed is None else timed,
            sides=sides,
        )

    def _add(
        self,
        kind: str,
        inputs: tuple[Input, ...],
        parallelism: int,
        options: dict[str, Any],
        *,
        manner: str = "polite",
        form: str = "class",
        order: Order = "none",
        timed: bool = False,
        sides: bool = False,
        is_end: bool = True,
    ) -> End:
        settings: dict[str, Any] = {}
        if self._chance(0.1):
            settings["chain"] = self._one_of(("disable_chaining", "start_new_chain"))
        if self._chance(0.06):
            settings["slot_sharing_group"] = "other"
        if self._chance(0.08):
            settings["buffer_timeout"] = self._one_of((0, 1, -1))
        step = Step(
            len(self._steps),
            kind,
            inputs,
            parallelism,
            options,
            manner,
            form,
            None,
            settings,
            order,
            timed,
            timed or kind == "assign" or any(self._steps[one.step].stamped for one in inputs),
        )
        self._steps.append(step)
        end = End(step.number)
        if is_end:
            self._ends.append(end)
            if sides and options.get("sides") == "read":
                self._ends.append(End(step.number, side=True))
        return end

    def _keyed(self, end: End, parallelism: int | None = None) -> tuple[Order, int, Input]:
        parallelism = parallelism or self._parallelism()
        step = self._steps[end.step]
        order = order_behind(step.order, "key_by", step.parallelism, parallelism)
        return order, parallelism, Input(end.step, "key_by", end.side)

    def _order_of_keyed(self, end: End) -> Order:
        return self._steps[end.step].order

    def _spread(self, ends: Sequence[End]) -> tuple[tuple[Input, ...], int]:
        """Return the inputs of an operator without a key, and its parallelism."""
        parallelism = self._parallelism()
        if self._chance(0.6):
            parallelism = self._steps[ends[0].step].parallelism
        reads = []
        for end in ends:
            before = self._steps[end.step].parallelism
            exchanges = ["default"] * 9 + [*SPREADING, "global_", "partition_custom"]
            if before == parallelism:
                exchanges += ["forward"] * 2
            if not self._rescale and not self._is_broadcast:
                exchanges.append("broadcast")
            exchange = self._one_of(exchanges)
            self._is_broadcast |= exchange == "broadcast"
            reads.append(Input(end.step, exchange, end.side))
        return tuple(reads), parallelism

    def _bare(self, end: End, *, ones: bool = False, shape: str | None = None) -> End:
        """Return a stream without payloads; with ``ones``, every number is 1."""
        times, plus = (0, 1) if ones else (1, 0)
        change = Change(times, plus, bare=True, shape=shape or self._one_of(SHAPES))
        return self._changed(end, change)

    def _in_shape(self, end: End, shape: str) -> End:
        return self._changed(end, Change(shape=shape))

    def _changed(self, end: End, change: Change) -> End:
        step = self._steps[end.step]
        read = Input(end.step, "default", end.side)
        made = self._add(
            "map",
            (read,),
            step.parallelism,
            {"change": change},
            order=step.order,
            timed=step.timed,
            manner=self._manner_of_functions(),
        )
        self._ends.remove(made)
        return made

    def _change(self) -> Change:
        return Change(
            self._one_of((1, 1, 3, 7)),
            self._random.randint(0, 5),
            self._random.randint(0, 50) if self._chance(0.3) else None,
            False,
            self._random.randint(1, 6) if self._chance(0.15) else None,
            self._one_of(SHAPES) if self._chance(0.5) else None,
        )

    def _sides(self) -> dict[str, Any]:
        return {"sides": self._one_of(("none", "read", "read", "unread"))}

    def _state(self) -> dict[str, Any]:
        return {
            "state": self._one_of(tuple(STATES)),
            "shape": self._one_of(SHAPES),
            "ttl": self._chance(0.3),
        }

    def _key_form(self, *, sees_key: bool = True) -> str:
        """Draw the form of the key selector; a hash only where functions do not see the key."""
        forms = ["function", "class"]
        if self._keys == "texts" and not sees_key:
            forms += ["hash"] * 2
        return self._one_of(forms)

    def _is_rude(self) -> bool:
        return not self._object_reuse

    def _manner_of_functions(self) -> str:
        return self._one_of(("polite", *MANNERS)) if self._is_rude() else "polite"

    def _state_manner(self) -> str:
        if self._is_rude() and self._chance(0.6):
            return "gives its state away"
        return "polite"

    def _parallelism(self) -> int:
        return self._random.choice((1, 1, 1, 2, 2, 2, 3, 3, 4))

    def _chance(self, share: float) -> bool:
        return self._random.random() < share

    def _one_of(self, choices: Sequence[T]) -> T:
        return self._random.choice(choices)


ANY_STREAM = [
    "map",
    "map",
    "flat_map",
    "filter",
    "process",
    "map_batch",
    "identity",
    "project",
    "assign",
    "asynchronous",
    "count",
    "count",
    "count",
    "reduce",
    "aggregate",
    "extreme",
    "extreme",
    "count_window",
]
TIMED_STREAM = ["timers", "window", "window"]
TWO_STREAMS = ["union", "co_map", "co_flat_map", "co_process", "co_count", "broadcast_state"]

TROUBLED = (
    "map",
    "flat_map",
    "filter",
    "process",
    "map_batch",
    "async",
    "count",
    "reduce",
    "aggregate",
    "timers",
    "window",
    "co_map",
    "co_flat_map",
    "co_process",
    "co_count",
    "broadcast_state",
    "rule_count",
)
"""Kinds of steps with functions that may fail."""


def _in_shape(change: Change, shape: str) -> Change:
    return Change(change.times, change.plus, change.payload, change.bare, change.keys, shape)


def generate(seed: int) -> Program:
    """Return the program of a seed."""
    return Generator(seed).program()
