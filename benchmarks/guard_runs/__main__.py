"""Runs the programs, one process each, and compares their alarms with what is expected."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path

from doctor.checks.guard.resources import RANKS as RANKS_AGREE
from doctor.cli.guard_report import DATA_CHECKS
from doctor.collect.guard_data import read_data
from doctor.collect.guard_records import read_records
from doctor.facts.data import Data
from doctor.facts.guard import Guarded

from .runs import CLEAN, ERRORS, FAULTS, OTHERS, OUTPUT, PUBLIC, REPORTED, run_one, start


def alarms_of(out: Path) -> tuple[list[tuple[str, str, int]], int]:
    alarms: dict[tuple[str, str], int] = {}
    steps = 0
    for path in sorted(out.glob("rank*.jsonl")):
        for line in path.read_text().splitlines():
            record = json.loads(line)
            if record["kind"] == "alarm":
                alarms.setdefault((record["code"], record["status"]), record["step"])
            elif record["kind"] == "state":
                steps = max(steps, record["steps"])
            elif record["kind"] == "end" and record["how"] != "exit":
                alarms["GUARD", record["how"]] = 0
    observed = read_records(out) if out.is_dir() else None
    if isinstance(observed, Guarded) and (verdict := RANKS_AGREE.judge(observed)).status == "fail":
        steps_of = [each.step for process in observed.processes for each in process.checksums]
        alarms["GRD020", "fail"] = min(steps_of)
        print(f"    {verdict.summary}")
    data = read_data(out) if out.is_dir() else None
    for check in DATA_CHECKS if isinstance(data, Data) else ():
        verdict = check.judge(data=data)
        if verdict.status in ("warn", "fail"):
            alarms[check.code, verdict.status] = 0
            print(f"    {verdict.summary}")
    return [(code, status, step) for (code, status), step in alarms.items()], steps


def plain(names: list[str]) -> int:
    """What the faulty programs print by themselves: as a table in Markdown."""
    os.environ["GUARD"] = "off"  # before the process is started from which they are forked
    print("| program | code and step | exit | warnings and errors | last line of stdout |")
    print("|---|---|---|---|---|")
    for name in names or FAULTS:
        out = Path(tempfile.mkdtemp())
        code = start(name, out)
        noise = [line for line in (out / ERRORS).read_text().splitlines() if line.strip()]
        lines = [line for line in (out / OUTPUT).read_text().splitlines() if line.strip()] or [""]
        cells = (name, FAULTS[name][0], code, " / ".join(noise[-3:]), lines[-1])
        row = " | ".join(str(cell).replace("|", "/")[:160] for cell in cells)
        print(f"| {row} |", flush=True)
    return 0


def same(names: list[str]) -> int:
    """Whether each program computes the same with the guard and without it."""
    different = 0
    for name in names or PUBLIC:
        ends = []
        for guard in ("off", "on"):
            out = Path(tempfile.mkdtemp())
            code = start(name, out, GUARD=guard, DIGEST="1")
            ends.append((code, (out / OUTPUT).read_text().splitlines()[-1:]))
        different += ends[0] != ends[1]
        print(f"{'same     ' if ends[0] == ends[1] else 'DIFFERENT'} {name}", flush=True)
    return bool(different)


def main(names: list[str]) -> int:
    groups = {"clean": list(CLEAN), "faults": list(FAULTS), "libraries": list(OTHERS)}
    groups |= {"public": PUBLIC, "reported": REPORTED}
    chosen = [n for name in names or ("clean", "faults") for n in groups.get(name, [name])]
    bad = 0
    for name in chosen:
        out = Path(tempfile.mkdtemp())
        code = start(name, out)
        alarms, steps = alarms_of(out)
        listed = ", ".join(f"{code} {status} at {step}" for code, status, step in alarms) or "-"
        label = FAULTS[name][0] if name in FAULTS else ""
        expected, _, first = label.partition("@")
        good = code == 0 and (
            any(code == expected and first in ("", str(step)) for code, _, step in alarms)
            if expected
            else not alarms and steps
        )
        bad += not good
        print(
            f"{'ok ' if good else 'BAD'} {name:36} {steps:5} steps  {label:10} {listed}",
            flush=True,
        )
        if code:
            print((out / ERRORS).read_text()[-1500:])
    print(f"{len(chosen)} runs, {bad} not as expected")
    return bool(bad)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        run_one(sys.argv[2])
    elif sys.argv[1:2] == ["same"]:
        sys.exit(same(sys.argv[2:]))
    elif sys.argv[1:2] == ["plain"]:
        sys.exit(plain(sys.argv[2:]))
    else:
        sys.exit(main(sys.argv[1:]))
