"""Certificates are made, shown and renewed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509

from flinknet.cli.certs import init
from flinknet.cli.main import main
from tests.certificates import Authority


@pytest.fixture(autouse=True)
def _wide_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")


def exit_code(*arguments: object) -> int:
    with pytest.raises(SystemExit) as exit_:
        main(["certs", *map(str, arguments)])
    assert isinstance(exit_.value.code, int)
    return exit_.value.code


def loaded(path: Path) -> x509.Certificate:
    return x509.load_pem_x509_certificate(path.read_bytes())


def days_left(path: Path) -> int:
    left = loaded(path).not_valid_after_utc - datetime.now(UTC) + timedelta(minutes=1)
    return left.days


def test_an_authority_makes_certificates(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = tmp_path / "certs"
    assert exit_code("init", place) == 0
    assert exit_code("issue", place, "worker-*") == 0
    hosts = ("--host", "10.0.0.1", "--host", "::1", "--host", "coordinator.example")
    assert exit_code("issue", place, "coordinator", *hosts, "--days", 7) == 0
    capsys.readouterr()
    assert exit_code("show", place) == 0
    shown = capsys.readouterr().out
    for expected in ("worker-*", "coordinator, 10.0.0.1, ::1, coordinator.example", "authority"):
        assert expected in shown
    assert days_left(place / "coordinator.pem") == 7
    assert days_left(place / "worker-any.pem") == 90
    assert place.stat().st_mode & 0o777 == 0o700
    keys = sorted(place.glob("*.key"))
    assert [key.name for key in keys] == ["ca.key", "coordinator.key", "worker-any.key"]
    assert {key.stat().st_mode & 0o777 for key in keys} == {0o600}


def test_no_key_is_written_to_a_file_of_another_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other users may be able to write to the directory.

    Even a file with a guessed name is refused.
    """
    monkeypatch.setattr("flinknet.machine.token_hex", lambda count: "guessed")
    place = tmp_path / "certs"
    place.mkdir()
    stolen = tmp_path / "stolen"
    stolen.touch(mode=0o666)
    (place / ".ca.key.guessed").symlink_to(stolen)
    with pytest.raises(FileExistsError):
        init(place)
    assert stolen.read_bytes() == b""


def test_certificates_that_expire_soon_are_renewed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """They keep their names and get another key."""
    authority = Authority(tmp_path / "certs")
    authority.issue("worker-0", "10.0.0.1", days=3)
    authority.issue("worker-1", days=60)
    soon, later = (authority.files(name)[0] for name in ("worker-0", "worker-1"))
    before, untouched = loaded(soon), later.read_bytes()
    capsys.readouterr()
    assert exit_code("renew", authority.directory, "--within", 30) == 0
    assert capsys.readouterr().out == f"{soon}\n"
    assert days_left(soon) == 90
    assert loaded(soon).public_key() != before.public_key()
    names = x509.SubjectAlternativeName
    assert (
        loaded(soon).extensions.get_extension_for_class(names).value
        == before.extensions.get_extension_for_class(names).value
    )
    assert later.read_bytes() == untouched


def test_a_certificate_ends_with_its_authority(tmp_path: Path) -> None:
    """``renew`` fails rather than issue another certificate that ends soon."""
    place = tmp_path / "certs"
    assert exit_code("init", place, "--days", 5) == 0
    assert exit_code("issue", place, "worker-0", "--days", 90) == 0
    assert days_left(place / "worker-0.pem") == 5
    assert exit_code("renew", place) == 2


def test_invalid_requests_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    authority = Authority(tmp_path / "certs")
    for arguments, said in (
        (("init", authority.directory), "already has an authority"),
        (("issue", authority.directory, "../ca"), "cannot be the name"),
        (("issue", authority.directory, "ca"), "cannot be the name"),
        (("issue", authority.directory, "w\u00f6rker"), "ASCII letters"),
        (("issue", tmp_path, "worker-0"), "has no authority"),
        (("show", tmp_path), "has no certificates"),
    ):
        assert exit_code(*arguments) == 2
        assert said in capsys.readouterr().err
    key = authority.directory / "ca.key"
    key.chmod(0o644)
    assert exit_code("issue", authority.directory, "worker-0") == 2
    assert f"chmod 600 {key}" in capsys.readouterr().err
