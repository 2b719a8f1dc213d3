"""False alarms and power of the trials of `--model`, in one process.

    python benchmarks/own_trials.py [PART OF A NAME ...]

Runs the trials alone, without the judged steps, over every healthy factory of the corpus of own
models and over the factories of tests/corpus/own_trials/factories.py, whose names say what they are
(`healthy_...`, or the fault and what is to be found). Prints the share of factories that each trial
applies to, and what it named.
"""

from __future__ import annotations

import collections
import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests" / "support"))

CODE = """
import json, os, sys
out = os.fdopen(os.dup(1), "w")
sys.argv = ["probe", str(os.open(os.devnull, os.O_WRONLY))]
{registered}
import torch
torch.set_num_threads(1)
own, forked = probe("subject.own_model"), probe("trials.forked")
os.dup2(2, 1)
for line in sys.stdin:
    file, name, directory = json.loads(line)
    spec = dict(kind="factory", file=file, name=name, directory=directory, batch=2, length=64)
    try:
        subject = own.make(spec, torch.device("cpu"), "amp", None)
        subject.module.train()
        records = forked.run(subject, torch.device("cpu"))
    except BaseException as error:
        records = str(error)[:100]
    print(json.dumps([name, records]), file=out, flush=True)
"""


def main() -> None:
    import own_corpus
    from probe_code import REGISTERED

    corpus = [(own_corpus.CORPUS / f"{each.module}.py", each.name) for each in
              own_corpus.factories() if each.label is None]  # fmt: skip
    trials = ROOT / "tests" / "corpus" / "own_trials" / "factories.py"
    cases = corpus + [(trials, name) for name in own_corpus.functions(trials)]
    cases = [each for each in cases if not sys.argv[1:] or any(p in each[1] for p in sys.argv[1:])]
    text = "".join(json.dumps([f.name, n, str(f.parent)]) + "\n" for f, n in cases)
    line = [sys.executable, "-c", CODE.format(registered=REGISTERED)]
    answers = {}
    environment = os.environ | {"PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(line, input=text, capture_output=True, text=True, env=environment)
    for answer in done.stdout.splitlines():
        name, records = json.loads(answer)
        answers[name] = records
    report(cases, answers)


def report(cases: list[tuple[Path, str]], answers: dict[str, object]) -> None:
    applied: collections.Counter[str] = collections.Counter()
    found: collections.Counter[tuple[bool, str]] = collections.Counter()
    ran = 0
    for file, name in cases:
        records = answers.get(name)
        if not isinstance(records, list):
            print("not run:", file.name, name, records)
            continue
        ran += 1
        for each in records:
            applied[each["name"]] += each["applies"]
            if each.get("found"):
                named = bool(each.get("operation"))
                healthy = file.name.startswith("healthy") or name.startswith("healthy")
                found[healthy, f"{each['found']} {'named' if named else 'note'}"] += 1
                print(file.stem, name, each["found"], each.get("operation"), each.get("place"))
        if not name.startswith("healthy") and file.parent.name == "own_trials":
            hit = any(each.get("operation") for each in records)
            print("FAULT", name, "named" if hit else [each.get("reason") for each in records])
    print(f"{ran} of {len(cases)} run; applied {dict(applied)}; found {dict(found)}")


if __name__ == "__main__":
    main()
