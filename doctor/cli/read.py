"""A pasted report of another machine: read, judged by the checks that it can answer."""

from __future__ import annotations

import os
import re
import stat
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import msgspec

from doctor._util.errors import UserError
from doctor._util.records import Unknown
from doctor._util.secrets import hide_secrets
from doctor._util.units import visible
from doctor.checks.torch_build import wheels
from doctor.checks.torch_build.wheel_table import WHEELS
from doctor.cli.config_choice import ConfigChoice
from doctor.cli.examination import Record
from doctor.cli.facts_file import STDIN
from doctor.cli.findings import findings_of
from doctor.cli.job_file import read_job_file
from doctor.cli.judging import judged
from doctor.errors.cause import Cause
from doctor.errors.fitted import fitted
from doctor.errors.match import LONGEST, lines_of, message_of, with_message
from doctor.facts.facts import Facts
from doctor.pasted import Reading, read
from doctor.pasted.lines import STAMPED, clean
from doctor.pasted.reading import ReportError
from doctor.pasted.sections import Tables, facts_of
from doctor.pasted.torch_messages import PAST
from doctor.report.report import FailOn, Report

MAX_BYTES = 64 * 2**20


def read_report(
    path: Path, flags: Mapping[str, object], config: ConfigChoice, fail_on: FailOn = "fail"
) -> Report:
    """The report in a file, or "-" for stdin, judged. Raises UserError."""
    record = Record()
    name = "stdin" if path == STDIN else str(path)
    facts = facts_of_text(_read(path, name), name)
    return judge(facts.with_(examination=record.close()), flags, config, fail_on, name)


def facts_of_text(text: str, name: str) -> Facts:
    """The facts of the reports in a text. Raises UserError if there is none."""
    try:
        reading = read(text)
    except ReportError as error:
        raise UserError(f"{name}: {error}") from None
    if not reading:
        raise UserError(f"{name} contains no report that is known{_known_line(text)}")
    return to_facts(reading)


MESSAGE = 60
"""Lines of a text that is a message with its traceback; more are a log."""
PASTE = "; paste the whole output of collect_env, nvidia-smi, rocm-smi, pip list or an env command"


def _known_line(text: str) -> str:
    """What is known of the first error in a text without a report. A form of a sentence counts in a
    message alone: lines of a kernel or an installer have it, too."""
    lines = clean(text)
    found = next(
        (
            (row, line)
            for row, line in lines_of(lines)
            if not PAST.search(line)
            and not (row.quotes and (len(lines) > MESSAGE or STAMPED.match(line)))
        ),
        None,
    )
    if found is None:
        return PASTE
    message = message_of(text)
    cause = next(iter(with_message(message)), found[0])
    shown = visible(_telling(found[0], hide_secrets(" ".join(found[1].split()))))
    fitting = fitted(cause, message)
    fix = " ".join((fitting.fix or fitting.why).split())
    return f", but this line is known: {shown} ({cause.id}): {fix} doctor explain {cause.id}"


SHOWN = 160
BEFORE = 40
"""Characters of a line that are shown, and those in front of the message in it."""


def _telling(row: Cause, line: str) -> str:
    """The line, or, where it is long, its part with the message."""
    found = (re.search(each, line[:LONGEST], re.IGNORECASE) for each in row.messages)
    at = min((match.start() for match in found if match), default=0)
    return line[:SHOWN] if at < SHOWN - BEFORE else f"... {line[at - BEFORE :][:SHOWN]}"


SIGNS = (
    b"PyTorch version", b"NVIDIA-SMI", b"NVSMI LOG", b"nvidia_smi_log", b"torch version ..",
    b"GPU models and configuration", b"Failed to initialize NVML",
    b"Unable to determine the device handle", b"ROCm System Management Interface",
    b"sglang.check_env", b"`transformers` version", b"`Accelerate` version",
    b"`llamafactory` version",
)  # fmt: skip
"""One of them is in every report."""
BEGINNING = 2**20
"""Bytes of a log in which a report is looked for: jobs print it first."""
MOST_FILES = 16


def facts_in_logs(paths: Sequence[str]) -> Facts | None:
    """The facts of the first report at the beginning of one of these logs; None: there is none."""
    for path in paths[:MOST_FILES]:
        try:
            data = _beginning(Path(path))
            text = data.decode("utf-8", "replace") if _has_sign(data) else ""
            reading = read(text, alone=False)
        except (OSError, ReportError):
            continue
        if reading:
            return _without_lines(to_facts(reading))
    return None


def _without_lines(facts: Facts) -> Facts:
    """Lines of a log are judged as a log, which knows where the training went on."""
    if isinstance(facts.host, Unknown):
        return facts
    return facts.with_(host=msgspec.structs.replace(facts.host, reported=None))


def _beginning(path: Path) -> bytes:
    """Of a regular file; of a pipe nothing, because it can be read only once."""
    if not path.is_file():
        return b""
    with path.open("rb") as file:
        return file.read(BEGINNING)


def _has_sign(data: bytes) -> bool:
    return any(sign in data for sign in SIGNS)


def to_facts(reading: Reading) -> Facts:
    """The facts of a reading, with what is known of published wheels and GPU models."""
    return facts_of(reading, Tables(wheels.capability_of, _archs, _driver_cuda))


def judge(
    facts: Facts,
    flags: Mapping[str, object],
    config: ConfigChoice,
    fail_on: FailOn = "fail",
    name: str = "",
) -> Report:
    """The report of all machine checks; those that the facts cannot answer are unknown.

    Only a job file that is named is read: the one of this directory is for another machine. Raises
    UserError for flags and the job file.
    """
    expect = read_job_file(config, search=False).expect
    facts = facts if expect is None else facts.with_(expect=expect)
    observed = findings_of(facts)
    checks = [each.check for each in observed]
    report = judged(facts, observed, checks, flags, config, fail_on, search=False)
    return replace(report, replayed=name)


def _archs(version: str, cuda: str, arch: str) -> tuple[str, ...]:
    """The code in the published wheel; () for a nightly, a build of one's own or an old one."""
    release = re.fullmatch(r"(\d+)\.(\d+)\.\d+(?:\+cu\d+)?", version)
    parts = re.fullmatch(r"(\d+)\.(\d+)", cuda)
    if not release or not parts:
        return ()
    key = (int(release[1]), int(release[2])), (int(parts[1]), int(parts[2])), arch
    return next((w.codes for w in WHEELS if (w.torch, w.cuda, w.platform) == key), ())


def _driver_cuda(version: str) -> int | None:
    newest = wheels.Driver.read(version).newest_cuda
    return newest[0] * 1000 + newest[1] * 10 if newest else None


def _read_file(path: Path) -> bytes:
    """At most one byte more than the limit; a pipe that nobody writes to is read as empty."""
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
        if stat.S_ISFIFO(os.fstat(file.fileno()).st_mode):
            os.set_blocking(file.fileno(), True)
        return file.read(MAX_BYTES + 1)


def _read(path: Path, name: str) -> str:
    """The text of a file, a pipe or stdin. Raises UserError."""
    try:
        if path == STDIN:
            if sys.stdin.isatty():
                print("paste the report, then press Ctrl-D:", file=sys.stderr)
            data = sys.stdin.buffer.read(MAX_BYTES + 1)
        else:
            data = _read_file(path)
    except OSError as error:
        raise UserError(f"{name}: {error.strerror}") from None
    if len(data) > MAX_BYTES:
        raise UserError(f"{name} exceeds the {MAX_BYTES >> 20} MiB limit")
    encoding = "utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    return data.decode(encoding, "replace")
