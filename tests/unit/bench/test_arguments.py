"""The command line refuses unknown names before it measures anything."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.cli import main
from bench.errors import UsageError
from bench.harness.family import choose

CASES = "tuple, long, bytes-1k, bytes-32k, dict"


def refusal(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(SystemExit) as exit_:
        main(arguments)
    assert exit_.value.code == 2
    captured = capsys.readouterr()
    assert not captured.out
    return captured.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nothing"], "there is no family 'nothing': choose from exchange"),
        (
            ["exchange", "--case", "tuple,quadruple"],
            f"there is no case of exchange 'quadruple': choose from {CASES}",
        ),
        (["exchange", "--case", ""], "there is no case of exchange ''"),
        (
            ["exchange", "--against", "carrier-pigeon"],
            "there is no system 'carrier-pigeon': choose from flinknet, stream",
        ),
        (["exchange", "--runs", "0"], "--runs is 0: choose 1 or more"),
        (["exchange", "--json", "no/such/place.json"], "name a file in a directory that exists"),
        (["exchange", "--json", "figure.png"], "that is where the figure would go"),
    ],
)
def test_what_does_not_exist_is_refused_with_what_does(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert message in refusal(["run", *arguments], capsys)


@pytest.mark.parametrize("arguments", [["run"], ["race"], ["run", "exchange", "--fast"]])
def test_misuse_is_exit_code_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert refusal(arguments, capsys)


def test_a_directory_is_no_json_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    message = refusal(["run", "exchange", "--json", str(tmp_path)], capsys)
    assert "name a file in a directory that exists" in message


def test_names_are_chosen_once_in_the_order_of_the_tables() -> None:
    existing = {"a": 1, "b": 2, "c": 3}
    assert choose("letter", "c, a,c", existing) == ("a", "c")
    assert choose("letter", None, existing) == ("a", "b", "c")
    with pytest.raises(UsageError, match="there is no letter 'd': choose from a, b, c"):
        choose("letter", "a,d", existing)


def test_list_shows_families_cases_and_systems(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_:
        main(["list"])
    assert exit_.value.code == 0
    printed = capsys.readouterr().out
    for name in ("exchange", *CASES.split(", "), "stream"):
        assert name in printed
