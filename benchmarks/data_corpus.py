"""Pipelines that are healthy or have one planted fault, against `doctor data`.

    python benchmarks/data_corpus.py [--only PATTERN] [--verbose]

Run under an interpreter that has the doctor's dependencies, torch, transformers, datasets, trl and
lightning. `data_pipelines/labels.csv` names for each case the code that must warn or fail, "-" for
none, written before the first run. Each case runs in a fork, so the libraries are imported once.
"""

from __future__ import annotations

import argparse
import csv
import fnmatch
import json
import os
import sys
import time
from collections import Counter
from importlib.util import find_spec
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

from doctor._util.records import Ended, Unknown  # noqa: E402
from doctor.catalog import of_families  # noqa: E402
from doctor.cli.data import facts_of  # noqa: E402
from doctor.collect.data import DataRequest, Notes  # noqa: E402
from doctor.judge.check import Status  # noqa: E402
from doctor.judge.engine import examine  # noqa: E402

LABELS = HERE / "data_pipelines" / "labels.csv"
LOUD = (Status.WARN, Status.FAIL)


def preload() -> Any:
    """Import what the pipelines need, and return the probe."""
    sys.path.insert(0, str(HERE / "data_pipelines"))
    os.environ["HF_HUB_OFFLINE"] = "1"
    import torch

    torch.set_num_threads(1)
    if find_spec("torchvision"):
        import vision  # noqa: F401 - declares operators before anything imports torchvision
    for name in ("families", "transformers.trainer", "trl.trainer.sft_trainer", "lightning"):
        try:
            __import__(name)
        except ImportError as error:
            print(f"not imported: {error}")
    from doctor.probes import wire
    from doctor.probes.training_side.data import keeper, look

    keeper.keep = lambda: None
    return wire, look


def run(probe: Any, case: dict[str, str]) -> dict[str, Any]:
    """Code -> (status, summary) of a case, in a fork."""
    wire, look = probe
    file, _, name = case["case"].partition(":")
    path = HERE / "data_pipelines" / file
    what: dict[str, object] = {"kind": "factory", "file": str(path), "name": name}
    request = {**what, "tokenizer": "", "splits": ["train", "eval"], "samples": 256,
               "seconds": 10.0, "show": 0}  # fmt: skip
    reading, writing = os.pipe()
    started = time.monotonic()
    pid = os.fork()
    if not pid:
        os.close(reading)
        null = os.open(os.devnull, os.O_WRONLY)
        log = os.open(f"/tmp/data-corpus-{os.getppid()}.log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(null, 1), os.dup2(log, 2)
        wire.report_to(writing)
        look.main(json.dumps(request))
        os._exit(1)
    os.close(writing)
    notes, ended = Notes(), Ended(how="error", detail="the process ended")
    with os.fdopen(reading, "rb") as file_:
        for line in file_:
            message = json.loads(line)
            notes.add(message.get("note") or {})
            if "answer" in message:
                ended = Ended(how="ok")
    os.waitpid(pid, 0)
    section = notes.data(case["case"], ended, time.monotonic() - started)
    if isinstance(section, Unknown):
        return {"DAT000": ("unknown", section.reason)}
    facts = facts_of(DataRequest(target=case["case"], what=what), section, 0.0)
    found = examine(of_families("DAT"), facts)
    return {each.check.code: (each.status, each.verdict.summary) for each in found}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default="*")
    parser.add_argument("--verbose", action="store_true")
    arguments = parser.parse_args()
    with LABELS.open() as file:
        cases = [
            row for row in csv.DictReader(file) if fnmatch.fnmatch(row["case"], arguments.only)
        ]
    probe = preload()
    hits, misses, wrong = Counter[str](), Counter[str](), Counter[str]()
    applied, healthy = Counter[str](), 0
    for case in cases:
        found = run(probe, case)
        loud = {code for code, (status, _) in found.items() if status in LOUD}
        expected = set() if case["expected"] == "-" else set(case["expected"].split("+"))
        if not expected:
            healthy += 1
            for code, (status, _) in found.items():
                applied[code] += status in (Status.PASS, Status.NOTE, *LOUD)
        hits.update(loud & expected), misses.update(expected - loud), wrong.update(loud - expected)
        verdict = "ok" if loud == expected else "WRONG"
        print(
            f"{verdict:5} {case['case']:34} expected {case['expected']:7} got {sorted(loud)}",
            flush=True,
        )
        for code, (status, summary) in found.items():
            if (
                arguments.verbose
                or (verdict == "WRONG" and code in loud ^ expected)
                or code == "DAT000"
            ):
                print(f"      {code} {status} {summary[:300]}")
    print(f"\n{len(cases)} cases, {healthy} healthy, {sum(hits.values())} hits, "
          f"{sum(misses.values())} misses, {sum(wrong.values())} false")  # fmt: skip
    print("code    hits misses false  applied to healthy")
    for check in of_families("DAT"):
        code = check.code
        print(
            f"{code}  {hits[code]:4} {misses[code]:6} {wrong[code]:5}  {applied[code]} of {healthy}"
        )


if __name__ == "__main__":
    main()
