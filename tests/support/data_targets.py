"""What `doctor data` finds in a target that is at hand, in this process."""

from __future__ import annotations

import json
from typing import Any

from doctor._util.records import Ended
from doctor.catalog import of_families
from doctor.collect.data import Notes
from doctor.facts.data import Data
from doctor.judge.check import Verdict
from doctor.probes import wire
from doctor.probes.training_side.data import files, look, returned, targets

LEFT_OUT = ("DAT012", "DAT026")
"""They need a measured step, and the file of the target."""


def examined(value: Any, monkeypatch: Any, file: str = "") -> Data:
    """The facts of what a factory of this file returned, or of a path."""
    notes = Notes()

    def send(note: Any = None, **_others: Any) -> None:
        notes.add(json.loads(json.dumps(note)) if note else {})

    monkeypatch.setattr(wire, "send", send)
    request = {"kind": "factory", "tokenizer": "", "splits": ["train", "eval"], "samples": 256,
               "seconds": 20.0, "show": 0, "file": file}  # fmt: skip
    looked = look.Look(request)
    opened = targets.Opened(files.open_path(value)) if isinstance(value, str) else None
    looked._open = lambda: opened or returned.read(value)  # type: ignore[method-assign]
    looked.run()
    data = notes.data("t.py:make", Ended(how="ok"), 1.0)
    assert isinstance(data, Data)
    return data


def verdicts(value: Any, monkeypatch: Any, file: str = "") -> dict[str, Verdict]:
    """The verdict of each check, by its code."""
    data = examined(value, monkeypatch, file)
    checks = [each for each in of_families("DAT") if each.code not in LEFT_OUT]
    return {each.code: each.judge(data=data) for each in checks}
