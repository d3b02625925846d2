"""Progress of the demo: a live line on a terminal, plain lines elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from rich.console import Console
from rich.status import Status

from flinknet import machine

__all__ = ["DemoProgress"]

PLAIN_LINE_INTERVAL_S = 1.0
"""Interval between two progress lines if they cannot be overwritten."""


class DemoProgress:
    """Consecutive phases; ``phases`` holds the duration of each in seconds."""

    def __init__(self, console: Console) -> None:
        self.phases: dict[str, float] = {}
        self._console = console
        self._status: Status | None = None
        self._phase = ""
        self._begun_s = self._shown_s = 0.0

    @contextmanager
    def phase(self, name: str, detail: str = "") -> Iterator[None]:
        """Show the phase until the block ends, then its duration if the block succeeded."""
        self._phase = f"{name}, {detail}" if detail else name
        self._begun_s = self._shown_s = machine.monotonic()
        with ExitStack() as shown:
            if self._console.is_terminal:
                self._status = shown.enter_context(self._console.status(self._phase))
                shown.callback(setattr, self, "_status", None)
            else:
                self.say(f"{self._phase} ...")
            yield
        self.phases[name] = machine.monotonic() - self._begun_s
        self.say(f"{self._phase}: {self.phases[name]:.1f} s")

    def say(self, text: str) -> None:
        """Print a permanent line."""
        self._console.print(text, highlight=False, soft_wrap=True)

    def records(self, taken: int, total: int) -> None:
        """Show the progress of the current phase."""
        now_s = machine.monotonic()
        if self._status is None and now_s - self._shown_s < PLAIN_LINE_INTERVAL_S:
            return
        self._shown_s = now_s
        rate = taken / max(now_s - self._begun_s, 1e-9)
        text = f"{self._phase}: {taken:,} of {total:,} records ({taken / total:.0%}), {rate:,.0f}/s"
        if self._status is None:
            self.say(text)
        else:
            self._status.update(text)
