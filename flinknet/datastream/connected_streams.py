"""Two streams that one operator processes, with PyFlink's names."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Never, Protocol, overload

from flinknet.compatibility.subscripted import A, B, K, Subscripted, TypeVar
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

if TYPE_CHECKING:
    from flinknet.datastream.function_types import (
        BroadcastFunctionOf,
        CoFlatMaps,
        CoMaps,
        CoMapsAwaiting,
        CoProcessFunctionOf,
        KeySelectorOf,
    )
    from flinknet.datastream.streams import DataStream

__all__ = ["BroadcastConnectedStream", "ConnectedStreams"]

R = TypeVar("R", default=Never)
S = TypeVar("S", default=Never)
"""Results of a function for the first stream, and for the second one."""
KeyOf = Callable[[Any], Any]


class AddTwoInputs(Protocol):
    """Adds the operator to the program, and returns its output stream."""

    def __call__(
        self,
        name: str,
        factory: OperatorFactory,
        output_type: TypeInformation | None,
        *,
        side_outputs: bool,
    ) -> DataStream[Any]: ...


class ConnectedStreams(Subscripted[A, B]):
    """Two streams of different records; functions have one method for each stream."""

    def __init__(
        self,
        add: AddTwoInputs,
        keys: tuple[KeyOf | None, KeyOf | None],
        key_by: Callable[[Any, Any, TypeInformation | None], ConnectedStreams[A, B]],
    ) -> None:
        self._add = add
        self._keys = keys
        self._key_by = key_by

    def key_by(
        self,
        key_selector1: KeySelectorOf[A, K],
        key_selector2: KeySelectorOf[B, K],
        key_type: TypeInformation | None = None,
    ) -> ConnectedStreams[A, B]:
        """Partition both streams by key, so that records with equal keys reach the same subtask."""
        return self._key_by(key_selector1, key_selector2, key_type)

    @overload
    def map(
        self, func: CoMaps[A, B, Any, Any], output_type: TypeInformation[R]
    ) -> DataStream[R]: ...

    @overload
    def map(
        self, func: CoMapsAwaiting[A, B, R, S], output_type: None = None
    ) -> DataStream[R | S]: ...

    @overload
    def map(self, func: CoMaps[A, B, R, S], output_type: None = None) -> DataStream[R | S]: ...

    def map(self, func: Any, output_type: TypeInformation | None = None) -> DataStream[Any]:
        """Replace each record by the result of ``map1`` or ``map2``."""
        factory = partial(CoMapOperator, _checked(func, CoMapFunction), self._keys)
        return self._add("Co-Map", factory, output_type, side_outputs=False)

    @overload
    def flat_map(
        self, func: CoFlatMaps[A, B, Any, Any], output_type: TypeInformation[R]
    ) -> DataStream[R]: ...

    @overload
    def flat_map(
        self, func: CoFlatMaps[A, B, R, S], output_type: None = None
    ) -> DataStream[R | S]: ...

    def flat_map(self, func: Any, output_type: TypeInformation | None = None) -> DataStream[Any]:
        """Replace each record by the results of ``flat_map1`` or ``flat_map2``."""
        factory = partial(CoFlatMapOperator, _checked(func, CoFlatMapFunction), self._keys)
        return self._add("Co-Flat Map", factory, output_type, side_outputs=False)

    @overload
    def process(
        self, func: CoProcessFunctionOf[A, B, Any], output_type: TypeInformation[R]
    ) -> DataStream[R]: ...

    @overload
    def process(
        self, func: CoProcessFunctionOf[A, B, R], output_type: None = None
    ) -> DataStream[R]: ...

    def process(self, func: Any, output_type: TypeInformation | None = None) -> DataStream[Any]:
        """Process records as in ``flat_map``; the methods also take a ``ProcessContext``."""
        _check_keys(func, KeyedCoProcessFunction, self._keys)
        factory = partial(CoProcessOperator, _checked(func, CoProcessFunction), self._keys)
        return self._add("Co-Process", factory, output_type, side_outputs=True)


class BroadcastConnectedStream(Subscripted[A, B]):
    """A stream and a broadcast stream, with the broadcast state of every subtask."""

    def __init__(
        self,
        add: AddTwoInputs,
        key: KeyOf | None,
        descriptors: tuple[MapStateDescriptor, ...],
    ) -> None:
        self._add = add
        self._keys = (key, None)
        self._descriptors = descriptors

    @overload
    def process(
        self, func: BroadcastFunctionOf[A, B, Any], output_type: TypeInformation[R]
    ) -> DataStream[R]: ...

    @overload
    def process(
        self, func: BroadcastFunctionOf[A, B, R], output_type: None = None
    ) -> DataStream[R]: ...

    def process(self, func: Any, output_type: TypeInformation | None = None) -> DataStream[Any]:
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
