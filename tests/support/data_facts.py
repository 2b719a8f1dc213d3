"""Facts of a healthy split, of which a test changes some, and the verdict of a check on them."""

from __future__ import annotations

from typing import Any

import msgspec
from recorded_parts import host

from doctor._util.records import Ended
from doctor.catalog import of_families
from doctor.facts.data import Data, Labels, Lengths, Offset, Padding, Split, Starts, Stops
from doctor.facts.data_batches import Mixing
from doctor.facts.data_rows import Repeats
from doctor.facts.script_machine import ScriptMachine
from doctor.judge.check import Verdict

CHECKS = {check.code: check for check in of_families("DAT")}
HOST = msgspec.structs.replace(host(), cpus=16, cgroup_cpus=6.0)
LABELS = Labels(
    objective="next token",
    documents=256,
    tokens=9000,
    trained=4000,
    compared=3000,
    matches={"0": 3000},
    prompts=256,
)
STOPS = Stops(answers=256, stopped=256, generation=("</s>",), source="generation_config.json")
SPLIT = Split(
    name="train",
    kind="loader",
    total=51_000,
    rows=256,
    batches=32,
    ended="samples",
    lengths=Lengths(p50=30, p95=60, longest=64),
    labels=LABELS,
    stops=STOPS,
    starts=Starts(documents=256, token="<s>"),
    padding=Padding(rows=256, excluded=900),
)
MIXING = Mixing(samples=256, distinct=250, batches=32, classes=10, single=0)
OFFSET = Offset(positions=16, shifts={"1": 16})


def data(offset: Any = OFFSET, **fields: Any) -> Data:
    """The data of one split, of which these fields or records differ."""
    records = {}
    for name, value in fields.items():
        old = getattr(SPLIT, name)
        changed = isinstance(value, dict) and isinstance(old, msgspec.Struct)
        records[name] = msgspec.structs.replace(old, **value) if changed else value
    split = msgspec.structs.replace(SPLIT, **records)
    repeats = Repeats(rows=51_000, telling=51_000)
    opened = Ended(how="ok")
    return Data(target="t.py:make", opened=opened, splits=(split,), offset=offset, repeats=repeats)


def verdict(code: str, facts: Data) -> Verdict:
    more = {"own": None, "host": HOST} if code == "DAT012" else {}
    if code == "DAT026":
        more = {"scripts": None, "script_machine": ScriptMachine()}
    return CHECKS[code].judge(data=facts, **more)
