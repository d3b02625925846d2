"""Small faults that can be planted in a module, as replacements of its text.

Each fault changes one place: a comparison, a condition, a number, an operator, a statement. Texts,
annotations, assertions and log calls stay as they are, because no test should hold them. A fault is
named by its file, its function and its line before and after, so that a change elsewhere in the
file neither renames it nor changes the sample of a seed.
"""

from __future__ import annotations

import ast
import hashlib
import re
import warnings
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

__all__ = ["Mutant", "mutants_of", "sample"]

COMPARISONS: dict[type[ast.cmpop], tuple[str, str]] = {
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.Is: ("is", "is not"),
    ast.IsNot: (r"is\s+not", "is"),
    ast.In: ("in", "not in"),
    ast.NotIn: (r"not\s+in", "in"),
}
"""Pattern of each comparison, and its replacement. The replacement of an inequality differs from it
only at equality."""

NEGATED_BY_COMPARISON = (ast.Eq, ast.NotEq, ast.Is, ast.IsNot, ast.In, ast.NotIn)

ARITHMETIC: dict[type[ast.operator], tuple[str, str]] = {
    ast.Add: (r"\+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: (r"\*", "//"),
    ast.FloorDiv: ("//", "*"),
    ast.Div: ("/", "*"),
    ast.Mod: ("%", "//"),
    ast.LShift: ("<<", ">>"),
    ast.RShift: (">>", "<<"),
    ast.BitAnd: ("&", "|"),
    ast.BitOr: (r"\|", "&"),
}

NOT_CHECKED = {"__repr__", "__str__", "check_invariants"}
"""Functions whose result is a text, or that check others."""

DECLARATIONS = {"__all__", "__slots__", "__match_args__"}
LOGGERS = {"log", "_log", "logger"}
NOT_IMPLEMENTED = {"overload", "abstractmethod"}
NO_BEHAVIOUR = {"strict", "init", "repr", "slots", "frozen"}
"""Keywords that assert something or that only matter to a reader of the code."""
TYPES = {"TypeVar", "ParamSpec", "NewType", "TypeVarTuple"}


@dataclass(frozen=True)
class Mutant:
    """One fault: ``replacement`` of the bytes from ``start`` to ``end`` of a file."""

    file: str
    inside: str
    """Qualified name of the function or class; empty at the top of the module."""
    line: int
    last_line: int
    kind: str
    is_called: bool
    """Whether it is inside a function, and so does not run when the module is imported."""
    start: int
    end: int
    replacement: str
    before: str
    after: str
    number: int = 0
    """Position among faults of the same function with the same lines before and after."""

    @property
    def name(self) -> tuple[str, str, str, str, int]:
        return (self.file, self.inside, self.before, self.after, self.number)

    def planted(self, source: bytes) -> bytes:
        """Return the source of the module with this fault."""
        return source[: self.start] + self.replacement.encode() + source[self.end :]

    def compiles(self, source: bytes) -> bool:
        try:
            with warnings.catch_warnings(action="ignore"):
                compile(self.planted(source), self.file, "exec")
        except SyntaxError:
            return False
        return True

    def __str__(self) -> str:
        where = f" in {self.inside}" if self.inside else ""
        before = "".join(f"\n    - {line}" for line in self.before.splitlines())
        after = "".join(f"\n    + {line}" for line in self.after.splitlines())
        return f"{self.file}:{self.line}{where} ({self.kind}){before}{after}"


def mutants_of(file: str, source: bytes) -> list[Mutant]:
    """Return every fault that can be planted in a module, in the order of its text."""
    planter = _Planter(file, source)
    planter.visit(ast.parse(source))
    seen: Counter[tuple[str, str, str, str, int]] = Counter()
    found = []
    for mutant in sorted(planter.found, key=lambda one: (one.start, one.end, one.replacement)):
        found.append(replace(mutant, number=seen[mutant.name]))
        seen[mutant.name] += 1
    return found


def sample(files: Iterable[str], root: Path, seed: int, number: int) -> list[Mutant]:
    """Choose ``number`` faults of these files by the seed, and return them by file and line.

    A larger number chooses the same ones and more.
    """
    sources = {file: (root / file).read_bytes() for file in files}
    every = [mutant for file, source in sources.items() for mutant in mutants_of(file, source)]
    every.sort(key=lambda mutant: hashlib.sha256(repr((seed, mutant.name)).encode()).digest())
    chosen: list[Mutant] = []
    for mutant in every:
        if len(chosen) == number:
            break
        if mutant.compiles(sources[mutant.file]):
            chosen.append(mutant)
    return sorted(chosen, key=lambda one: (one.file, one.start, one.end, one.replacement))


class _Planter(ast.NodeVisitor):
    """Collects the faults of a module."""

    def __init__(self, file: str, source: bytes) -> None:
        self.found: list[Mutant] = []
        self._file = file
        self._source = source
        self._lines = source.splitlines(keepends=True)
        self._starts = [0]
        for line in self._lines:
            self._starts.append(self._starts[-1] + len(line))
        self._scopes: list[str] = []
        self._functions = 0

    # -- positions and replacements

    def _start(self, node: ast.expr | ast.stmt) -> int:
        return self._starts[node.lineno - 1] + node.col_offset

    def _end(self, node: ast.expr | ast.stmt) -> int:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return self._starts[node.end_lineno - 1] + node.end_col_offset

    def _text(self, node: ast.expr | ast.stmt) -> str:
        return self._source[self._start(node) : self._end(node)].decode()

    def _replace(self, kind: str, node: ast.expr | ast.stmt, replacement: str) -> None:
        self._plant(kind, self._start(node), self._end(node), replacement)

    def _replace_between(
        self, kind: str, left: ast.expr, right: ast.expr, change: tuple[str, str]
    ) -> None:
        """Replace the operator between two operands."""
        start, end = self._end(left), self._start(right)
        gap = self._source[start:end].decode()
        pattern, replacement = change
        found = re.search(pattern, gap)
        if found is None or "#" in gap:
            return
        offset = len(gap[: found.start()].encode())
        self._plant(kind, start + offset, start + offset + len(found[0].encode()), replacement)

    def _plant(self, kind: str, start: int, end: int, replacement: str) -> None:
        first = self._line_at(start)
        last = self._line_at(max(start, end - 1))
        whole, until = self._starts[first - 1], self._starts[last]
        before = self._source[whole:until].decode()
        after = (
            self._source[whole:start] + replacement.encode() + self._source[end:until]
        ).decode()
        self.found.append(
            Mutant(
                file=self._file,
                inside=".".join(self._scopes),
                line=first,
                last_line=last,
                kind=kind,
                is_called=self._functions > 0,
                start=start,
                end=end,
                replacement=replacement,
                before=_stripped(before),
                after=_stripped(after),
            )
        )

    def _line_at(self, offset: int) -> int:
        low, high = 0, len(self._lines) - 1
        while low < high:
            middle = (low + high + 1) // 2
            if self._starts[middle] <= offset:
                low = middle
            else:
                high = middle - 1
        return low + 1

    # -- scopes

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        decorators = {_last_name(one) for one in node.decorator_list}
        if node.name in NOT_CHECKED or decorators & NOT_IMPLEMENTED:
            return
        self._scopes.append(node.name)
        self._visit_all(node.args.defaults)
        self._visit_all([one for one in node.args.kw_defaults if one is not None])
        self._functions += 1
        self._visit_all(node.body)
        self._functions -= 1
        self._scopes.pop()

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self.visit_FunctionDef(node)

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self._functions += 1
        self.visit(node.body)
        self._functions -= 1

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        if any(_last_name(base) == "Protocol" for base in node.bases):
            return
        self._scopes.append(node.name)
        self._visit_all(node.body)
        self._scopes.pop()

    def _visit_all(self, nodes: Sequence[ast.AST]) -> None:
        for node in nodes:
            self.visit(node)

    # -- statements

    def visit_Assert(self, node: ast.Assert) -> None:
        """Leave assertions alone: they check, and are not checked."""

    def visit_Assign(self, node: ast.Assign) -> None:
        if any(isinstance(one, ast.Name) and one.id in DECLARATIONS for one in node.targets):
            return
        if self._functions and any(isinstance(one, ast.Attribute) for one in node.targets):
            self._replace("removed assignment", node, "pass")
        self._visit_all(node.targets)
        self.visit(node.value)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None and _last_name(node.annotation) != "TypeAlias":
            self.visit(node.value)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self._replace("removed assignment", node, "pass")
        if (change := ARITHMETIC.get(type(node.op))) is not None:
            self._replace_between("arithmetic", node.target, node.value, change)
        self.visit(node.value)

    def visit_Delete(self, node: ast.Delete) -> None:
        if any(isinstance(one, ast.Attribute | ast.Subscript) for one in node.targets):
            self._replace("removed del", node, "pass")

    def visit_Expr(self, node: ast.Expr) -> None:
        call = node.value.value if isinstance(node.value, ast.Await) else node.value
        if isinstance(call, ast.Call):
            if isinstance(call.func, ast.Attribute) and _last_name(call.func.value) in LOGGERS:
                return
            self._replace("removed call", node, "pass")
        self.visit(node.value)

    def visit_Raise(self, node: ast.Raise) -> None:
        if node.exc is None or _last_name(node.exc) != "NotImplementedError":
            self._replace("removed raise", node, "pass")

    def visit_Return(self, node: ast.Return) -> None:
        if node.value is None:
            self._replace("removed return", node, "pass")
            return
        if not isinstance(node.value, ast.Constant) or isinstance(node.value.value, str | bytes):
            self._replace("changed return", node, "return None")
        self.visit(node.value)

    def visit_Break(self, node: ast.Break) -> None:
        self._replace("loop", node, "continue")

    def visit_Continue(self, node: ast.Continue) -> None:
        self._replace("loop", node, "break")

    def visit_If(self, node: ast.If) -> None:
        if _last_name(node.test) == "TYPE_CHECKING":
            return
        self._negate(node.test)
        self.generic_visit(node)

    def visit_While(self, node: ast.While) -> None:
        self._negate(node.test)
        self.generic_visit(node)

    def visit_match_case(self, node: ast.match_case) -> None:
        if node.guard is not None:
            self._negate(node.guard)
            self.visit(node.guard)
        self._visit_all(node.body)

    # -- expressions

    def visit_IfExp(self, node: ast.IfExp) -> None:
        self._negate(node.test)
        self.generic_visit(node)

    def visit_comprehension(self, node: ast.comprehension) -> None:
        for test in node.ifs:
            self._negate(test)
        self.generic_visit(node)

    def _negate(self, test: ast.expr) -> None:
        """Negate a condition, unless the fault of its comparison or of its ``not`` does."""
        if isinstance(test, ast.Constant) or (
            isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not)
        ):
            return
        if (
            isinstance(test, ast.Compare)
            and len(test.ops) == 1
            and isinstance(test.ops[0], NEGATED_BY_COMPARISON)
        ):
            return
        self._replace("negated condition", test, f"not ({self._text(test)})")

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, ast.Not):
            self._replace("negated condition", node, f"({self._text(node.operand)})")
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        operands = [node.left, *node.comparators]
        for left, op, right in zip(operands, node.ops, node.comparators, strict=False):
            self._replace_between("comparison", left, right, COMPARISONS[type(op)])
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        change = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
        for left, right in zip(node.values, node.values[1:], strict=False):
            self._replace_between("and/or", left, right, change)
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        # Outside functions, | is between types.
        if isinstance(node.op, ast.BitOr) and not self._functions:
            return
        change = ARITHMETIC.get(type(node.op))
        if change is not None and not (_is_text(node.left) or _is_text(node.right)):
            self._replace_between("arithmetic", node.left, node.right, change)
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, bool):
            self._replace("constant", node, str(not node.value))
        elif isinstance(node.value, int | float):
            self._replace("constant", node, str(node.value + 1))
            if node.value:
                self._replace("constant", node, str(node.value - 1))

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """Leave texts alone."""

    def visit_Slice(self, node: ast.Slice) -> None:
        for bound in (node.lower, node.upper):
            if bound is not None and not isinstance(bound, ast.Constant):
                self._replace("slice", bound, f"({self._text(bound)}) + 1")
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        name = _last_name(node.func)
        # The arguments of an error are its text and the numbers in it.
        if name in TYPES or name.endswith(("Error", "Exception", "Violation")):
            return
        self.visit(node.func)
        self._visit_all(node.args[1:] if name == "cast" else node.args)
        self._visit_all([one.value for one in node.keywords if one.arg not in NO_BEHAVIOUR])


def _last_name(node: ast.expr) -> str:
    """Return the name in ``name``, ``module.name``, ``name[...]`` and ``name(...)``."""
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case ast.Call(func=inner) | ast.Subscript(value=inner):
            return _last_name(inner)
    return ""


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or (
        isinstance(node, ast.Constant) and isinstance(node.value, str | bytes)
    )


def _stripped(lines: str) -> str:
    return "\n".join(line.strip() for line in lines.strip().splitlines())
