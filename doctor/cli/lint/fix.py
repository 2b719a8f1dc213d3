"""Fixes of a lint: planned, verified, shown as a diff or written whole."""

from __future__ import annotations

import ast
import difflib
import os
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from doctor._util.edit_file import edit_file
from doctor._util.errors import UserError
from doctor._util.units import counted, visible
from doctor.checks.script.lint import Hit
from doctor.checks.script.table import FIXES
from doctor.cli.lint.linter import Linter
from doctor.cli.lint.run import Lint
from doctor.facts.script import Span
from doctor.judge.check import Finding, Status
from doctor.judge.place import Change, Place
from doctor.script.fixes.dedent import only_moved_out
from doctor.script.fixes.differences import only_touched
from doctor.script.fixes.edits import Edit, Module, apply
from doctor.script.fixes.makers import Fix
from doctor.script.text import Unparsable

ROUNDS = 200
"""Fixes of one file at most; each round applies one."""


@dataclass(frozen=True, slots=True)
class Fixed:
    """What was fixed, and what was not and why."""

    summary: str
    refused: tuple[str, ...] = ()
    diffs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Plan:
    """One file before and after its fixes."""

    path: str
    before: bytes
    after: bytes
    fixes: Counter[str]
    refused: tuple[str, ...] = ()


def fix_files(result: Lint, *, unsafe: bool, backup: bool = True) -> Fixed:
    """Write the fixes of every file, each whole or not at all; `backup`: keep NAME.orig."""
    plans = list(_plans(result, unsafe))
    written, refused = [], [line for plan in plans for line in plan.refused]
    for plan in plans:
        if plan.after == plan.before:
            continue
        follow = plan.path in result.linter.files.named_links
        if reason := _write(plan, follow=follow, backup=backup):
            refused.append(f"{visible(plan.path)}: not fixed: {reason}")
        else:
            written.append(plan)
    return Fixed(_summary(written, "fixed"), tuple(refused))


def fix_text(result: Lint, *, unsafe: bool) -> Fixed:
    """The fixes as unified diffs."""
    plans = list(_plans(result, unsafe))
    changed = [plan for plan in plans if plan.after != plan.before]
    return Fixed(
        _summary(changed, "would be fixed"),
        tuple(line for plan in plans for line in plan.refused),
        tuple(_diff(plan) for plan in changed),
    )


def _summary(plans: list[Plan], verb: str) -> str:
    counts: Counter[str] = Counter()
    for plan in plans:
        counts.update(plan.fixes)
    total = sum(counts.values())
    codes = ", ".join(f"{code} {count}" for code, count in sorted(counts.items()))
    files = f"{counted(len(plans), 'file')}"
    return f"{total} {verb} in {files}: {codes}" if total else f"0 {verb}"


def _plans(result: Lint, unsafe: bool) -> Iterator[Plan]:
    """A plan for every file with a finding that has a fix."""
    fixes = {code: fix for code, fix in FIXES.items() if fix.safe or unsafe}
    paths = {
        place.path
        for finding in result.findings
        if finding.check.code in fixes and not finding.ignored
        for place in finding.places
    }
    for path in result.paths:
        if path in paths and path.endswith(".py"):
            data = result.data if result.data is not None else result.linter.files.read(path)
            yield plan(result.linter, path, data, fixes)


def plan(linter: Linter, path: str, data: bytes, offered: dict[str, Fix]) -> Plan:
    """All fixes of one file that pass verification, in a few rounds."""
    current, fixes, refused = data, Counter[str](), []
    tried: set[tuple[str, str]] = set()
    for _ in range(ROUNDS):
        hits = [hit for hit, _ in linter.file(path, current).hits if hit.code in offered]
        progress = False
        for hit in hits:
            if hit.undecided or hit.ignored:
                continue
            done = _one(linter, path, current, hit, offered[hit.code])
            if isinstance(done, bytes):
                current, progress = done, True
                fixes[hit.code] += 1
                break
            if done and (hit.code, str(hit.span)) not in tried:
                tried.add((hit.code, str(hit.span)))
                refused.append(f"{visible(path)}:{hit.span.line}: {hit.code} not fixed: {done}")
        if not progress:
            break
    return Plan(path, data, current, fixes, tuple(refused))


def _one(linter: Linter, path: str, data: bytes, hit: Hit, fix: Fix) -> bytes | str:
    """The file with one fix, or the reason why it is not applied, "" where there is no fix."""
    try:
        module = Module(data)
        edits = edits_of(module, hit.span, fix)
        if not edits:
            return ""
        after = apply(data, edits)
        changed = Module(after)
    except Unparsable as error:
        return f"the result would not parse ({error})"
    except (ValueError, UnicodeEncodeError) as error:
        return str(error)
    expected = (
        only_moved_out(module.tree, changed.tree)
        if fix.moves
        else only_touched(module.tree, changed.tree, _touched(module, edits))
    )
    if not expected:
        return "more than the intended nodes would change"
    return _findings_problem(linter, path, data, after, hit) or after


def edits_of(module: Module, span: Span, fix: Fix) -> list[Edit] | None:
    """The edits of a fix; None where it has none, and where an except would catch its errors.

    Code in such a try statement is a fallback for another version more often than not: an edit
    that is right for this one may make the fallback the rule.
    """
    edits = fix.make(module, span)
    if edits and any(module.is_tried(edit.start) for edit in edits):
        return None
    return edits


def _touched(module: Module, edits: list[Edit]) -> Callable[[ast.AST], bool]:
    def touched(node: ast.AST) -> bool:
        if not hasattr(node, "lineno"):
            return isinstance(node, ast.Module | ast.arguments)
        start, end = module.start(node), module.end(node)
        return any(edit.start <= end and edit.end >= start for edit in edits)

    return touched


def _findings_problem(linter: Linter, path: str, before: bytes, after: bytes, hit: Hit) -> str:
    """Why the fix is not good: the finding is still there, or a new one is."""
    old = Counter(each.code for each, _ in linter.file(path, before).hits if not each.undecided)
    new = Counter(each.code for each, _ in linter.file(path, after).hits if not each.undecided)
    if new[hit.code] >= old[hit.code]:
        return "the finding would remain"
    if more := [code for code in new if new[code] > old[code]]:
        return f"it would add {', '.join(more)}"
    return ""


def _diff(plan: Plan) -> str:
    before = plan.before.decode("utf-8", "replace").splitlines(keepends=True)
    after = plan.after.decode("utf-8", "replace").splitlines(keepends=True)
    path = visible(plan.path)
    lines = difflib.unified_diff(before, after, f"a/{path}", f"b/{path}")
    return "".join(
        line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines
    )


def _write(plan: Plan, *, follow: bool, backup: bool) -> str:
    """Replace the file; the reason why not, "" if done."""
    path = Path(os.path.realpath(plan.path) if follow else plan.path)
    try:
        edit_file(path, plan.before, plan.after, backup=backup)
    except OSError as error:
        return error.strerror or str(error)
    except UserError as error:
        return str(error)
    return ""


def with_edits(result: Lint) -> tuple[Finding, ...]:
    """The findings, their places with the edits of a fix that passes verification."""
    return tuple(_with_edits(finding, result) for finding in result.findings)


def _with_edits(finding: Finding, result: Lint) -> Finding:
    fix = FIXES.get(finding.check.code)
    if fix is None or finding.ignored or finding.status is Status.UNKNOWN:
        return finding
    places = tuple(_place_with_edits(place, fix, result) for place in finding.places)
    return replace(finding, verdict=replace(finding.verdict, places=places))


def _place_with_edits(place: Place, fix: Fix, result: Lint) -> Place:
    if place.cell or not place.path.endswith(".py"):
        return place
    span = Span(place.line, place.column, place.end_line, place.end_column)
    try:
        data = result.data if result.data is not None else result.linter.files.read(place.path)
        module = Module(data)
        edits = edits_of(module, span, fix)
        if not edits:
            return place
        Module(apply(data, edits))
    except (Unparsable, ValueError, OSError):
        return place
    changes = tuple(_change(module, edit) for edit in sorted(edits))
    return replace(place, edits=changes, edits_are_safe=fix.safe)


def _change(module: Module, edit: Edit) -> Change:
    line, column = module.position(edit.start)
    end_line, end_column = module.position(edit.end)
    return Change(
        line=line,
        column=column,
        end_line=end_line,
        end_column=end_column,
        text=edit.text.decode("utf-8", "replace"),
    )
