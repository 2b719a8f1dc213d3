"""Pipes to tee in shell scripts: without pipefail, their status is that of tee."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.facts.script import Setting, Span
from doctor.script.launch import CONTINUED, flags_of, words_of

TEE = re.compile(r"\|&?\s*tee\b(?P<rest>(?:[^|&;]|>&)*)(?P<then>\|\||&&)?\s*(?P<next>[^;]*)")
CONDITION = re.compile(r"\s*(?:if|elif|while|until)\s")
HARMLESS = re.compile(r"(?:true|:|echo|printf|date)(?:\s|$)|\s*$")
STOPS = re.compile(r"^\s*set\s+(?:-\w*e|-o\s+errexit)|\A#!\S*sh\s+-\w*e", re.MULTILINE)
REMOVED = re.compile(r"^\s*rm\s+-\w*r\w*\s+(?:-\w+\s+)*(?P<what>\S+)\s*$")
WRITTEN = re.compile(r"out|save|ckpt|checkpoint|result|export|resume")
"""Flags that name what a training writes."""


def piped(text: str, launchers: re.Pattern[str]) -> Iterator[Setting]:
    """piped.status, piped.condition and piped.deleted: what the status of tee decides."""
    if re.search(r"pipefail|PIPESTATUS", text):
        return
    commands = list(_commands(text))
    for index, (number, end, command) in enumerate(commands):
        tee = TEE.search(command)
        if tee is None or command.lstrip().startswith("#"):
            continue
        following = next((each for *_, each in commands[index + 1 :] if each.strip()), "")
        span = Span(number, 1, number, 2)
        starts = launchers.search(command) is not None
        decides = tee["then"] and not HARMLESS.match(tee["next"])
        if re.search(r"\$\?", following):
            yield Setting("piped.status", following.strip()[:40], Span(end, 1, end, 2))
        elif starts and (CONDITION.match(command) or decides):
            yield Setting("piped.condition", command.strip()[:40], span)
        elif starts and STOPS.search(text) and (
            what := _deleted(command, [each for *_, each in commands[index + 1 :]])
        ):  # fmt: skip
            yield Setting("piped.deleted", what, span)


def _commands(text: str) -> Iterator[tuple[int, int, str]]:
    """Commands on one line each, with the numbers of their first and last lines."""
    current, first = "", 0
    for number, line in enumerate(text.splitlines(keepends=True), 1):
        first = first if current else number
        current += line
        if not re.search(r"\\\r?\n?$", line):
            yield first, number, CONTINUED.sub(" ", current).rstrip("\n")
            current = ""


def _deleted(command: str, later: list[str]) -> str:
    """What the command writes that is deleted behind it, "" where something copies it first."""
    flags = flags_of(words_of(command))
    written = [value for name, value in flags.items() if value and WRITTEN.search(name)]
    for index, each in enumerate(later):
        found = REMOVED.match(each)
        what = found["what"].strip("\"'").rstrip("/") if found else ""
        name = what.strip("${}")
        if what and any(value == what or value.startswith(f"{what}/") for value in written):
            copied = any(what in line or name in line for line in later[:index])
            return "" if copied else what
    return ""
