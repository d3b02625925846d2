"""What a window keeps of its records, and what it says of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

from flinknet.compatibility.subscripted import Subscripted
from flinknet.errors import ConfigurationError
from flinknet.functions.calls import bound_function, is_awaiting
from flinknet.functions.functions import AggregateFunction, Function
from flinknet.functions.windows import Window
from flinknet.state.window_state import GlobalStateStore, WindowStateStore

__all__ = [
    "AggregatedContents",
    "AllWindowFunction",
    "ElementContents",
    "ProcessAllWindowFunction",
    "ProcessWindowFunction",
    "ReducedContents",
    "WindowContents",
    "WindowContext",
    "WindowFunction",
]


class WindowContext(Subscripted):
    """What a window function sees beside the records; valid during the call."""

    def __init__(
        self,
        window: Window,
        watermark: int,
        processing_time: int,
        window_state: WindowStateStore,
        global_state: GlobalStateStore,
    ) -> None:
        self._window = window
        self._watermark = watermark
        self._processing_time = processing_time
        self._window_state = window_state
        self._global_state = global_state

    def window(self) -> Window:
        """Return the window that speaks."""
        return self._window

    def current_watermark(self) -> int:
        """Return how far event time has come."""
        return self._watermark

    def current_processing_time(self) -> int:
        """Return milliseconds since 1970."""
        return self._processing_time

    def window_state(self) -> WindowStateStore:
        """Return what state of the key in this window is asked for; it goes with the window."""
        return self._window_state

    def global_state(self) -> GlobalStateStore:
        """Return what state of the key in all windows is asked for; it stays."""
        return self._global_state


class ProcessWindowFunction(Function, ABC):
    """The records of a key in a window in, any number out."""

    Context: TypeAlias = WindowContext

    @abstractmethod
    def process(
        self, key: Any, context: WindowContext, elements: list[Any]
    ) -> Iterable[Any] | None:
        """Yield, or return an iterable of, records; None means none.

        Called whenever the window speaks, with all that it holds then; of one that reduces or
        aggregates, that is the one result.
        """

    def clear(self, context: WindowContext) -> Any:
        """The window goes: its state can be read for the last time, and is removed behind this."""


class WindowFunction(Function, ABC):
    """The same, with nothing but the window beside the records."""

    @abstractmethod
    def apply(self, key: Any, window: Window, inputs: list[Any]) -> Iterable[Any] | None:
        """Yield, or return an iterable of, records; None means none."""


class ProcessAllWindowFunction(Function, ABC):
    """The records of a window in, any number out, on a stream without keys."""

    Context: TypeAlias = WindowContext

    @abstractmethod
    def process(self, context: WindowContext, elements: list[Any]) -> Iterable[Any] | None:
        """Yield, or return an iterable of, records; None means none."""

    def clear(self, context: WindowContext) -> Any:
        """The window goes: its state can be read for the last time, and is removed behind this."""


class AllWindowFunction(Function, ABC):
    """The same, with nothing but the window beside the records."""

    @abstractmethod
    def apply(self, window: Window, inputs: list[Any]) -> Iterable[Any] | None:
        """Yield, or return an iterable of, records; None means none."""


class WindowContents(ABC):
    """What a window keeps; ``function`` is the user's, None if there is none."""

    function: Any = None

    keeps_timestamps = False
    """Whether a record comes as a tuple, behind its timestamp."""

    @abstractmethod
    def first(self, value: Any) -> Any:
        """Return what is kept of the first record."""

    @abstractmethod
    def add(self, kept: Any, value: Any) -> Any:
        """Return what is kept when one more has come; it may be ``kept``, changed."""

    @abstractmethod
    def merge(self, one: Any, other: Any) -> Any:
        """Return what is kept of two windows that become one."""

    @abstractmethod
    def elements(self, kept: Any) -> list[Any]:
        """Return what a window function gets."""

    def fire(self, kept: list[Any], window: Window, context: Any) -> list[Any] | None:
        """The window speaks: return what its function gets, None if it is not to be called;
        ``kept`` has what is kept, and may be changed or emptied."""
        return self.elements(kept[0])


class ElementContents(WindowContents):
    """All records, in the order in which they came."""

    def first(self, value: Any) -> Any:
        return [value]

    def add(self, kept: Any, value: Any) -> Any:
        kept.append(value)
        return kept

    def merge(self, one: Any, other: Any) -> Any:
        return [*one, *other]

    def elements(self, kept: Any) -> list[Any]:
        return list(kept)


class ReducedContents(WindowContents):
    """What a reduce function makes of them."""

    def __init__(self, function: Any) -> None:
        self.function = function
        self._reduce = _plain(function, "reduce")

    def first(self, value: Any) -> Any:
        return value

    def add(self, kept: Any, value: Any) -> Any:
        return self._reduce(kept, value)

    def merge(self, one: Any, other: Any) -> Any:
        return self._reduce(one, other)

    def elements(self, kept: Any) -> list[Any]:
        return [kept]


class AggregatedContents(WindowContents):
    """An accumulator; windows that merge need the function's ``merge``."""

    def __init__(
        self,
        function: AggregateFunction,
        *,
        merges: bool,
        convert: Callable[[Any], Any] | None = None,
    ) -> None:
        if not isinstance(function, AggregateFunction):
            raise ConfigurationError(
                f"aggregate needs an AggregateFunction, not {type(function).__name__}"
            )
        if merges and type(function).merge is AggregateFunction.merge:
            raise ConfigurationError(
                f"{type(function).__name__} has no merge, which session windows need: they become "
                "one when a record comes between them"
            )
        self.function = function
        add = _plain(function, "add")
        self._add = add if convert is None else _converting(add, convert)

    def first(self, value: Any) -> Any:
        return self._add(value, self.function.create_accumulator())

    def add(self, kept: Any, value: Any) -> Any:
        return self._add(value, kept)

    def merge(self, one: Any, other: Any) -> Any:
        return self.function.merge(one, other)

    def elements(self, kept: Any) -> list[Any]:
        return [self.function.get_result(kept)]


def _converting(add: Callable[..., Any], convert: Callable[[Any], Any]) -> Callable[..., Any]:
    return lambda value, accumulator: convert(add(value, accumulator))


def _plain(function: Any, method: str) -> Callable[..., Any]:
    call = bound_function(function, method)
    if is_awaiting(call):
        raise ConfigurationError(f"{method} cannot be a coroutine function here: use process()")
    return call
