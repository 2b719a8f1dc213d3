"""The hooks of a rehearsal in this process: averages in memory, and files that are removed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from doctor.guard.rehearsal import audit
from doctor.guard.rehearsal.settings import Settings

torch = pytest.importorskip("torch")


class EMA:
    def __init__(self, values: Any, backup: Any = None) -> None:
        self.shadow, self.backup = values, backup or {}


class EmailSender(EMA):
    """No average, by its name."""


def copies(model: Any) -> dict[str, Any]:
    return {name: each.detach().clone() for name, each in model.named_parameters()}


@pytest.mark.parametrize(
    ("make", "names"),
    [
        (lambda m: EMA(copies(m), copies(m)), ["(EMA.shadow) weight", "(EMA.shadow) bias"]),
        (lambda m: EMA(list(copies(m).values())), ["(EMA.shadow) 0", "(EMA.shadow) 1"]),
        (lambda m: EMA(dict(m.named_parameters())), []),  # the weights themselves
        (lambda m: EMA([torch.ones(7)]), []),
        (lambda m: EMA([torch.ones(2)]), []),  # like the bias: losses of a batch, say
        (lambda m: EMA([1.0]), []),
        (lambda m: EMA({}), []),
        (lambda m: EmailSender(copies(m)), []),
    ],
)
def test_averages_that_are_no_modules(make: Any, names: list[str]) -> None:
    from doctor.guard.rehearsal import state

    model = torch.nn.Linear(3, 2)
    optimizer = torch.optim.SGD(model.parameters())
    held = make(model)
    weights = state.snapshot(torch)["weights"]
    found = [name for name in weights if name.startswith(("(EMA", "(Email"))]
    assert found == names
    del held, optimizer  # which were in memory until here


@pytest.mark.parametrize(
    ("others", "event", "gone", "emptied"),
    [
        ((), "os.remove", "c-1.pt", ["c-1.pt"]),
        ((), "shutil.rmtree", "c-1", []),  # a file of that name is there, too
        (("c-2.pt",), "os.remove", "c-1.pt", []),
        (("c-2.pt.tmp",), "os.remove", "c-1.pt", []),
        (("c-2.safetensors",), "os.remove", "c-1.pt", []),
        (("log.txt",), "os.remove", "c-1.pt", ["c-1.pt"]),
        (("log.txt",), "os.remove", "log.txt", []),
    ],
)
def test_the_only_checkpoint_is_removed(
    others: tuple[str, ...], event: str, gone: str, emptied: list[str], tmp_path: Path
) -> None:
    output = tmp_path / "output"
    (output / "c-1").mkdir(parents=True)
    for name in ("c-1.pt", *others):
        (output / name).write_bytes(b"x")
    settings = Settings(str(tmp_path), str(output), (str(output),))
    listener = audit.Audit(audit.Events(settings))
    listener(event, (str(output / gone), None))
    events = tmp_path / audit.FILE
    lines = events.read_text().splitlines() if events.exists() else []
    found = [json.loads(line) for line in lines]
    assert [Path(each["path"]).name for each in found if each["kind"] == "emptied"] == emptied


def test_a_directory_and_what_is_in_it_is_removed_once(tmp_path: Path) -> None:
    output = tmp_path / "output"
    (output / "c-1").mkdir(parents=True)
    (output / "c-1" / "model.safetensors").write_bytes(b"x")
    settings = Settings(str(tmp_path), str(output), (str(output),))
    listener = audit.Audit(audit.Events(settings))
    listener("shutil.rmtree", (str(output / "c-1"), None))
    listener("os.remove", (str(output / "c-1" / "model.safetensors"), None))
    found = [json.loads(line) for line in (tmp_path / audit.FILE).read_text().splitlines()]
    assert [each["what"] for each in found if each["kind"] == "emptied"] == ["shutil.rmtree"]
