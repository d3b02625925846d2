"""A program's own modules reach a process that cannot import them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]

HELPERS = """
import functools, threading
from dataclasses import dataclass
import package.deep

LOCK = threading.Lock()

@dataclass
class Event:
    value: int

@functools.lru_cache
def square(number):
    return number * number

def locked(number):
    with LOCK:
        return number

def more(event):
    return Event(package.twice(square(event.value)) + package.deep.ONE)
"""
PACKAGE = "from .deep import twice\n"
DEEP = """
from . import other
ONE = 1

def twice(number):
    return other.times(number, 2)
"""
OTHER = """
import package.deep

def times(number, factor):
    return number * factor * package.deep.ONE
"""
SENDS = """
import sys
sys.path.insert(0, sys.argv[1])
import helpers, os.path, cloudpickle
from flinknet.graph.program_modules import program_modules
from flinknet.graph.pickler import dumps, send_by_value
own = sorted(module.__name__ for module in program_modules())
assert own == ["helpers", "package", "package.deep", "package.other"], own
send_by_value(program_modules())
def one(value):
    return helpers.more(helpers.Event(value)).value
sys.stdout.buffer.write(dumps((one, lambda: helpers.locked(1), helpers.more)))
"""
TAKES = """
import pickle, sys
one, locked, more = pickle.load(sys.stdin.buffer)
from flinknet.graph.pickler import dumps
again, _, more = pickle.loads(dumps((one, locked, more)))  # as for another subtask
print(one(3), again(4), type(more.__globals__["package"]).__name__)
try:
    locked()
except pickle.PicklingError as error:
    print(error)
"""


def test_modules_beside_the_program_travel_by_value(tmp_path: Path) -> None:
    package = tmp_path / "program" / "package"
    package.mkdir(parents=True)
    installed = tmp_path / "program" / "venv" / "site-packages"
    installed.mkdir(parents=True)
    (installed / "installed.py").write_text("")
    helpers = f"import sys\nsys.path.append({str(installed)!r})\n__import__('installed')\n{HELPERS}"
    (package.parent / "helpers.py").write_text(helpers)
    (package / "__init__.py").write_text(PACKAGE)
    (package / "deep.py").write_text(DEEP)
    (package / "other.py").write_text(OTHER)
    program = package.parent / "program.py"
    program.write_text(SENDS)
    variables = {"PYTHONPATH": str(ROOT)}
    sent = subprocess.run(
        [sys.executable, str(program), str(package.parent)],
        env=variables,
        capture_output=True,
        check=False,
    )
    assert sent.returncode == 0, sent.stderr.decode()
    taken = subprocess.run(
        [sys.executable, "-c", TAKES],
        input=sent.stdout,
        env=variables,
        cwd="/",
        capture_output=True,
        check=False,
    )
    assert taken.returncode == 0, taken.stderr.decode()
    computed, refusal = taken.stdout.decode().splitlines()
    assert computed == "19 33 module"
    assert "helpers.locked was not sent to the worker" in refusal
    assert "cannot pickle '_thread.lock' object" in refusal
