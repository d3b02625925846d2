"""Values that no option may have are refused when the configuration is made, with the option's
name."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, fields
from typing import Any, Literal

import pytest

from flinknet.config import (
    BufferDebloatConfig,
    ClusterConfig,
    FlinknetConfig,
    NetworkConfig,
    WireLimits,
)
from flinknet.config.checks import (
    check_fields,
    require,
    require_at_least,
    require_port,
    require_positive,
)
from flinknet.errors import ConfigurationError
from tests.naming import spelled

SECTIONS = [BufferDebloatConfig, ClusterConfig, FlinknetConfig, NetworkConfig, WireLimits]
FIELDS = [(section, field.name) for section in SECTIONS for field in fields(section)]


def refusal(section: type[Any], name: str, value: object) -> str:
    with pytest.raises(ConfigurationError) as raised:
        section(**{name: value})
    return str(raised.value)


@pytest.mark.parametrize(
    "value",
    [None, b"1", [1], {}, object(), float("nan"), float("inf"), -float("inf"), 2**1024, 1e300],
    ids=spelled,
)
def test_a_value_of_a_wrong_type_is_refused_with_the_field_name(value: object) -> None:
    for section, name in FIELDS:
        message = refusal(section, name, value)
        assert message.startswith(f"{name} is ")
        assert len(message) < 300


@pytest.mark.parametrize("value", [-(2**63), 2**70, "7", True, 0.5], ids=spelled)
def test_a_silly_value_is_taken_or_refused_with_the_name(value: object) -> None:
    """Some of these values are legal for some fields. None may cause an error of another type."""
    for section, name in FIELDS:
        with suppress(ConfigurationError):
            section(**{name: value})
            continue
        assert name in refusal(section, name, value)


def test_a_negative_number_is_refused() -> None:
    for section, name in FIELDS:
        if type(getattr(section(), name)) in (int, float):
            assert name in refusal(section, name, -2)


# -- each check -----------------------------------------------------------------------------------


@dataclass
class Section:
    """A section with one field of each kind."""

    count: int = 1
    share: float = 0.5
    enabled: bool = False
    name: str = "name"
    mode: Literal["on", "off"] = "on"
    timeout: float | Literal["adaptive"] = 1.0


def refused(check: Any, *arguments: Any) -> str:
    with pytest.raises(ConfigurationError) as raised:
        check(*arguments)
    return str(raised.value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("count", 2**63 - 1),
        ("count", -(2**63) + 1),
        ("share", 3),
        ("enabled", True),
        ("name", ""),
        ("mode", "off"),
        ("timeout", "adaptive"),
        ("timeout", 0),
    ],
)
def test_a_valid_value_is_accepted(name: str, value: Any) -> None:
    check_fields(Section(**{name: value}))


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("count", "7", "count is '7': choose a whole number"),
        ("count", True, "count is True: choose a whole number"),
        ("count", 2**63, f"count is out of range: choose a number up to {2**63 - 1}"),
        ("share", True, "share is True: choose a number"),
        ("share", 1e300, "share is 1e+300: choose a number up to 31536000000"),
        ("share", 2**1024, "share is out of range: choose a number up to 31536000000"),
        ("share", float("nan"), "share is nan: choose a number up to 31536000000"),
        ("enabled", 1, "enabled is 1: choose true or false"),
        ("name", None, "name is None: choose a text"),
        ("mode", "auto", 'mode is \'auto\': choose "on" or "off"'),
        ("mode", 1, 'mode is 1: choose "on" or "off"'),
        ("timeout", "adapt", "timeout is 'adapt': choose a number or \"adaptive\""),
    ],
    ids=spelled,
)
def test_an_invalid_value_is_refused_with_the_valid_ones(
    name: str, value: Any, message: str
) -> None:
    assert refused(check_fields, Section(**{name: value})) == message


def test_a_section_inside_a_section_is_named_by_its_type() -> None:
    @dataclass
    class Outer:
        inner: object

    Outer.__annotations__["inner"] = Section
    assert refused(check_fields, Outer(None)) == "inner is None: choose a Section"


def test_a_requirement_is_refused_with_its_message() -> None:
    require(True, "not said")
    assert refused(require, False, "choose another") == "choose another"


def test_a_least_value_holds_for_every_field_named() -> None:
    require_at_least(Section(count=3, share=3.0), 3, "count", "share")
    assert refused(require_at_least, Section(count=3, share=2.5), 3, "count", "share") == (
        "share is 2.5: choose 3 or more"
    )


def test_a_duration_is_positive() -> None:
    require_positive(Section(share=0.1), "count", "share")
    assert refused(require_positive, Section(share=0.0), "count", "share") == (
        "share is 0.0: choose a positive duration"
    )


@pytest.mark.parametrize("port", [-1, 65536])
def test_a_port_is_one_of_tcps(port: int) -> None:
    require_port(0, "data_port")
    require_port(65535, "data_port")
    assert refused(require_port, port, "data_port") == (
        f"data_port is {port}: choose 0 (any free port) to 65535"
    )
