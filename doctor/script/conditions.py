"""Conditions: which arm of which branch a place is in, and what a test implies."""

from __future__ import annotations

import ast

from doctor.facts.script import Arms, Branch, Value
from doctor.script.walk import Walk


def _branch(walk: Walk, test: ast.expr, value: Value | None = None) -> tuple[int, int]:
    """The branch of a test and whether it is negated; equal tests of a scope are one branch."""
    text, flipped = _normalized(walk, test)
    key = (walk.scope, text)
    if key not in walk.branch_ids:
        walk.branch_ids[key] = len(walk.branches)
        walk.branches.append(Branch("if", value or Value("test", text=text)))
    return walk.branch_ids[key], flipped


def _normalized(walk: Walk, test: ast.expr) -> tuple[str, int]:
    flipped = 0
    while isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        test, flipped = test.operand, 1 - flipped
    if isinstance(test, ast.Compare) and len(test.ops) == 1:
        right = test.comparators[0]
        if isinstance(right, ast.Constant) and (
            right.value is None or isinstance(right.value, bool)
        ):
            negative = isinstance(test.ops[0], ast.IsNot | ast.NotEq) ^ (right.value is not True)
            return walk.segment(test.left), flipped ^ int(negative)
    return walk.segment(test), flipped


def implied(walk: Walk, test: ast.expr, holds: bool, value: Value | None = None) -> Arms:
    """The arms that follow where a test holds or not: also those of its parts.

    Where `a and not b` holds, so does a and b does not; where `a or b` does not, neither does.
    """
    branch, flipped = _branch(walk, test, value)
    arms: Arms = ((branch, flipped ^ (not holds)),)
    while isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        test, holds = test.operand, not holds
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) == holds:
        for part in test.values:
            arms += implied(walk, part, holds)
    return arms
