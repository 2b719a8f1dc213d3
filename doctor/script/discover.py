"""Which files are linted: those that are named, and the files of directories that are named."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from doctor._util.errors import UserError
from doctor._util.file_kinds import READ_BY, command_for
from doctor._util.regular_file import read_regular
from doctor.script.directory import Listing
from doctor.script.text import LIMIT

CODE = READ_BY["lint"]
DATA = (".json", ".yaml", ".yml")
SHELL = (".sh", ".sbatch", ".slurm", ".bash", ".job")
LAUNCH = (*SHELL, ".mk")
LAUNCH_NAMES = ("Makefile", "Dockerfile", "makefile", "Containerfile", "justfile")


@dataclass(frozen=True, slots=True)
class Files:
    """What is to be read, relative to where the command runs; `notes` says what is left out."""

    scripts: tuple[str, ...] = ()
    launchers: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    named_links: frozenset[str] = frozenset()
    """Links that are followed, because the user named them."""

    @property
    def shells(self) -> tuple[str, ...]:
        """The launchers that are shell scripts, which are linted themselves."""
        return tuple(path for path in self.launchers if path.endswith(SHELL))

    def read(self, path: str) -> bytes:
        """A file's bytes, one more than LIMIT if it is longer. Raises OSError."""
        return read_regular(path, LIMIT + 1, follow=path in self.named_links)


def discover(paths: Sequence[str], exclude: Sequence[str] = ()) -> Files:
    """The files of all paths, each once, sorted.

    Raises UserError for a path that is missing, and where all that is named is for other commands.
    """
    listing, named = Listing(_wanted), list[str]()
    for path in paths or (".",):
        if os.path.isdir(path):
            listing.add(path)
        elif os.path.exists(path):
            if not os.access(path, os.R_OK):
                raise UserError(f"{path} cannot be read: permission denied")
            named.append(os.path.normpath(path))
        else:
            raise UserError(f"{path} does not exist; name a file or a directory to lint")
    others = [command_for(path) for path in named]
    if others and not {"", "lint"} & set(others) and len(others) == len(paths):
        raise UserError(f"{named[0]} is no script; doctor {others[0]} {named[0]} reads it")
    unread = [path for path in named if not _may_be_script(path)]
    listed = sorted(each for each in listing.files if not excluded(each, exclude))
    results = dict.fromkeys([*named, *listed])
    return Files(
        tuple(path for path in results if not is_launcher(path)),
        tuple(path for path in results if is_launcher(path)),
        (*listing.notes(), *(f"{path} is no script, and was not read" for path in unread)),
        frozenset(filter(os.path.islink, named)),
    )


def is_launcher(path: str) -> bool:
    name = os.path.basename(path)
    return name.endswith(LAUNCH) or name.startswith(LAUNCH_NAMES)


def excluded(path: str, patterns: Sequence[str]) -> bool:
    """Whether a pattern matches the path, a directory above it or its name."""
    if not patterns:
        return False
    import fnmatch

    parts = path.split("/")
    candidates = ["/".join(parts[: n + 1]) for n in range(len(parts))] + parts
    return any(
        fnmatch.fnmatch(each, pattern.rstrip("/")) for pattern in patterns for each in candidates
    )


def _may_be_script(path: str) -> bool:
    """By its name, or by the line that names its interpreter; a pipe may be anything."""
    if _wanted(path) or not os.path.isfile(path):
        return True
    return read_regular(path, 2, follow=True) == b"#!"


def _wanted(name: str) -> bool:
    return name.endswith((*CODE, *DATA)) or is_launcher(name)
