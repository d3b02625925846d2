"""TLS is on with all three files, and off without any."""

from __future__ import annotations

from typing import Any

import pytest

from flinknet.config import TlsConfig
from flinknet.errors import ConfigurationError

FILES: Any = {"certificate": "a.pem", "private_key": "a.key", "authority": "ca.pem"}
FINGERPRINT = "ab" * 32


def test_it_is_on_if_all_files_are_named() -> None:
    assert TlsConfig(**FILES).is_on
    assert not TlsConfig().is_on
    for left_out in FILES:
        with pytest.raises(ConfigurationError, match="set all three, or none"):
            TlsConfig(**{**FILES, left_out: ""})


def test_fingerprints_are_written_as_tools_print_them() -> None:
    colons = ":".join(FINGERPRINT[i : i + 2].upper() for i in range(0, 64, 2))
    config = TlsConfig(**FILES, pinned=f"{colons}, {'cd' * 32},")
    assert config.fingerprints == {FINGERPRINT, "cd" * 32}
    assert TlsConfig(**FILES).fingerprints == frozenset()


@pytest.mark.parametrize("pinned", ["ab", FINGERPRINT + "a", "gg" * 32])
def test_an_invalid_fingerprint_is_refused(pinned: str) -> None:
    with pytest.raises(ConfigurationError, match="64 hexadecimal digits"):
        TlsConfig(**FILES, pinned=pinned)


def test_options_without_tls_are_refused() -> None:
    """A reader would otherwise believe that TLS is on."""
    with pytest.raises(ConfigurationError, match="TLS is off"):
        TlsConfig(pinned=FINGERPRINT)
    with pytest.raises(ConfigurationError, match="TLS is off"):
        TlsConfig(coordinator_name="here")
