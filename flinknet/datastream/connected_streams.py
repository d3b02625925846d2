"""Two streams that one operator processes, with PyFlink's names."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

from flinknet.errors import ConfigurationError
from flinknet.functions.two_input_functions import (
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
)
from flinknet.functions.type_information import TypeInformation
from flinknet.operators.operators import OperatorFactory
from flinknet.operators.two_input_operator import (
    BroadcastProcessOperator,
    CoFlatMapOperator,
    CoMapOperator,
    CoProcessOperator,
)
from flinknet.state.descriptors import MapStateDescriptor

__all__ = ["BroadcastConnectedStream", "ConnectedStreams"]

S = TypeVar("S")
S_co = TypeVar("S_co", covariant=True)
KeyOf = Callable[[Any], Any]


class AddTwoInputs(Protocol[S_co]):
    """Adds the operator to the program, and returns its output stream."""

    def __call__(
        self,
        name: str,
        factory: OperatorFactory,
        output_type: TypeInformation | None,
        *,
        side_outputs: bool,
    ) -> S_co: ...


class ConnectedStreams(Generic[S]):
    """Two streams of different records; functions have one method for each stream."""

    def __init__(
        self,
        add: AddTwoInputs[S],
        keys: tuple[KeyOf | None, KeyOf | None],
        key_by: Callable[[Any, Any, TypeInformation | None], ConnectedStreams[S]],
    ) -> None:
        self._add = add
        self._keys = keys
        self._key_by = key_by

    def key_by(
        self,
        key_selector1: Any,
        key_selector2: Any,
        key_type: TypeInformation | None = None,
    ) -> ConnectedStreams[S]:
        """Partition both streams by key, so that records with equal keys reach the same subtask."""
        return self._key_by(key_selector1, key_selector2, key_type)

    def map(self, func: CoMapFunction, output_type: TypeInformation | None = None) -> S:
        """Replace each record by the result of ``map1`` or ``map2``."""
        factory = partial(CoMapOperator, _checked(func, CoMapFunction), self._keys)
        return self._add("Co-Map", factory, output_type, side_outputs=False)

    def flat_map(self, func: CoFlatMapFunction, output_type: TypeInformation | None = None) -> S:
        """Replace each record by the results of ``flat_map1`` or ``flat_map2``."""
        factory = partial(CoFlatMapOperator, _checked(func, CoFlatMapFunction), self._keys)
        return self._add("Co-Flat Map", factory, output_type, side_outputs=False)

    def process(self, func: CoProcessFunction, output_type: TypeInformation | None = None) -> S:
        """Process records as in ``flat_map``; the methods also take a ``ProcessContext``."""
        _check_keys(func, KeyedCoProcessFunction, self._keys)
        factory = partial(CoProcessOperator, _checked(func, CoProcessFunction), self._keys)
        return self._add("Co-Process", factory, output_type, side_outputs=True)


class BroadcastConnectedStream(Generic[S]):
    """A stream and a broadcast stream, with the broadcast state of every subtask."""

    def __init__(
        self,
        add: AddTwoInputs[S],
        key: KeyOf | None,
        descriptors: tuple[MapStateDescriptor, ...],
    ) -> None:
        self._add = add
        self._keys = (key, None)
        self._descriptors = descriptors

    def process(self, func: Any, output_type: TypeInformation | None = None) -> S:
        """Process records with a BroadcastProcessFunction.

        A keyed stream also takes a KeyedBroadcastProcessFunction.
        """
        if isinstance(func, KeyedBroadcastProcessFunction) and self._keys[0] is None:
            raise ConfigurationError(
                f"{type(func).__name__} is a KeyedBroadcastProcessFunction, but the stream has no "
                "key: call key_by first"
            )
        factory = partial(BroadcastProcessOperator, func, self._keys, self._descriptors)
        return self._add("Co-Process-Broadcast", factory, output_type, side_outputs=True)


def _checked(function: Any, kind: type) -> Any:
    if not isinstance(function, kind):
        raise ConfigurationError(
            f"connected streams need a {kind.__name__} here, not {type(function).__name__}"
        )
    return function


def _check_keys(function: Any, kind: type, keys: tuple[KeyOf | None, KeyOf | None]) -> None:
    if isinstance(function, kind) and None in keys:
        raise ConfigurationError(
            f"{type(function).__name__} is a {kind.__name__}, but not both streams have a key: "
            "call key_by first"
        )
