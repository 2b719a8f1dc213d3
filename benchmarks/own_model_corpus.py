"""Runs the planted faults and the healthy trainings of tests/corpus/own_model, and counts verdicts.

    python benchmarks/own_model_corpus.py [NAME ...]

Each factory runs in a process of its own, as in `doctor run --model`, without the small model.
right: the labelled check fails or warns, and names what the label names. partly: it fails without
naming it. wrong: another check fails, or a cause is named that is not the label's. missed: nothing
fails. A healthy training is right if every check passes.
"""

from __future__ import annotations

import os
import re
import sys
import time
import tomllib
from collections import Counter
from pathlib import Path

from doctor._util.records import Unknown
from doctor.checks.training import diagnosis, own_gradients, own_model, own_weights
from doctor.collect import own_training
from doctor.collect.children import Children
from doctor.facts.own_model import OwnModel
from doctor.job.job import Chosen, Job
from doctor.judge.check import Status, Verdict

CORPUS = Path(__file__).parents[1] / "tests" / "corpus" / "own_model"
HANG_SECONDS = 20.0


def train(model: str, precision: str = "bf16") -> tuple[OwnModel | Unknown | None, Job]:
    job = Job(device="cpu", model=model)
    children = Children()
    try:
        chosen = Chosen(precision, "")  # type: ignore[arg-type]
        report = own_training.collect_own(
            children, sys.executable, job, "cpu", chosen, lambda s: None
        )
    finally:
        children.interrupt()
    return report, job


def judge(own: OwnModel, job: Job) -> dict[str, Verdict]:
    """SMK005 to SMK008; what comes after a failure is not evaluated, as in a run."""
    verdicts = {
        "SMK005": own_model.completes(own, None),
        "SMK006": own_model.loss_finite(own, None),
        "SMK007": own_gradients.gradients_reach_all(own, None, job),
        "SMK008": own_weights.weights_move(own, job),
    }
    bad = (Status.FAIL, Status.UNKNOWN)
    if verdicts["SMK005"].status in bad:
        return {"SMK005": verdicts["SMK005"]}
    if verdicts["SMK006"].status in bad:
        return {code: verdicts[code] for code in ("SMK005", "SMK006")}
    return verdicts


def score_fault(
    own: OwnModel, verdicts: dict[str, Verdict], label: dict, model: str
) -> tuple[str, str]:
    complaints = {c: v for c, v in verdicts.items() if v.status in (Status.FAIL, Status.WARN)}
    if not complaints:
        return "missed", "; ".join(f"{c} {v.status}" for c, v in verdicts.items())
    codes = [code for code in (label["code"], *label.get("accept", ())) if code in complaints]
    if not codes:
        return "wrong", f"not {label['code']} but {', '.join(complaints)}"
    verdict = complaints[codes[0]]
    fixes = {check.code: check.fix for check in own_model.CHECKS}
    summary = verdict.summary.replace(model, "")  # the item's name often contains the cause
    text = f"{summary}\n{verdict.fix or fixes[codes[0]]}".partition("\nTraceback, ")[0]
    absent = [name for name in label["names"] if not re.search(name, text, re.IGNORECASE)]
    if not absent:
        extra = [code for code in complaints if code != codes[0]]
        return "right", f"also {', '.join(extra)}" if extra else ""
    found = own.smoke.diagnosis if own.smoke else None
    confident = found is not None and diagnosis.is_conclusive(found)
    return "wrong" if confident else "partly", f"without {absent}: {verdict.summary[:400]}"


def score_healthy(verdicts: dict[str, Verdict]) -> tuple[str, str]:
    others = {c: v for c, v in verdicts.items() if v.status is not Status.PASS}
    worst = "; ".join(f"{code} {v.status}: {v.summary[:300]}" for code, v in others.items())
    unknown = all(v.status is Status.UNKNOWN for v in others.values())
    return ("right" if not others else "unknown" if unknown else "wrong"), worst


def main(names: list[str]) -> int:
    os.chdir(CORPUS)
    own_training.OWN_SECONDS = HANG_SECONDS
    own_training.BUSY_SECONDS = 300.0
    items = [
        (f"{file}.py:{name}", label)
        for labels in sorted(CORPUS.glob("*.toml"))
        for file, part in tomllib.loads(labels.read_text("utf-8")).items()
        for name, label in part.items()
    ]
    for file in sorted(CORPUS.glob("healthy*.py")):
        functions = re.findall(r"^def ([a-z]\w+)", file.read_text("utf-8"), re.MULTILINE)
        items += [(f"{file.name}:{name}", None) for name in functions]
    counts = {"faults": Counter(), "healthy": Counter()}
    for model, label in items:
        if names and not any(name in model for name in names):
            continue
        started = time.monotonic()
        own, job = train(model, (label or {}).get("precision", "bf16"))
        seconds = time.monotonic() - started
        if not isinstance(own, OwnModel):
            result, why = "wrong", str(own)
        elif label is None:
            result, why = score_healthy(judge(own, job))
        else:
            result, why = score_fault(own, judge(own, job), label, model)
        counts["faults" if label else "healthy"][result] += 1
        print(f"{result:7} {seconds:5.1f} s  {model}  {why}", flush=True)
    for kind, numbers in counts.items():
        total = sum(numbers.values())
        if total:
            share = numbers["right"] / total
            print(f"{kind}: {dict(numbers)} of {total}, right {share:.0%}")
    return int(bool(counts["healthy"]["wrong"] or counts["faults"]["wrong"]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
