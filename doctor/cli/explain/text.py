"""`doctor explain` for a text instead of a code: an error message, a log line, a keyword."""

from __future__ import annotations

import difflib
import io
import re
from dataclasses import dataclass, replace
from itertools import compress

from doctor._util.errors import UserError
from doctor.checks import log as log_checks
from doctor.checks.log import curves
from doctor.checks.log.classes import CLASSES, HARMLESS
from doctor.checks.log.patterns import line_patterns
from doctor.cli.explain.fragment import log_of_fragment
from doctor.cli.explain.line import SHORT
from doctor.errors.cause import Cause
from doctor.errors.fitted import fitted
from doctor.errors.match import REPORTS, message_of, with_message
from doctor.facts.facts import without_machine
from doctor.facts.log import Log
from doctor.job.job import Job
from doctor.judge import index
from doctor.judge import names as check_names
from doctor.judge.check import Check, Finding
from doctor.judge.engine import examine
from doctor.log.collector import UNCAUGHT
from doctor.log.patterns import Gate, with_words_of
from doctor.log.read import read_stream
from doctor.log.wrapped import GLUES, flowing, unwrapped
from doctor.report.causes import are_new, proposed
from doctor.report.explained import explained

TRACEBACK = "Traceback (most recent call last):"
FRAME = re.compile(r'^  File "[^"\n]{1,300}", line \d{1,6}, in ', re.MULTILINE)
WORD = re.compile(r"[a-z0-9_]{2,}")
PART = "recognized by a part of its message; paste the whole line to be sure"
MORE = "paste the line with the error, or the whole traceback, or `doctor list`"
MOST = 8
"""Checks that a keyword names."""
MOST_NEAR = 3
"""Checks that are named as near to a message."""
SIMILAR = 0.6
"""Share of a text that it has in common with an example that is named. Our own number."""


@dataclass(frozen=True, slots=True)
class Explained:
    """What is known about a text."""

    findings: tuple[Finding, ...]
    """Classes of its lines, and what its metrics show."""
    harmless: tuple[Cause, ...]
    log: Log
    text: str = ""
    causes: tuple[Cause, ...] = ()
    """Rows that are not the class of a line, the most frequent first."""
    class_first: bool = False
    """Whether the most frequent row is a class."""
    nearest: tuple[Check, ...] = ()
    """Checks that its words occur in, where it is in no class."""
    is_part: bool = False
    """Whether the class was recognized by a part of its message."""

    @property
    def checks(self) -> tuple[Check, ...]:
        return tuple(finding.check for finding in self.findings) or self.nearest

    def answer(self) -> str:
        """The answer for people: classes of lines before other causes if they are as frequent; of
        two with the same fix the first."""
        both = (self.findings, self.causes) if self.class_first else (self.causes, self.findings)
        ordered: list[Finding | Cause] = [*both[0], *both[1]]
        fixes = [each.fix if isinstance(each, Cause) else each.headline_fix for each in ordered]
        new = [*compress(ordered, are_new(fixes))]
        findings = [each for each in new if isinstance(each, Finding)]
        harmless = [(row.id, row.why) for row in self.harmless]
        answer = explained(findings, harmless, self.log, list(self.nearest))
        if causes := [each for each in new if isinstance(each, Cause)]:
            parts = (answer, proposed(self.text, causes))
            answer = "\n\n".join(filter(None, parts if self.class_first else parts[::-1]))
        return f"{answer}\n\n{PART}" if self.is_part else answer


def explain_text(text: str) -> Explained | None:
    """The causes of a text and what its metrics show; None where it has neither. Sentences that
    were broken over lines are joined before; a text that says nothing is read again as it is, and
    with all lines joined that look broken."""
    whole = flowing(text)
    forms = (whole, *([text] if whole != text.rstrip("\n") else ()))
    forms += tuple(unwrapped(text, glue) for glue in GLUES if "\n" in text.strip())
    found = next(filter(None, map(_explain_as_it_is, forms)), None)
    is_harmless = found and found.harmless and not (found.findings or found.causes)
    if is_harmless and (raised := _raised(whole)):
        return None if raised == text else explain_text(raised)
    return found


def _raised(text: str) -> str:
    """The last exception of no class, which nothing harmless explains."""
    names = {each.text: each.name for each in _read(_with_head(text)).events}
    return next((each for each in reversed(names) if names[each] == UNCAUGHT), "")


def _explain_as_it_is(text: str) -> Explained | None:
    log = _read(_with_head(text))
    findings = _findings(log)
    names = {event.name for event in log.harmless}
    harmless = tuple(row for row in HARMLESS if row.id in names)
    message = message_of(text)
    rows = tuple(row for row in with_message(message, symptoms=True, around=text) if row.fix)
    if rows and rows[0].words:  # a question in words holds no lines and no metrics
        return Explained((), (), _read(""), message, rows)
    of_lines = {finding.check.slug for finding in findings}
    causes = tuple(fitted(row, message) for row in rows if row.id not in of_lines)
    unknown_first = bool(rows) and _begins_unknown(log) and all(row.role in REPORTS for row in rows)
    if not unknown_first and (causes or not _has_traceback(log)):
        # Causes are of the whole message, and the exception of no class of its first line.
        findings = tuple(each for each in findings if each.check.slug != UNCAUGHT)
    if not (findings or harmless or log.curves or causes):
        return None
    if not findings and len(text) <= SHORT and (part := explain_fragment(text)):
        return replace(part, text=message, causes=causes, class_first=True)
    class_first = unknown_first or bool(rows and rows[0].id in of_lines)
    return Explained(findings, harmless, log, message, causes, class_first)


def _with_head(text: str) -> str:
    """The text with the line before a stack that was copied without it."""
    frame = None if TRACEBACK in text else FRAME.search(text)
    return f"{text[: frame.start()]}{TRACEBACK}\n{text[frame.start() :]}" if frame else text


def explain_fragment(text: str) -> Explained | None:
    """The class that a part of a message is distinctive for; None where it is for none."""
    log = log_of_fragment(text, line_patterns())
    if log is None:
        return None
    names = {event.name for event in log.harmless}
    harmless = tuple(row for row in HARMLESS if row.id in names)
    findings = _findings(log)
    if harmless and not findings and _raised(text):
        return None
    return Explained(findings, harmless, log, is_part=True)


def explain_nearest(text: str, is_message: bool) -> Explained:
    """The checks that keywords name. Raises UserError for a message of no class, with the checks
    that are near, and for words that name none."""
    nearest = keyword_checks(text) or _similar(text)
    if nearest and not is_message:
        return Explained((), (), _read(""), nearest=nearest)
    near = ", ".join(f"{each.code} {each.slug}" for each in nearest[:MOST_NEAR])
    if not near and len(text) < 40:
        near = ", ".join(check_names.nearest(text, index.entries()))
    raise UserError(
        f"nothing is known about {text.strip()[:80]!r}; " + (f"nearest: {near}" if near else MORE)
    )


def _read(text: str) -> Log:
    stream = io.BytesIO(text.encode("utf-8", "replace"))
    return read_stream("text", stream, Gate(with_words_of(text, line_patterns())))


def _findings(log: Log) -> tuple[Finding, ...]:
    """The classes that the text is in, and the curves' problems."""
    names = {event.name for event in log.events}
    checks = [
        check for check in log_checks.CHECKS if check.slug in names or _is_on_curves(check, log)
    ]
    facts = without_machine("doctor explain reads a text only", job=Job(device="cpu"), log=log)
    return tuple(finding for finding in examine(checks, facts) if finding.is_problem)


def _has_traceback(log: Log) -> bool:
    """Whether an exception of no class stands below a traceback: alone it says nothing new."""
    return any(each.name == UNCAUGHT and each.excerpt[0] != each.text for each in log.events)


def _begins_unknown(log: Log) -> bool:
    """Whether an exception of no class stands before all lines of classes."""
    first = min(log.events, key=lambda event: event.line, default=None)
    return first is not None and first.name == UNCAUGHT and len(log.events) > 1


def _is_on_curves(check: Check, log: Log) -> bool:
    return bool(log.curves) and check in curves.CHECKS


def keyword_checks(text: str) -> tuple[Check, ...]:
    """Checks in whose texts every word occurs, the most prominent first: tf32, scaler, warmup."""
    words = WORD.findall(text.casefold())
    if not 0 < len(words) <= 4:
        return ()
    from doctor import catalog

    scored = [(_prominence(check, words), check) for check in catalog.CHECKS]
    best = sorted((pair for pair in scored if pair[0]), key=lambda pair: -pair[0])
    return tuple(check for _, check in best[:MOST])


def _prominence(check: Check, words: list[str]) -> int:
    """How prominent the words are in the check; 0 unless each of them occurs."""
    conditions = (*check.passes, *check.warns, *check.fails)
    texts = (
        (f"{check.slug} {check.title}", 4),
        (" ".join((*conditions, check.fix, *check.commands)), 2),
        (check.why, 1),
    )
    joined = [(re.sub(r"[-_ ]", "", text.casefold()), weight) for text, weight in texts]
    each = [
        max((weight for text, weight in joined if word.replace("_", "") in text), default=0)
        for word in words
    ]
    return sum(each) if all(each) else 0


def _similar(text: str) -> tuple[Check, ...]:
    """The classes with an example that resembles the text."""
    line = text.strip()[:300]
    rows = [(example[:300], row.code) for row in CLASSES for example in row.examples]
    matchers = [(difflib.SequenceMatcher(None, line, example), code) for example, code in rows]
    likely = sorted(matchers, key=lambda pair: -pair[0].quick_ratio())[:20]
    ratios = sorted(((matcher.ratio(), code) for matcher, code in likely), reverse=True)
    codes = dict.fromkeys(code for ratio, code in ratios if ratio > SIMILAR)
    by_code = {check.code: check for check in log_checks.CHECKS}
    return tuple(by_code[code] for code in list(codes)[:3])
