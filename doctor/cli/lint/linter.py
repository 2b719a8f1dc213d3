"""Files to hits: one file at a time, or many in several processes."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from doctor._util.units import printable
from doctor.checks.script.lint import Hit, lint
from doctor.checks.script.table import RELEVANT, RULES
from doctor.checks.script.training import TESTS, Training
from doctor.facts.script import Launch, Script
from doctor.facts.script_machine import ScriptMachine
from doctor.judge.place import Place
from doctor.script.discover import DATA, SHELL, Files, excluded
from doctor.script.engine_files import batches_of_engines
from doctor.script.launch import bind
from doctor.script.read import read_script, unreadable
from doctor.script.requirements import Requirements
from doctor.script.yaml_numbers import texts_for_numbers

if TYPE_CHECKING:
    from doctor.cli.lint.cache import LintCache

MANY = 150
"""Files from which on several processes read them."""
PROCESSES = 4
CHUNK = 24
"""Files that a worker takes at once."""
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass(frozen=True, slots=True)
class Linted:
    """One file: its hits with their source lines."""

    path: str
    hits: list[tuple[Hit, Place]]
    unjudged: str = ""
    """Why no rule is for it, so that no hits say nothing of it; "" where some are."""


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

    def file(self, path: str, data: bytes | None = None) -> Linted:
        """One file, read here unless it is given."""
        try:
            if data is None:
                data = self.files.read(path)
        except OSError as error:
            missing = unreadable(path, f"cannot be read: {error.strerror}")
            return Linted(path, self._placed(path, self._found(path, missing), b""))
        launches = bind(self.launches, path) if self.launches else ()
        requirements = self.requirements.of(path)
        settings = (*texts_for_numbers(path, data), *batches_of_engines(path, launches, data))
        more = (launches, requirements, *([settings] if settings else []))
        key = self.cache.key(path, data, *more) if self.cache else ""
        known = self.cache.get(key) if self.cache else None
        if known is None:
            script = read_script(
                path,
                data,
                launches=launches,
                requirements=requirements,
                settings=settings,
                relevant=RELEVANT,
            )
            hits = self._found(path, script)
            known = hits, "" if hits else _unjudged(path, script)
            if self.cache:
                self.cache.put(key, *known)
        hits, reason = known
        return Linted(path, self._placed(path, hits, data), reason)

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


def _unjudged(path: str, script: Script | None) -> str:
    """Why no rule is for a file, "" where one is, or where the file could not be parsed."""
    if path.endswith((*DATA, *SHELL)):
        known = "launcher" if path.endswith(SHELL) else "format of a training's configuration"
        return f"no known {known} in it" if script is None else ""
    if script is None or script.unreadable:
        return ""
    reading = Training(script, ScriptMachine())
    if reading.trains or reading.is_part:
        return ""
    if reading.imports_from(*TESTS):
        return "tests do on purpose what a training should not"
    return "it trains nothing and imports no training library that is known"


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


def linted(linter: Linter, paths: Sequence[str], processes: int) -> Iterator[Linted]:
    """All files, in the order of the paths."""
    count = processes or min(PROCESSES, os.cpu_count() or 1)
    if count > 1 and (processes or len(paths) >= MANY):
        yield from _parallel(linter, paths, count)
        return
    yield from _sequential(linter, paths)


def _sequential(linter: Linter, paths: Sequence[str]) -> Iterator[Linted]:
    """Trees are garbage at once and hold no cycles; the collector would only walk them."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        for number, path in enumerate(paths, 1):
            yield linter.file(path)
            if number % 500 == 0:
                gc.collect()
    finally:
        if enabled:
            gc.enable()


_inherited: list[Linter] = []
"""The linter of a worker, which comes with the fork: nothing is pickled but paths and results."""


def _chunk(paths: Sequence[str]) -> list[Linted]:
    return list(_sequential(_inherited[0], paths))


def _start_worker(linter: Linter) -> None:
    """A worker waits for more work on a pipe that it holds open itself, so a thread watches.

    A signal to all processes of the group is the parent's to answer: a worker that raised in the
    middle of a read from that pipe would leave the others waiting for it.
    """
    import threading

    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    _inherited.append(linter)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    from multiprocessing import parent_process

    if parent := parent_process():
        parent.join()
    os._exit(1)


def _parallel(linter: Linter, paths: Sequence[str], count: int) -> Iterator[Linted]:
    """The same in several processes; chunks are small, so that all end at the same time, and soon
    after a signal, which waits until the workers have started."""
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    size = max(1, min(CHUNK, len(paths) // (count * 4)))
    chunks = [paths[start : start + size] for start in range(0, len(paths), size)]
    with ProcessPoolExecutor(count, get_context("fork"), _start_worker, (linter,)) as pool:
        held = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
        try:
            parts = [pool.submit(_chunk, chunk) for chunk in chunks]
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, held)
        try:
            for part in parts:
                yield from part.result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
