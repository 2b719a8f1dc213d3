"""One lint: paths to files, files to scripts, scripts to findings; file by file."""

from __future__ import annotations

import gc
import os
import sys
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from doctor._util.errors import UserError
from doctor._util.units import printable
from doctor.checks.script.lint import Hit, lint
from doctor.checks.script.names import codes_of, select
from doctor.checks.script.rule import RANK, STATUSES, Rule
from doctor.checks.script.table import BY_CODE, RELEVANT, RULES
from doctor.facts.script import Launch, Script
from doctor.facts.script_machine import ScriptMachine
from doctor.job.file.lint import LintTable
from doctor.judge.check import Check, Finding, Status, Verdict
from doctor.judge.place import Place
from doctor.report.lint import NO_SCRIPT
from doctor.script.discover import Files, discover, excluded
from doctor.script.launch import bind, named_launchers, read_launches, with_started
from doctor.script.read import read_script, unreadable
from doctor.script.requirements import Requirements
from doctor.script.text import LIMIT

if TYPE_CHECKING:
    from doctor.cli.lint_cache import LintCache
    from doctor.report.report import FailOn

STDIN = "-"
MANY = 400
"""Files from which on several processes read them."""
PROCESSES = 4
CHUNK = 24
"""Files that a worker takes at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LintOptions:
    """What is linted, by which rules."""

    paths: tuple[str, ...] = ()
    only: tuple[str, ...] = ()
    skip: tuple[str, ...] = ()
    fail_on: FailOn = "fail"
    stdin_filename: str = ""
    cache: str = ""
    """The directory that keeps the hits of files."""
    habits: bool = False
    """Report habits that are absent with their places."""
    table: LintTable = field(default_factory=LintTable)
    """[lint] of the job file."""
    processes: int = 0
    """0: as many as are worth it."""


@dataclass(frozen=True, slots=True)
class Linter:
    """What judging a file needs."""

    machine: ScriptMachine
    codes: frozenset[str]
    ignores: tuple[tuple[str, frozenset[str]], ...]
    """Patterns of paths, and the codes that are ignored there."""
    launches: dict[str, list[tuple[str, Launch]]]
    files: Files = field(default_factory=Files)
    requirements: Requirements = field(default_factory=Requirements)
    cache: LintCache | None = None

    def file(self, path: str, data: bytes | None = None) -> list[tuple[Hit, Place]]:
        """The hits of one file, with their source lines."""
        try:
            if data is None:
                data = self.files.read(path)
        except OSError as error:
            missing = unreadable(path, f"cannot be read: {error.strerror}")
            return self._placed(path, self._found(path, missing), b"")
        launches = bind(self.launches, path) if self.launches else ()
        requirements = self.requirements.of(path)
        key = self.cache.key(path, data, launches, requirements) if self.cache else ""
        if self.cache and (known := self.cache.get(key)) is not None:
            return self._placed(path, known, data)
        script = read_script(
            path, data, launches=launches, requirements=requirements, relevant=RELEVANT
        )
        hits = self._found(path, script)
        if self.cache:
            self.cache.put(key, hits)
        return self._placed(path, hits, data)

    def _found(self, path: str, script: Script | None) -> list[Hit]:
        if script is None:
            return []
        rules = [rule for rule in RULES if rule.code in self.codes]
        hits = [hit for hit in lint(script, self.machine, rules) if hit.code in self.codes]
        off = {
            code for pattern, codes in self.ignores if excluded(path, (pattern,)) for code in codes
        }
        return [hit for hit in hits if hit.code not in off]

    def _placed(self, path: str, hits: list[Hit], data: bytes) -> list[tuple[Hit, Place]]:
        lines = _lines(path, data) if hits else {}
        return [(hit, hit.place(printable(path), lines.get(_line_of(hit), ""))) for hit in hits]


def _line_of(hit: Hit) -> tuple[int, int]:
    return hit.span.cell, hit.span.line


def _lines(path: str, data: bytes) -> dict[tuple[int, int], str]:
    """Source lines by cell and line."""
    from doctor.script import notebook
    from doctor.script.text import Unparsable, decode

    try:
        if path.endswith(".ipynb"):
            source, _, _ = notebook.read(data)
            return {
                place: text.rstrip("\r\n")[:300]
                for place, text in zip(source.cells, source.lines, strict=False)
            }
        lines = decode(data).lines
    except Unparsable:
        lines = data[:100_000].decode("utf-8", "replace").splitlines()
    return {(0, number): line.rstrip("\r\n")[:300] for number, line in enumerate(lines, 1)}


@dataclass(frozen=True, slots=True)
class Lint:
    """The result: findings by check, and what was read."""

    findings: tuple[Finding, ...]
    options: LintOptions
    linter: Linter
    paths: tuple[str, ...] = ()
    """The files, of which those that no rule reads are no scripts."""
    data: bytes | None = None
    """What stdin held."""
    notes: tuple[str, ...] = ()
    seconds: float = 0.0
    started: float = 0.0
    """Seconds since the epoch."""

    @property
    def exit_code(self) -> int:
        """1 if something is at or above --fail-on, 3 if no script was read or no selected rule
        could be decided.
        """
        gates = {"fail": (Status.FAIL,), "warn": (Status.FAIL, Status.WARN), "never": ()}
        gate = gates[self.options.fail_on]
        counted = [finding.status for finding in self.findings if not finding.ignored]
        if any(status in gate for status in counted):
            return 1
        decided = any(status is not Status.UNKNOWN for status in counted)
        return 0 if decided or self.options.fail_on == "never" else 3


def run_lint(
    options: LintOptions, machine: ScriptMachine | None = None, notes: tuple[str, ...] = ()
) -> Lint:
    """Lint everything that the options name. Raises UserError."""
    started, began = time.time(), time.monotonic()
    checks = select(options.only, options.skip)
    files, data = _files(options)
    linter = Linter(
        machine or ScriptMachine(),
        _codes(checks, options.table.ignore),
        tuple((p, codes_of(c)) for p, c in options.table.per_file_ignores.items()),
        _launches(files),
        files,
        cache=_cache(options, machine, checks),
    )
    hits = (
        linter.file(files.scripts[0], data)
        if data is not None
        else _all(linter, files.scripts, options.processes)
    )
    read = files.scripts or named_launchers(options.paths, files)
    findings = tuple(_findings(hits, checks) if read else _undecided(checks))
    if linter.cache is not None:
        linter.cache.trim()
    if not (options.habits or options.only):
        findings = tuple(map(_without_place, findings))
    seconds = time.monotonic() - began
    notes = (*notes, *files.notes)
    return Lint(findings, options, linter, read, data, notes, seconds, started)


def _cache(
    options: LintOptions, machine: ScriptMachine | None, checks: Sequence[Check]
) -> LintCache | None:
    if not options.cache:
        return None
    from doctor.cli.lint_cache import LintCache

    codes = [check.code for check in checks]
    return LintCache(options.cache, machine, codes, options.table)


def _files(options: LintOptions) -> tuple[Files, bytes | None]:
    if options.paths == (STDIN,):
        if sys.stdin.isatty():
            raise UserError("- is a terminal; pipe a file into the command")
        name = options.stdin_filename or "stdin.py"
        return Files((name,)), sys.stdin.buffer.read(LIMIT + 1)
    if STDIN in options.paths:
        raise UserError("- cannot be combined with other paths")
    return with_started(options.paths, discover(options.paths, options.table.exclude)), None


def _codes(checks: Sequence[Check], ignored: Sequence[str]) -> frozenset[str]:
    return frozenset(check.code for check in checks) - codes_of(ignored)


def _launches(files: Files) -> dict[str, list[tuple[str, Launch]]]:
    """Launch lines by the script's base name."""
    table: dict[str, list[tuple[str, Launch]]] = defaultdict(list)
    for path in files.launchers:
        try:
            data = files.read(path)
        except OSError:
            continue
        for script, launch in read_launches(path, data):
            table[script.rpartition("/")[2]].append((script, launch))
    return dict(table)


def _all(linter: Linter, paths: Sequence[str], processes: int) -> Iterator[tuple[Hit, Place]]:
    """The hits of all files, in the order of the paths."""
    count = processes or min(PROCESSES, os.cpu_count() or 1)
    if count > 1 and (processes or len(paths) >= MANY):
        yield from _parallel(linter, paths, count)
        return
    yield from _sequential(linter, paths)


def _sequential(linter: Linter, paths: Sequence[str]) -> Iterator[tuple[Hit, Place]]:
    """Trees are garbage at once and hold no cycles; the collector would only walk them."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        for number, path in enumerate(paths, 1):
            yield from linter.file(path)
            if number % 500 == 0:
                gc.collect()
    finally:
        if enabled:
            gc.enable()


_inherited: list[Linter] = []
"""The linter of a worker, which comes with the fork: nothing is pickled but paths and hits."""


def _chunk(paths: Sequence[str]) -> list[tuple[Hit, Place]]:
    return list(_sequential(_inherited[0], paths))


def _start_worker(linter: Linter) -> None:
    """A worker waits for more work on a pipe that it holds open itself, so a thread watches."""
    import threading

    _inherited.append(linter)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    from multiprocessing import parent_process

    if parent := parent_process():
        parent.join()
    os._exit(1)


def _parallel(linter: Linter, paths: Sequence[str], count: int) -> Iterator[tuple[Hit, Place]]:
    """The same in several processes; chunks are small, so that all end at the same time."""
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    size = max(1, min(CHUNK, len(paths) // (count * 4)))
    chunks = [paths[start : start + size] for start in range(0, len(paths), size)]
    with ProcessPoolExecutor(count, get_context("fork"), _start_worker, (linter,)) as pool:
        for part in pool.map(_chunk, chunks):
            yield from part


def _findings(hits: Iterable[tuple[Hit, Place]], checks: Sequence[Check]) -> Iterator[Finding]:
    """One finding per check and kind: decided, undecided, suppressed."""
    decided: dict[str, list[tuple[Hit, Place]]] = defaultdict(list)
    undecided: dict[str, list[Place]] = defaultdict(list)
    ignored: dict[str, list[tuple[Hit, Place]]] = defaultdict(list)
    for hit, place in hits:
        if _is_habit(hit.code) and decided.get(hit.code):
            continue
        if hit.ignored:
            ignored[hit.code].append((hit, place))
        elif hit.undecided:
            undecided[hit.code].append(place)
        else:
            decided[hit.code].append((hit, place))
    for check in checks:
        yield from _of_check(check, decided[check.code], undecided[check.code])
        if accepted := ignored[check.code]:
            finding = _decided(check, accepted)
            yield replace(finding, ignored=accepted[0][0].ignored)


def _without_place(finding: Finding) -> Finding:
    """A habit that is absent counts and is not shown: nearly every script lacks some."""
    if not _is_habit(finding.check.code) or finding.ignored:
        return finding
    return replace(finding, verdict=replace(finding.verdict, places=()))


def _undecided(checks: Iterable[Check]) -> Iterator[Finding]:
    """What a lint that read no script says: nothing is known, which is no pass."""
    return (Finding(check, Verdict(Status.UNKNOWN, NO_SCRIPT)) for check in checks)


def _is_habit(code: str) -> bool:
    rule: Rule | None = BY_CODE.get(code)
    return rule is not None and rule.once


def _of_check(
    check: Check, decided: list[tuple[Hit, Place]], undecided: list[Place]
) -> Iterator[Finding]:
    if decided:
        yield from _by_severity(check, decided)
    if undecided:
        summary = undecided[0].message
        yield Finding(check, Verdict(Status.UNKNOWN, summary, places=tuple(undecided)))
    if not decided and not undecided:
        yield Finding(check, Verdict(Status.PASS, "no file does it"))


def _by_severity(check: Check, decided: list[tuple[Hit, Place]]) -> Iterator[Finding]:
    """Failures, warnings and notes of one check are findings of their own."""
    for severity in reversed(RANK):
        if part := [pair for pair in decided if pair[0].severity == severity]:
            yield _decided(check, part)


def _decided(check: Check, hits: list[tuple[Hit, Place]]) -> Finding:
    more = f" (and {len(hits) - 1} more)" if len(hits) > 1 else ""
    places = tuple(place for _, place in hits)
    summary = f"{hits[0][0].message}{more}"
    verdict = Verdict(STATUSES[hits[0][0].severity], summary, fix=check.fix, places=places)
    return Finding(check, verdict)
