"""One row of what is known about errors."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from doctor._util.owner import Owner

Role = Literal[
    "cause",
    "crash",
    "exception",
    "consequence",
    "summary",
    "warning",
    "condition",
    "harmless",
    "symptom",
    "setting",
]
"""What a line of the row is in the story of a failure.

cause: it begins one. crash: it begins one unless the process failed before. exception: it begins
one unless something else came before it. consequence: usually the effect of something earlier,
elsewhere, and the first cause only where nothing else is found. summary: a launcher's account of
what happened, never a cause. warning: the training goes on. condition: a setting or a warning that
is harmless unless what it explains has failed. harmless: it looks like trouble and is
none where nothing else is wrong. symptom: what people say of a training, never a line of a log.
setting: what a log states of its run, which decides where something failed
(`checks/log/differential`).
"""


Retry = Literal["fix", "again", "node"]
"""What a restart brings. fix: the same failure, until it is fixed. again: it may succeed as it is.
node: it may succeed on another node."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Remedy:
    """A fix that holds for some versions of a package: from `since` on, and before `until`."""

    package: str
    fix: str
    since: str = ""
    until: str = ""


@dataclass(frozen=True, slots=True)
class Wording:
    """A message of a row with a reason and a fix of its own, which take the place of the row's."""

    message: str
    """An expression, as in `Cause.messages`."""
    example: str
    why: str
    fix: str
    commands: tuple[str, ...] = ()
    owner: Owner | None = None
    """Where it is not that of the row."""
    more: tuple[str, ...] = ()
    """Further examples."""
    sources: tuple[str, ...] = ()
    """Of this wording alone; () for those of the row."""


BY_WORDING = "It depends on the message: doctor explain with the whole line gives the fix for it."
"""The fix of a row all of whose messages have their own."""


_WORD = re.compile(r"\{(\w+):([^{}]*)\}")


def with_words(template: str, words: Mapping[str, str]) -> str:
    """The text of a `Cause.template` with these words, and its own where there are none."""
    return _WORD.sub(lambda match: words.get(match[1], match[2]), template)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """Why an error is raised, how its messages are recognized, and what to do about it."""

    id: str
    """Stable, lower case, in one namespace with codes, slugs and sections: `doctor explain ID`."""
    messages: tuple[str, ...] = ()
    """Python expressions, one for each wording, searched in a message; linear, without anchors
    and unbounded gaps, each with four letters in a row that every match contains."""
    examples: tuple[str, ...] = ()
    """Real messages, at least one for each expression."""
    wordings: tuple[Wording, ...] = ()
    """Further messages and examples: failures of one kind that are corrected in different ways."""
    words: tuple[str, ...] = ()
    """Of a symptom: what people say of it, in the phrases of `doctor.errors.words`."""
    why: str
    fix: str = BY_WORDING
    """True without having seen the program."""
    errors: tuple[str, ...] = ()
    """Classes of the exception, or of a parent of it; () for texts that are no exception."""
    told_by: str = ""
    """Where several causes share a message: what distinguishes this one."""
    commands: tuple[str, ...] = ()
    owner: Owner = Owner.JOB
    retry: Retry = "fix"
    role: Role = "cause"
    sources: tuple[str, ...] = ()
    """Ids of `doctor.judge.sources`."""
    next_check: str = ""
    """The check that finds it before a run, "" if none does."""
    code: str = ""
    """Of the check that reports it in a log, LOG010; "" for the others."""
    title: str = ""
    """Of that check: true when no line of the row is in the log."""
    refines: tuple[str, ...] = ()
    """Rows that say less about a message of this one, so that it comes before them. Of a class, a
    row without a code also replaces the reason, remedy, owner and outlook."""
    explains: tuple[str, ...] = ()
    """Of a condition: rows, and checks of curves, whose failure it is the reason of."""
    passing: bool = False
    """Of a condition: it is none any more once training steps were logged after it."""
    template: str = ""
    """Of a setting: the fix with words for which a log has others, `{name:the word}`."""
    remedies: tuple[Remedy, ...] = ()
    """Replace `fix` for versions of packages that the log or the facts name."""
    yields_to: tuple[str, ...] = ()
    """Rows that say more about the same failure, and begin it wherever they stand in a log."""
    unless: str = ""
    """An expression of what a text of this row does not say: it would be of another one."""
    quotes: bool = False
    """A row for a form of sentence, which counts where no other knows the message: its remedy
    repeats what the message asks for."""

    def __post_init__(self) -> None:
        """Let the messages and examples be all of them, and the fix that of no log."""
        if self.template:
            object.__setattr__(self, "fix", with_words(self.template, {}))
        messages = (*self.messages, *(each.message for each in self.wordings))
        examples = [*self.examples]
        for each in self.wordings:
            examples += (each.example, *each.more)
        object.__setattr__(self, "messages", tuple(dict.fromkeys(messages)))
        object.__setattr__(self, "examples", tuple(dict.fromkeys(examples)))
