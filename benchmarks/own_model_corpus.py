"""Runs every factory of tests/corpus/own_model and compares with the recorded results.

    python benchmarks/own_model_corpus.py [--only TEXT]... [--shard K/N] [--results FILE] [--record]

Each factory runs in a process of its own, as in `doctor run --model`, without the small model and
with one thread, so that sums do not depend on the machine.
right: the labelled check fails or warns, and names what the label names. partly: it fails without
naming it. wrong: another check fails, or a cause is named that is not the label's. missed: nothing
fails. silent: a healthy training passes every check.

--results FILE keeps a line per factory; those that it has are not run again, so an interrupted run
goes on, and files of shards can be joined. --record writes the recorded results anew, from what ran
and, for the rest, as they were. The exit code is 1 if a result is worse than the recorded one.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))

import own_corpus
import patience
import preloaded
import shims
from own_corpus import Factory

from doctor.collect import own_training
from doctor.collect.children import Children
from doctor.facts.own_model import OwnModel
from doctor.job.job import Chosen, Job

HANG_SECONDS = 120.0
"""A compiler may take a minute on a busy machine, and waits for another process meanwhile."""
GOOD = ("right", "silent")
RANK = {name: rank for rank, name in enumerate(("wrong", "missed", "unknown", "partly", *GOOD))}
Row = dict[str, Any]


def train(factory: Factory, python: str) -> tuple[OwnModel | None, str, Job]:
    """The record of the training, or why there is none."""
    job, children = Job(device="cpu", model=factory.model), Children()
    try:
        chosen = Chosen(factory.precision, "")  # type: ignore[arg-type]
        own = own_training.collect_own(children, python, job, "cpu", chosen, lambda s: None)
    finally:
        children.interrupt()
    return (own, "", job) if isinstance(own, OwnModel) else (None, str(own), job)


def run(factory: Factory, python: str) -> Row:
    own, reason, job = train(factory, python)
    if own is None:
        return {"factory": factory.id, "result": "wrong", "why": reason}
    verdicts = own_corpus.evaluated(own_corpus.judge(own, job))
    if factory.label:
        result, why = own_corpus.score_fault(factory, own, verdicts)
    else:
        result, why = own_corpus.score_healthy(verdicts)
    return {"factory": factory.id, "result": result, "why": why}


def read(path: Path | None) -> dict[str, Row]:
    if path is None or not path.exists():
        return {}
    rows = (json.loads(line) for line in path.read_text("utf-8").splitlines())
    return {row["factory"]: row for row in rows}


def print_counts(
    factories: Iterable[Factory], results: dict[str, str], recorded: dict[str, str]
) -> None:
    """Per set and per subject, now and as recorded."""
    groups: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for each in factories:
        pair = (results[each.id], recorded.get(each.id, "new"))
        kind = "all faults" if each.label else "all healthy"
        for group in (f"set {each.set_number:>2}", each.subject, kind):
            groups[group].append(pair)
    for group, pairs in sorted(groups.items()):
        now, then = (Counter(column) for column in zip(*pairs, strict=True))
        change = "" if now == then else f"; recorded: {text(then)}"
        print(f"{group:12} {len(pairs):4}  {text(now)}{change}")


def text(counts: Counter[str]) -> str:
    return ", ".join(f"{count} {name}" for name, count in counts.most_common())


def selected(options: argparse.Namespace) -> list[Factory]:
    part, parts = map(int, options.shard.split("/"))
    chosen = own_corpus.factories()[part - 1 :: parts]
    return [each for each in chosen if any(part in each.id for part in options.only or [""])]


def run_all(factories: list[Factory], rows: dict[str, Row], results: Path | None) -> None:
    """Add the rows that are missing, to the file of results as well."""
    missing = [each for each in factories if each.id not in rows]
    with tempfile.TemporaryDirectory() as folder:
        modules, variables = preloaded.TRAINER, {"OMP_NUM_THREADS": "1"}
        python = shims.python(Path(folder), patience.IN_THE_PROBE, modules, **variables)
        for number, factory in enumerate(missing, 1):
            started = time.monotonic()
            row = rows[factory.id] = run(factory, python)
            place = f"{number}/{len(missing)} {time.monotonic() - started:5.1f} s"
            print(f"{place} {row['result']:7} {factory.id}  {row['why']}", flush=True)
            if results:
                with results.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(row) + "\n")


def worse_than(recorded: dict[str, str], results: dict[str, str]) -> list[str]:
    return [
        f"{name}: {result}, recorded: {recorded[name]}"
        for name, result in results.items()
        if name in recorded and RANK[result] < RANK[recorded[name]]
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", action="append", help="part of MODULE:FACTORY")
    parser.add_argument("--shard", default="1/1", help="K/N: every Nth factory from the Kth")
    parser.add_argument("--results", type=Path)
    parser.add_argument("--record", action="store_true")
    options = parser.parse_args()
    results = options.results.absolute() if options.results else None
    rows, recorded, factories = read(results), own_corpus.recorded(), selected(options)
    os.environ["OMP_NUM_THREADS"] = "1"
    os.chdir(own_corpus.CORPUS)
    own_training.OWN_SECONDS = HANG_SECONDS
    run_all(factories, rows, results)
    found = {each.id: str(rows[each.id]["result"]) for each in factories}
    print_counts(factories, found, recorded)
    if options.record:
        own_corpus.record(recorded | found)
    worse = worse_than(recorded, found)
    print("\n".join(["worse than recorded:", *worse] if worse else ["none is worse than recorded"]))
    return int(bool(worse))


if __name__ == "__main__":
    sys.exit(main())
