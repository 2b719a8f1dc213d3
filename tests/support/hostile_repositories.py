"""Directories that make git run a program, as an archive or a clone can hold them.

Each writes a payload that would create the file `mark`; none of them is ever run by the doctor.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

HOOKS = ("post-index-change", "pre-commit", "post-checkout", "fsmonitor-watchman", "pre-auto-gc")
KEYS = """[core]
    repositoryformatversion = 0
    bare = false
    fsmonitor = "touch {mark}; true"
    pager = "touch {mark}; cat"
    editor = "touch {mark}; true"
    sshCommand = "touch {mark}; true"
    askPass = "touch {mark}; true"
    alternateRefsCommand = "touch {mark}; true"
[diff]
    external = "touch {mark}; true"
[diff "any"]
    textconv = "touch {mark}; cat"
    command = "touch {mark}; true"
[filter "any"]
    clean = "touch {mark}; cat"
    smudge = "touch {mark}; cat"
    process = "touch {mark}; cat"
    required = true
[alias]
    status = "!touch {mark}"
    ls-files = "!touch {mark}"
[gpg]
    program = "touch {mark}"
[credential]
    helper = "!touch {mark}"
[submodule]
    recurse = true
"""


def plain(root: Path, mark: Path) -> None:
    """A repository with every key that names a program."""
    _git_directory(root / ".git", mark)
    (root / ".gitattributes").write_text("* filter=any diff=any\n")


def bare(root: Path, mark: Path) -> None:
    """A committed directory that is shaped like a bare repository; the code lies in it."""
    _git_directory(root, mark)
    with (root / "config").open("a") as file:
        file.write(f"[core]\n    worktree = {root}\n")


def submodule(root: Path, mark: Path) -> None:
    """A submodule whose configuration, below the repository's .git, names programs."""
    _git_directory(root / ".git", mark)
    _git_directory(root / ".git/modules/part", mark)
    (root / ".gitmodules").write_text(
        f'[submodule "part"]\n    path = part\n    url = ext::touch {mark}\n'
        f"    update = !touch {mark}\n"
    )
    (root / "part").mkdir()
    (root / "part/.git").write_text("gitdir: ../.git/modules/part\n")
    (root / "part/model.py").write_text("x = 1\n")


def git_file(root: Path, mark: Path) -> None:
    """A file .git that names a repository elsewhere."""
    _git_directory(root.parent / "elsewhere", mark)
    (root / ".git").write_text(f"gitdir: {root.parent / 'elsewhere'}\n")


REPOSITORIES: tuple[Callable[[Path, Path], None], ...] = (plain, bare, submodule, git_file)


def _git_directory(directory: Path, mark: Path) -> None:
    for name in ("objects/info", "objects/pack", "refs/heads", "hooks", "info"):
        (directory / name).mkdir(parents=True, exist_ok=True)
    (directory / "HEAD").write_text("ref: refs/heads/main\n")
    (directory / "config").write_text(KEYS.format(mark=mark))
    for name in HOOKS:
        (directory / "hooks" / name).write_text(f"#!/bin/sh\ntouch {mark}\n")
        (directory / "hooks" / name).chmod(0o755)
