"""One row of the table of log classes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from doctor.judge.check import Owner
from doctor.judge.error_patterns import ErrorPattern

Role = Literal["cause", "exception", "consequence", "summary", "warning"]
"""What a line of the class is in the story of a failure.

cause: it begins one. exception: it begins one unless something else came before it. consequence:
usually the effect of something earlier, elsewhere, and the first cause only where nothing else is
found. summary: a launcher's account of what happened, never a cause. warning: the training goes on.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Remedy:
    """A fix that holds for some versions of a package: from `since` on, and before `until`."""

    package: str
    fix: str
    since: str = ""
    until: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogClass:
    """A class of log lines: how they are recognized, why they appear, what to do.

    `patterns` are Python expressions, any of which is searched in a line without escape sequences;
    each must be linear and require four letters in a row. `examples` are lines as programs print
    them; each pattern has one. `title` is true when no line of the class is in the log. `remedies`
    replace `fix` for versions that the log or the facts name. `next_check` is the doctor's check
    that finds the fault before the run, "" if none does. `yields_to` are classes that say more
    about the same failure and are its first cause wherever they stand.
    """

    code: str
    slug: str
    title: str
    patterns: tuple[str, ...]
    examples: tuple[str, ...]
    why: str
    fix: str
    role: Role = "cause"
    owner: Owner = Owner.JOB
    commands: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    remedies: tuple[Remedy, ...] = ()
    next_check: str = ""
    yields_to: tuple[str, ...] = ()

    @property
    def expression(self) -> str:
        return "|".join(self.patterns)


def known(pattern: ErrorPattern) -> dict[str, object]:
    """Fix, owner, sources and commands of a row in the table of error messages."""
    return {
        "fix": pattern.fix,
        "owner": pattern.owner,
        "sources": pattern.sources,
        "commands": pattern.commands,
    }
