"""Rehearses the jobs of rehearsal_jobs/cases.toml and compares what is found with the labels.

    python benchmarks/rehearse.py [--set 2] [--at-once N] [--results FILE] [WORD...]

WORDs select cases by job, kind or fault. Each case takes three runs of a small training. Results
are appended to FILE as JSON lines; cases that are in it already are not run again. Cases that need
a package run under --other-python, or are left out without it.
"""

from __future__ import annotations

import argparse
import json
import shlex
import subprocess
import sys
import tempfile
import time
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

JOBS = Path(__file__).parent / "rehearsal_jobs"
PROBLEMS = ("fail", "warn")
STAGES = ("runs", "agrees", "saves", "evaluates", "stops", "continues")


def cases() -> list[dict[str, Any]]:
    """The labelled cases, each with a name."""
    loaded = tomllib.loads((JOBS / "cases.toml").read_text())["case"]
    for case in loaded:
        what = case.get("fault") or case["kind"]
        case["name"] = f"{case['job']}: {what}" + (f" x{case['ranks']}" if "ranks" in case else "")
        case["healthy"] = not case["codes"]
    return list(loaded)


def command(case: dict[str, Any]) -> list[str]:
    """The job's command line."""
    option = "fault" if "fault" in case else "kind"
    program = [str(JOBS / f"{case['job']}.py")]
    for name, value in (("out", "{output}"), (option, case[option])):
        program += [f"{name}={value}"] if "settings" in case else [f"--{name}", value]
    program += case.get("words", "").split()
    if "ranks" not in case:
        return [case["python"], *program]
    number = str(case["ranks"])
    launchers = {
        "torchrun": ["torch.distributed.run", "--standalone", "--nproc-per-node", number],
        "accelerate": ["accelerate.commands.launch", "--multi_gpu", "--num_processes", number,
                       "--num_machines", "1", "--mixed_precision", "no", "--dynamo_backend", "no"],
    }  # fmt: skip
    return [case["python"], "-m", *launchers[case.get("launcher", "torchrun")], *program]


def rehearse(case: dict[str, Any]) -> dict[str, Any]:
    """What the doctor says about one case."""
    words = command(case)
    flags = ["--format", "json", "--no-config", "-q", "--grace", "20s"]
    flags += ["--budget", case.get("budget", "300s")]
    if "resume" in case:
        flags += ["--resume-command", shlex.join([*words, *case["resume"].split()])]
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="rehearse-") as directory:
        ended = subprocess.run(
            [sys.executable, "-P", "-m", "doctor", "rehearse", *flags, "--", *words],
            cwd=directory, capture_output=True, text=True, check=False,
        )  # fmt: skip
        left = sorted(path.name for path in Path(directory).iterdir())
    try:
        report = json.loads(ended.stdout)
    except ValueError:
        report = {"findings": [], "verdict": f"exit code {ended.returncode}: {ended.stderr[-500:]}"}
    problems = {f["code"]: f["summary"] for f in report["findings"] if f["status"] in PROBLEMS}
    statuses = {f["code"]: f["status"] for f in report["findings"]}
    return {
        "name": case["name"], "verdict": report["verdict"], "problems": problems,
        "statuses": statuses, "left": left, "seconds": time.monotonic() - began,
    }  # fmt: skip


def outcome(case: dict[str, Any], result: dict[str, Any]) -> str:
    """ "right", or what is wrong."""
    found = set(result["problems"])
    if not result["statuses"]:
        return f"no report: {result['verdict']}"
    if case["healthy"]:
        unsure = [code for code, status in result["statuses"].items() if status == "unknown"]
        named = sorted(found) or unsure * (result["verdict"] != "ready")
        return f"false alarm: {', '.join(named)}" if named else "right"
    if case["codes"][0] not in found:
        return "missed"
    wrong = found - set(case["codes"])
    return f"also {', '.join(sorted(wrong))}" if wrong else "right"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("words", nargs="*")
    parser.add_argument("--at-once", type=int, default=2)
    parser.add_argument("--set", type=int)
    parser.add_argument("--other-python", default="")
    parser.add_argument("--results", type=Path, default=Path("rehearse-results.jsonl"))
    args = parser.parse_args()
    chosen = [c for c in cases() if all(word in c["name"] for word in args.words)]
    chosen = [c for c in chosen if args.set in (None, c.get("set", 1))]
    for case in chosen:
        case["python"] = args.other_python if "needs" in case else sys.executable
    chosen = [case for case in chosen if case["python"]]
    done = {}
    if args.results.exists():
        lines = args.results.read_text().splitlines()
        done = {result["name"]: result for result in map(json.loads, lines)}
    todo = [case for case in chosen if case["name"] not in done]
    with ThreadPoolExecutor(args.at_once) as pool, args.results.open("a") as file:
        for case, result in zip(todo, pool.map(rehearse, todo), strict=True):
            done[case["name"]] = result
            file.write(json.dumps(result) + "\n")
            file.flush()
            print(
                f"{case['name']}: {outcome(case, result)} ({result['seconds']:.0f} s)", flush=True
            )
    table([case for case in chosen if case["name"] in done], done)
    return 0


def table(chosen: list[dict[str, Any]], done: dict[str, Any]) -> None:
    """Stage x framework: planted and found; then the healthy ones."""
    print("| framework | healthy, silent | " + " | ".join(STAGES) + " |")
    print("|---|---|" + "---|" * len(STAGES))
    for job in dict.fromkeys(case["job"] for case in chosen):
        mine = [case for case in chosen if case["job"] == job]
        results = {case["name"]: outcome(case, done[case["name"]]) for case in mine}
        healthy = [results[case["name"]] for case in mine if case["healthy"]]
        cells = [f"{len(healthy)}, {healthy.count('right')}"]
        for stage in STAGES:
            planted = [results[c["name"]] for c in mine if c.get("stage") == stage]
            found = sum(not each.startswith(("missed", "no report")) for each in planted)
            cells.append(f"{found} of {len(planted)}" if planted else "")
        print(f"| {job} | " + " | ".join(cells) + " |")
    for case in chosen:
        if (found := outcome(case, done[case["name"]])) != "right":
            print(f"{case['name']}: {found}")


if __name__ == "__main__":
    sys.exit(main())
