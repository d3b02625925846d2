"""Texts that leave a process are harmless, whatever they contain."""

from __future__ import annotations

import pytest

from flinknet.texts import TEXT_CHARACTERS_MAX, counted, printable, text_of, traceback_of


class WithoutTextError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("not even this")


class NumberAsTextError(Exception):
    def __str__(self) -> str:
        return 5  # type: ignore[return-value]  # noqa: PLE0307


@pytest.mark.parametrize(
    ("number", "shown"), [(0, "0 workers"), (1, "1 worker"), (2000, "2,000 workers")]
)
def test_a_counted_noun_is_singular_for_one(number: int, shown: str) -> None:
    assert counted(number, "worker") == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain ü 漢 🐘, tab\tand\nnewline", "plain ü 漢 🐘, tab\tand\nnewline"),
        ("lone \ud800 and \udfff", r"lone \ud800 and \udfff"),
        ("\x1b[2J\x1b]0;title\x07", r"\x1b[2J\x1b]0;title\x07"),
        ("over\rwritten", r"over\rwritten"),
        ("\x00\x08\x7f\x85\x9b31m", r"\x00\x08\x7f\x85\x9b31m"),
        ("\u2028\u202eevil\u2066", r"\u2028\u202eevil\u2066"),
    ],
)
def test_control_characters_and_surrogates_are_written_out(text: str, shown: str) -> None:
    assert printable(text) == shown
    assert printable(shown) == shown, "a second time changes nothing"
    shown.encode()


def test_every_character_below_the_astral_planes_can_be_encoded_and_shown() -> None:
    text = printable("".join(map(chr, range(0x10000))))
    assert text.encode().decode() == text
    controls = {chr(code) for code in (*range(0x20), *range(0x7F, 0xA0))}
    assert controls & set(text) == {"\t", "\n"}


def test_the_text_of_an_error_that_has_none_names_its_type() -> None:
    assert text_of(WithoutTextError()) == (
        "<WithoutTextError without a text: its __str__ raised RuntimeError>"
    )
    assert text_of(NumberAsTextError()) == (
        "<NumberAsTextError without a text: its __str__ raised TypeError>"
    )


def test_a_text_has_a_greatest_length() -> None:
    assert len(text_of(ValueError("x" * 10_000_000))) == TEXT_CHARACTERS_MAX + len(" ...")
    assert text_of(ValueError("abcdef"), 3) == "abc ..."
    assert text_of(ValueError("abc"), 3) == "abc"


def test_the_traceback_of_an_error_without_a_text() -> None:
    try:
        raise WithoutTextError from ValueError("\ud800\x1b[2J")
    except WithoutTextError as error:
        shown = traceback_of(error)
    assert r"ValueError: \ud800\x1b[2J" in shown
    assert "WithoutTextError" in shown
    assert shown.count("\n") > 3


class HiddenCauseError(Exception):
    @property
    def __cause__(self) -> BaseException:  # type: ignore[override]
        raise RuntimeError("hidden")


def test_an_error_whose_traceback_cannot_be_made() -> None:
    assert traceback_of(HiddenCauseError()) == "<no traceback of HiddenCauseError: RuntimeError>"
