"""Which names the statements of a script make and read, and what they depend on."""

from __future__ import annotations

import ast
import builtins
import symtable
from collections.abc import Sequence

from doctor.probes.training_side.subject.flat_script import name_of

SEEDS = ("manual_seed", "seed", "seed_everything", "set_seed", "set_float32_matmul_precision")
"""Calls that are kept for their effect."""
DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
Scope = Sequence[ast.stmt]


def names_in(node: ast.AST, context: type[ast.expr_context]) -> set[str]:
    return {
        each.id
        for each in ast.walk(node)
        if isinstance(each, ast.Name) and isinstance(each.ctx, context)
    }


def made_in(statement: ast.stmt) -> set[str]:
    names = names_in(statement, ast.Store)
    if isinstance(statement, DEFINITIONS):
        names = {statement.name}
    if isinstance(statement, (ast.Import, ast.ImportFrom)):
        names = {(each.asname or each.name).partition(".")[0] for each in statement.names}
    return names


def read_in(statements: Scope) -> set[str]:
    """Names that the statements read and do not make before."""
    read: set[str] = set()
    for each in reversed(statements):
        read = (read - made_in(each)) | (names_in(each, ast.Load) - arguments(each))
    return read


def arguments(statement: ast.stmt) -> set[str]:
    """The parameters and local names of a function that is defined there."""
    if not isinstance(statement, ast.FunctionDef):
        return set()
    return {each.arg for each in statement.args.args} | names_in(statement, ast.Store)


def uses_any(statement: ast.stmt, names: set[str]) -> bool:
    parameters = {each.arg for each in ast.walk(statement) if isinstance(each, ast.arg)}
    return bool(names & names_in(statement, ast.Load) - parameters - names_in(statement, ast.Store))


def uses(statement: ast.stmt, name: str) -> bool:
    return name in names_in(statement, ast.Load)


def needed(statements: Scope, wanted: set[str]) -> list[ast.stmt]:
    """The statements that what is wanted depends on, in their order."""
    wanted, kept = set(wanted), list[ast.stmt]()
    others = [each for each in statements if not isinstance(each, (ast.Import, ast.ImportFrom))]
    while True:  # a function may read what is made after it
        before = len(kept)
        for each in reversed(others):
            if each not in kept and (made_in(each) & wanted or acts_on(each, wanted)):
                kept.append(each)
                wanted |= names_in(each, ast.Load)
        if len(kept) == before:
            return in_order(statements, kept)


def in_order(scope: Scope, kept: Scope) -> list[ast.stmt]:
    return [each for each in scope if each in kept]


def acts_on(statement: ast.stmt, wanted: set[str]) -> bool:
    """A call for its effect: on an object that is wanted, or a seed."""
    if not (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call)):
        return False
    owner, _, method = name_of(statement.value.func).rpartition(".")
    if method in SEEDS:
        return True
    return owner.partition(".")[0] in wanted and method not in ("step", "zero_grad", "train")


def unbound(text: str) -> set[str]:
    """Global names that the text reads and does not make."""
    top = symtable.symtable(text, "factory", "exec")
    made = {
        each.get_name() for each in top.get_symbols() if each.is_assigned() or each.is_imported()
    }
    read: set[str] = set()
    tables = [top]
    while tables:
        table = tables.pop()
        tables += table.get_children()
        names = (each for each in table.get_symbols() if each.is_referenced())
        read |= {each.get_name() for each in names if each.is_global() or table is top}
    return read - made - set(dir(builtins)) - {"__file__", "__name__"}
