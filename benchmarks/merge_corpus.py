"""Merges, conversions and runs with labels: what `doctor scan` must say of each, and what not.

python benchmarks/merge_corpus.py [--only PATTERN] [--keep DIRECTORY]

Healthy cases may neither fail nor warn. A planted case must fail or warn in the check of its label
and say its word. `open` cases are those that cannot be decided; they must be unknown. Merges are
made by peft, into weights of bitsandbytes and by mergekit too, files by the libraries that usually
write them (pip install gguf bitsandbytes, and mergekit with --no-deps); all of it is small, and
takes minutes. A case whose library is missing is left out, and counted.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import sys
import tempfile
import time
import warnings
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
warnings.filterwarnings("ignore")
os.environ |= {"HF_HUB_DISABLE_PROGRESS_BARS": "1", "TRANSFORMERS_VERBOSITY": "error"}

from merge_cases import Case  # noqa: E402
from merge_cases.equalities import equalities  # noqa: E402
from merge_cases.merges import (  # noqa: E402
    healthy_merges,
    merges_by_mergekit,
    planted_merges,
    quantized_merges,
)
from merge_cases.runs import TRAINED, runs  # noqa: E402

from doctor._util.records import Unknown  # noqa: E402
from doctor.checkpoint.contents import ScanRequest, read  # noqa: E402
from doctor.checkpoint.io.stages import no_stage  # noqa: E402
from doctor.checks.checkpoint import CHECKS  # noqa: E402
from doctor.judge.check import Status  # noqa: E402

JUDGED = {check.code: check for check in CHECKS if "CKP015" <= check.code <= "CKP022"}


@dataclass
class Tally:
    counts: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)


def judge(fields: dict[str, Any]) -> dict[str, tuple[Status, str]]:
    result = read(ScanRequest(**fields), no_stage, lambda note: None)
    if isinstance(result, Unknown):
        return {"scan": (Status.UNKNOWN, result.reason)}
    verdicts = {code: check.judge(checkpoint=result) for code, check in JUDGED.items()}
    return {code: (verdict.status, verdict.summary) for code, verdict in verdicts.items()}


def right(case: Case, verdicts: dict[str, tuple[Status, str]]) -> str:
    """ "right", "missed", "wrong" (another cause), "unknown"."""
    loud = {c for c, (status, _) in verdicts.items() if status in (Status.FAIL, Status.WARN)}
    unknown = any(status is Status.UNKNOWN for status, _ in verdicts.values())
    if case.label == "healthy":
        return "false alarm" if loud else "unknown" if unknown else "right"
    if case.label == "open":
        return "right" if unknown and not loud else "wrong"
    status, summary = verdicts.get(case.label, (Status.SKIP, ""))
    if status in (Status.FAIL, Status.WARN):
        return "right" if case.word in summary else "wrong"
    return "unknown" if unknown else "missed"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default="")
    parser.add_argument("--keep", type=Path)
    options = parser.parse_args()
    merges = [*healthy_merges(), *planted_merges(), *quantized_merges(), *merges_by_mergekit()]
    cases = [*merges, *equalities(), *runs()]
    cases = [case for case in cases if re.search(options.only, case.name)]
    tallies: dict[str, Tally] = {}
    began = time.perf_counter()
    for number, case in enumerate(cases):
        kept = options.keep / f"{number:03}" if options.keep else None
        root = kept or Path(tempfile.mkdtemp(prefix="merge-corpus-"))
        root.mkdir(parents=True, exist_ok=True)
        kind = case.label if case.label in ("healthy", "open") else "planted"
        tally = tallies.setdefault(kind, Tally())
        try:
            verdicts = judge(case.build(root))
        except ImportError as error:
            tally.counts[f"left out: {error}"] += 1
            continue
        finally:
            if kept is None:
                shutil.rmtree(root)
        result = right(case, verdicts)
        tally.counts[result] += 1
        if result != "right":
            said = "; ".join(
                f"{code} {status}: {text}"
                for code, (status, text) in verdicts.items()
                if status not in (Status.PASS, Status.SKIP)
            )
            tally.wrong.append(f"{result}: {case.name} [{case.label}] {said[:400]}")
            print(tally.wrong[-1], flush=True)
    for place in TRAINED.values():
        shutil.rmtree(place)
    for kind, tally in tallies.items():
        print(f"{kind}: {sum(tally.counts.values())} cases, {dict(tally.counts)}")
        print(*(f"  {line}" for line in tally.wrong), sep="\n")
    print(f"{time.perf_counter() - began:.0f} s")
    sys.exit(any(tally.wrong for tally in tallies.values()))


if __name__ == "__main__":
    main()
