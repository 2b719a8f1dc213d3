"""The usual command lines of `doctor lint`."""

from __future__ import annotations

from collections.abc import Sequence

from doctor.cli.lint.command import LintRequest
from doctor.cli.plain_arguments import FAIL_ON, FORMAT, VERBOSITY, Flags, parse

LINT = Flags(
    switches={
        "--fix": ("fix", True),
        "--diff": ("diff", True),
        "--unsafe-fixes": ("unsafe_fixes", True),
        "--no-backup": ("no_backup", True),
        "--habits": ("habits", True),
        "--no-config": ("no_config", True),
        **VERBOSITY,
    },
    values={
        "--format": FORMAT,
        "--fail-on": FAIL_ON,
        "--stdin-filename": ("stdin_filename", ()),
        "--cache": ("cache", ()),
    },
    lists={"--only": "only", "--skip": "skip"},
)


def request_of(words: Sequence[str]) -> LintRequest | None:
    """The request, None for a command line that the parser must read."""
    parsed = parse(words, LINT)
    return parsed and LintRequest(**parsed[0], paths=parsed[1])
