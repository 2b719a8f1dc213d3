"""What a child process printed: its last lines, and the Python stack at a crash or a hang."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from doctor._util.secrets import HIDDEN, hide_secrets, pattern_of_values
from doctor.facts.error_texts import LIBRARY_FILE

LINES = 12
COLUMNS = 300
FRAMES = 8
STACK = re.compile(r"^(Fatal Python error: .*|Timeout \([\d:.]+\)!)$", re.MULTILINE)
"""The first line of what faulthandler writes."""
THREAD = re.compile(r"^(?:Current thread|Thread) 0x.*\(most recent call first\):$", re.MULTILINE)
FRAME = re.compile(r'^  File "(?P<file>[^"]*)", line (?P<line>\d+) in (?P<name>.*)$', re.MULTILINE)
PROBES = re.compile(r"[/\\]probes[/\\](?:training_side[/\\]|launch\.py|wire\.py)")


def python_stack(output: str) -> tuple[str, ...]:
    """The lines of the main thread in the last stack that faulthandler wrote, () if there is none.

    The innermost is first; lines of the user's files come before those of libraries.
    """
    starts = list(STACK.finditer(output))
    if not starts:
        return ()
    text = output[starts[-1].end() :]
    # faulthandler writes the main thread last; at a crash it writes the one that crashed.
    threads = [match.end() for match in THREAD.finditer(text)]
    frames = [
        match
        for match in FRAME.finditer(text[threads[-1] :] if threads else text)
        if not PROBES.search(match["file"])
    ]
    ordered = sorted(frames, key=lambda match: bool(LIBRARY_FILE.search(match["file"])))
    return tuple(
        f"{os.path.basename(match['file'])}, line {match['line']}, in {match['name']}"  # noqa: PTH119
        for match in ordered[:FRAMES]
    )


ASSERTION = re.compile(
    r"(?P<file>[\w.-]+\.(?:cu|cuh|hip|h)):(?P<line>\d+): (?P<kernel>[^\n]{1,200}?): block: "
    r"\[[\d,]+\], thread: \[[\d,]+\] Assertion `(?P<text>[^`\n]{1,300})` failed"
)
"""What a kernel prints for each thread whose assertion fails."""


def kernel_assertion(output: str) -> str:
    """The first assertion that failed in a kernel, "" if none did."""
    match = ASSERTION.search(output)
    if match is None:
        return ""
    return f"{match['file']}:{match['line']}, {match['kernel']}: `{match['text']}` failed"


def in_torch(output: str) -> bool:
    """Whether the innermost line of that stack is one of torch."""
    starts = list(STACK.finditer(output))
    first = FRAME.search(output, starts[-1].end()) if starts else None
    return first is not None and "site-packages/torch/" in first["file"].replace("\\", "/")


def last_lines(
    output: str, environment: Mapping[str, str], since: str | None = None
) -> tuple[str, ...]:
    """The last lines that were printed, without stacks and values of secret variables."""
    if since and output.startswith(since):
        output = output[len(since) :]
    stack = STACK.search(output)
    text = output[: stack.start()] if stack else output
    values = pattern_of_values(environment)
    text = hide_secrets(values.sub(HIDDEN, text) if values else text)
    lines = [line.rstrip()[:COLUMNS] for line in text.splitlines() if line.strip()]
    return tuple(lines[-LINES:])
