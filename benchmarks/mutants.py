"""Mutation testing by hand: `python benchmarks/mutants.py checks/gpu/device.py [tests ...]`.

Changes one thing at a time in a copy of the repository (a comparison, a boolean, a number, an
arithmetic operator, a condition), runs the fast tests that name the module or one of its codes, and
prints the changes that no test noticed. `--every 5` tries each fifth mutant.
"""

from __future__ import annotations

import argparse
import ast
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

ROOT = Path(__file__).parents[1]
COPIED = ("checks", "doctor", "tests", "docs", "schemas", "README.md", "pyproject.toml")
COMPARISONS = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
    ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
OPERATORS = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult,
    ast.And: ast.Or, ast.Or: ast.And,
}  # fmt: skip


@dataclass(frozen=True)
class Mutant:
    line: int
    change: str
    text: str
    """The whole module, changed."""


def variants(node: ast.AST) -> Iterator[ast.AST]:
    """The same node with one thing changed."""
    new: Any = deepcopy(node)
    if isinstance(node, ast.Compare) and type(node.ops[0]) in COMPARISONS:
        new.ops[0] = COMPARISONS[type(node.ops[0])]()
        yield new
    elif isinstance(node, ast.BinOp | ast.BoolOp) and type(node.op) in OPERATORS:
        new.op = OPERATORS[type(node.op)]()
        yield new
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield new.operand
    elif isinstance(node, ast.Constant) and type(node.value) is bool:
        new.value = not node.value
        yield new
    elif isinstance(node, ast.Constant) and type(node.value) in (int, float):
        new.value = node.value + 1
        yield new
    elif isinstance(node, ast.IfExp):
        new.body, new.orelse = new.orelse, new.body
        yield new


def is_text(node: ast.AST) -> bool:
    """What only words depend on: the record of a check, f-strings, annotations."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return node.func.id in ("Check", "Source")
    return isinstance(node, ast.JoinedStr)


def candidates(node: ast.AST) -> Iterator[ast.expr]:
    for name, value in ast.iter_fields(node):
        for child in value if isinstance(value, list) else [value]:
            if not isinstance(child, ast.AST) or is_text(child):
                continue
            if name in ("annotation", "returns", "decorator_list"):
                continue
            if isinstance(child, ast.expr):
                yield child
            yield from candidates(child)


def mutants(source: str) -> Iterator[Mutant]:
    lines = source.encode().splitlines(keepends=True)
    starts = [sum(map(len, lines[:number])) for number in range(len(lines) + 1)]
    data = source.encode()
    for node in candidates(ast.parse(source)):
        begin = starts[node.lineno - 1] + node.col_offset
        end = starts[(node.end_lineno or 0) - 1] + (node.end_col_offset or 0)
        for new in variants(node):
            old, text = data[begin:end].decode(), f"({ast.unparse(new)})"
            changed = data[:begin] + text.encode() + data[end:]
            yield Mutant(node.lineno, f"{old} -> {text}", changed.decode())


def tests_of(module: Path, source: str) -> list[str]:
    """Test files that name the module or a code that it defines."""
    name = ".".join(module.with_suffix("").parts)
    name = f"doctor.{name}" if module.parts[0] == "checks" else name
    words = [re.escape(name), *re.findall(r'code="([A-Z]{3}\d{3})"', source)]
    named = re.compile("|".join(rf"\b{word}\b" for word in words))
    found = [
        path.relative_to(ROOT)
        for folder in ("checks", "judge", "report", "facts", "prescribe")
        for path in (ROOT / "tests" / folder).rglob("test_*.py")
        if named.search(path.read_text("utf-8"))
    ]
    return sorted({str(path) for path in found} | {"tests/test_machines.py"})


def passes(folder: Path, tests: list[str]) -> bool:
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-m", "not slow", *tests]
    search = os.pathsep.join([str(folder), str(folder / "tests/support")])
    env = {**os.environ, "PYTHONPATH": search, "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        done = subprocess.run(command, cwd=folder, env=env, capture_output=True, timeout=300)
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("module", type=Path, help="relative to the repository")
    parser.add_argument("tests", nargs="*", help="default: those that name it")
    parser.add_argument("--every", type=int, default=1)
    wanted = parser.parse_args()
    source = (ROOT / wanted.module).read_text("utf-8")
    tests = wanted.tests or tests_of(wanted.module, source)
    print("tests:", *tests)
    chosen = list(mutants(source))[:: wanted.every]
    survivors = 0
    with TemporaryDirectory() as name:
        for each in COPIED:
            if (ROOT / each).is_dir():
                shutil.copytree(ROOT / each, Path(name, each), symlinks=True)
            else:
                shutil.copy(ROOT / each, name)
        if not passes(Path(name), tests):
            sys.exit("the tests fail without any change")
        for mutant in chosen:
            Path(name, wanted.module).write_text(mutant.text, "utf-8")
            if passes(Path(name), tests):
                survivors += 1
                print(f"survived: {wanted.module}:{mutant.line}: {mutant.change}", flush=True)
    print(f"{len(chosen) - survivors} of {len(chosen)} killed")


if __name__ == "__main__":
    main()
