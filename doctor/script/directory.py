"""The files below a directory that are worth reading, as git would list them, without git."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from doctor._util.units import listed
from doctor.script.gitignore import Patterns, ignored, read_patterns

VENDORED = {
    ".venv", "venv", "build", "dist", "node_modules", "site-packages", ".git", "__pycache__",
    ".tox", ".nox", ".mypy_cache", ".ruff_cache", ".pytest_cache", ".hg", ".svn", ".eggs",
    ".ipynb_checkpoints", "wandb", ".direnv",
}  # fmt: skip
ENVIRONMENT = ("pyvenv.cfg", "conda-meta")
"""What a virtual environment has, whatever its name."""
LINK = "a link; name it to lint what it leads to"
REPOSITORY = "a repository of its own; name it to lint it"
IGNORED_FILE = "a file that .gitignore or info/exclude leaves out; name it to lint it"
IGNORED_DIRECTORY = "a directory that .gitignore or info/exclude leaves out; name it to lint it"
SHOWN = 5


@dataclass(frozen=True, slots=True)
class _Directory:
    path: str
    relative: str
    """To the repository's root, or to the directory that is named, with a slash at its end."""
    patterns: tuple[Patterns, ...]
    """The deepest first."""
    in_repository: bool


@dataclass(slots=True)
class Listing:
    """The files of directories; links are not followed, ignored and vendored files left out."""

    wanted: Callable[[str], bool]
    """Of a file's name."""
    files: list[str] = field(default_factory=list)
    _left_out: defaultdict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    _unused_patterns: int = 0

    def add(self, path: str) -> None:
        """List a directory that the user named, be it ignored, vendored or a link."""
        pending = [self._named(path)]
        while pending:
            pending += self._entries(pending.pop())

    def notes(self) -> Iterator[str]:
        """What was left out, and why; vendored directories are not mentioned."""
        for reason, paths in self._left_out.items():
            yield f"not read: {listed(sorted(paths, key=_hidden_last), SHOWN)} ({reason})"
        if self._unused_patterns:
            yield f"patterns of .gitignore that are not applied: {self._unused_patterns}"

    def _named(self, path: str) -> _Directory:
        """With the patterns of the directories above it, up to the repository's root."""
        parts: list[str] = []
        root = os.path.realpath(path)
        while not os.path.lexists(os.path.join(root, ".git")):
            root, name = os.path.split(root)
            if not name:
                return _Directory(path, "", (), in_repository=False)
            parts.insert(0, name)
        patterns, relative = self._of_repository(root), ""
        for part in parts:
            patterns = self._with(root, relative, patterns)
            root, relative = os.path.join(root, part), f"{relative}{part}/"
            if ignored(relative, patterns):
                return _Directory(path, "", (), in_repository=True)
        return _Directory(path, relative, patterns, in_repository=True)

    def _entries(self, directory: _Directory) -> Iterator[_Directory]:
        """Take the files of a directory, and return the directories to go on with."""
        try:
            with os.scandir(directory.path) as entries:
                found = list(entries)
        except OSError as error:
            self._left_out[error.strerror or "unreadable"].append(directory.path)
            return
        patterns = self._with(directory.path, directory.relative, directory.patterns)
        for entry in found:
            relative = directory.relative + entry.name
            if entry.is_dir(follow_symlinks=False):
                if entry.name not in VENDORED and not _is_environment(entry.path):
                    yield from self._below(entry.path, f"{relative}/", patterns, directory)
            elif self.wanted(entry.name):
                self._take(entry, is_ignored=ignored(relative, patterns))

    def _take(self, entry: os.DirEntry[str], *, is_ignored: bool) -> None:
        path = os.path.normpath(entry.path)
        if is_ignored:
            self._left_out[IGNORED_FILE].append(path)
        elif entry.is_symlink():
            self._left_out[LINK].append(path)
        elif entry.is_file(follow_symlinks=False):
            self.files.append(path)

    def _below(
        self, path: str, relative: str, patterns: tuple[Patterns, ...], above: _Directory
    ) -> Iterator[_Directory]:
        if ignored(relative, patterns):
            self._left_out[IGNORED_DIRECTORY].append(os.path.normpath(path))
        elif not os.path.lexists(os.path.join(path, ".git")):
            yield _Directory(path, relative, patterns, above.in_repository)
        elif above.in_repository:
            self._left_out[REPOSITORY].append(os.path.normpath(path))
        else:
            yield _Directory(path, "", self._of_repository(path), in_repository=True)

    def _of_repository(self, root: str) -> tuple[Patterns, ...]:
        return self._read(os.path.join(root, ".git", "info", "exclude"), "")

    def _with(
        self, path: str, relative: str, patterns: tuple[Patterns, ...]
    ) -> tuple[Patterns, ...]:
        return self._read(os.path.join(path, ".gitignore"), relative) + patterns

    def _read(self, file: str, base: str) -> tuple[Patterns, ...]:
        patterns = read_patterns(file, base)
        if patterns is None:
            return ()
        self._unused_patterns += patterns.unused
        return (patterns,)


def _is_environment(path: str) -> bool:
    return any(os.path.lexists(os.path.join(path, name)) for name in ENVIRONMENT)


def _hidden_last(path: str) -> tuple[bool, str]:
    """`.idea` says less than the directory that may hold a script."""
    return os.path.basename(path).startswith("."), path
