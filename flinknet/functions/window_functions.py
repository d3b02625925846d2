"""Window functions, and the contents that a window keeps for them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, TypeAlias

from flinknet.compatibility.subscripted import A, B, K, Subscripted, W
from flinknet.errors import ConfigurationError
from flinknet.functions.calls import bound_function, is_awaiting
from flinknet.functions.functions import AggregateFunction, Function
from flinknet.functions.results import ResultsOrTagged
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


class WindowContext(Subscripted[W]):
    """The context of a window function; valid during the call."""

    def __init__(
        self,
        window: W,
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

    def window(self) -> W:
        """Return the window that fires."""
        return self._window

    def current_watermark(self) -> int:
        """Return the current watermark, in milliseconds since 1970."""
        return self._watermark

    def current_processing_time(self) -> int:
        """Return the current processing time, in milliseconds since 1970."""
        return self._processing_time

    def window_state(self) -> WindowStateStore:
        """Return the store of the key's state in this window; it is removed with the window."""
        return self._window_state

    def global_state(self) -> GlobalStateStore:
        """Return the store of the key's state over all windows; it outlives them."""
        return self._global_state


class ProcessWindowFunction(Function, Subscripted[A, B, K, W], ABC):
    """A function that turns the records of a key in a window into any number of records."""

    Context: TypeAlias = WindowContext

    @abstractmethod
    def process(self, key: K, context: WindowContext[W], elements: list[A]) -> ResultsOrTagged[B]:
        """Yield, or return an iterable of, records; None means none.

        Called whenever the window fires, with all its records. If the window reduces or aggregates,
        ``elements`` holds the one result.
        """

    def clear(self, context: WindowContext[W]) -> Any:
        """Read the window's state for the last time before it is removed."""


class WindowFunction(Function, Subscripted[A, B, K, W], ABC):
    """A ProcessWindowFunction that receives only the window, without a context."""

    @abstractmethod
    def apply(self, key: K, window: W, inputs: list[A]) -> ResultsOrTagged[B]:
        """Yield, or return an iterable of, records; None means none."""


class ProcessAllWindowFunction(Function, Subscripted[A, B, W], ABC):
    """A function on the records of a window, on a stream without keys."""

    Context: TypeAlias = WindowContext

    @abstractmethod
    def process(self, context: WindowContext[W], elements: list[A]) -> ResultsOrTagged[B]:
        """Yield, or return an iterable of, records; None means none."""

    def clear(self, context: WindowContext[W]) -> Any:
        """Read the window's state for the last time before it is removed."""


class AllWindowFunction(Function, Subscripted[A, B, W], ABC):
    """A ProcessAllWindowFunction that receives only the window, without a context."""

    @abstractmethod
    def apply(self, window: W, inputs: list[A]) -> ResultsOrTagged[B]:
        """Yield, or return an iterable of, records; None means none."""


class WindowContents(ABC):
    """The contents of a window; ``function`` is the user's function, or None."""

    function: Any = None

    keeps_timestamps = False
    """Whether records are passed as tuples ``(timestamp, record)``."""

    @abstractmethod
    def first(self, value: Any) -> Any:
        """Return the contents after the first record."""

    @abstractmethod
    def add(self, kept: Any, value: Any) -> Any:
        """Return the contents after one more record; ``kept`` may be changed in place."""

    @abstractmethod
    def merge(self, one: Any, other: Any) -> Any:
        """Return the contents of two windows that are merged."""

    @abstractmethod
    def elements(self, kept: Any) -> list[Any]:
        """Return the window function's input."""

    def fire(self, kept: list[Any], window: Window, context: Any) -> list[Any] | None:
        """Return the window function's input when the window fires; None for no call.

        ``kept`` is a list with the window's contents; ``fire`` may change or empty it.
        """
        return self.elements(kept[0])


class ElementContents(WindowContents):
    """All records, in order of arrival."""

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
    """The result of a reduce function."""

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
    """An accumulator; merging windows need the function's ``merge``.

    ``convert`` converts the accumulator to its declared type after each record.
    """

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
                f"{type(function).__name__} has no merge, which session windows need: two of them "
                "merge when a record falls between them"
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
