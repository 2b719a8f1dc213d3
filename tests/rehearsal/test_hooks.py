"""The hooks of a rehearsal in this process: averages in memory, and files that are removed."""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from doctor.guard.rehearsal import audit
from doctor.guard.rehearsal.imports import after_import
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
        (("best.pt",), "os.remove", "c-1.pt", ["c-1.pt"]),  # a result, and nothing to go on from
        (("best-2.pt",), "os.remove", "best-2.pt", []),
        (("bestial.pt",), "os.remove", "c-1.pt", []),
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


def test_graphs_that_no_backward_pass_has_freed() -> None:
    from doctor.guard.rehearsal.graphs import Graphs

    def kept(torch: Any) -> int:
        return Graphs(torch).look()["graphs"]

    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2))
    before = kept(torch)
    lost = [model(torch.ones(2, 3)).sum() for _ in range(3)]
    assert kept(torch) >= before + 3
    for each in lost:
        each.backward()
    freed = model(torch.ones(2, 3)).detach()
    assert kept(torch) == before
    with torch.no_grad():
        plain = model(torch.ones(2, 3))
    assert kept(torch) == before
    del freed, plain


class Normalizer:
    def __init__(self) -> None:
        self.mean, self.var, self.names = torch.ones(3), 2.0, ["a"]
        self.state = {"count": 7}


def test_attributes_of_own_classes() -> None:
    from doctor.guard.rehearsal import attributes, state

    one = Normalizer()
    names = state.snapshot(torch)["attributes"]
    assert names["Normalizer.mean"] == [1.0, 1.0]
    assert names["Normalizer.var"] == [2.0]
    assert names["Normalizer.state.count"] == [7.0]
    assert names["len(Normalizer.names)"] == [1.0]
    baseline = 0.5
    names = state.snapshot(torch)["attributes"]
    assert names["(test_attributes_of_own_classes) baseline"] == [baseline]
    two = Normalizer()  # no order of several is the same in two runs
    assert not attributes.attributes(torch, [one, two])
    assert not attributes.is_own(torch.nn.Linear)
    del one, two


@pytest.mark.parametrize(("age", "found"), [(-5.0, []), (5.0, ["c-2.pt"])])
def test_the_newest_checkpoint_is_removed(age: float, found: list[str], tmp_path: Path) -> None:
    output = tmp_path / "output"
    output.mkdir()
    for name, changed in (("c-1.pt", 1000.0), ("c-2.pt", 1000.0 + age)):
        (output / name).write_bytes(b"x")
        os.utime(output / name, (changed, changed))
    listener = audit.Audit(audit.Events(Settings(str(tmp_path), str(output), (str(output),))))
    listener("os.remove", (str(output / "c-2.pt"), None))
    events = tmp_path / audit.FILE
    lines = events.read_text().splitlines() if events.exists() else []
    kinds = [(e["kind"], Path(e["path"]).name) for e in map(json.loads, lines)]
    assert kinds == [("newest", name) for name in found]


def test_a_link_changes_its_own_place_alone(tmp_path: Path) -> None:
    output = tmp_path / "output"
    output.mkdir()
    listener = audit.Audit(audit.Events(Settings(str(tmp_path), str(output), (str(output),))))
    listener("os.symlink", ("00000010", str(output / "latest"), -1))
    assert not (tmp_path / audit.FILE).exists()
    listener("os.symlink", (str(output), str(tmp_path / "outside"), -1))
    assert "outside" in (tmp_path / audit.FILE).read_text()


def test_what_a_link_leads_to_is_not_in_output(tmp_path: Path) -> None:
    output, data = tmp_path / "output", tmp_path / "data"
    output.mkdir()
    data.mkdir()
    for name in ("data/old.pt", "output/new.pt"):
        (tmp_path / name).write_bytes(b"x")
    (output / "data").symlink_to(data)
    (output / "old.pt").symlink_to(data / "old.pt")
    listener = audit.Audit(audit.Events(Settings(str(tmp_path), str(output), (str(output),))))
    listener("os.listdir", (str(output / "data" / "sub"),))
    listener("os.remove", (str(output / "new.pt"), None))
    lines = (tmp_path / audit.FILE).read_text().splitlines()
    assert [json.loads(line)["kind"] for line in lines] == ["emptied"]  # no other checkpoint there


@pytest.mark.parametrize("moved", [False, True])
def test_a_move_that_mounts_turn_into_a_copy_rewrites_nothing(tmp_path: Path, moved: bool) -> None:
    output = tmp_path / "output"
    output.mkdir()
    last = output / "last.ckpt"
    last.write_bytes(b"1")
    listener = audit.Audit(audit.Events(Settings(str(tmp_path), str(output), (str(tmp_path),))))
    if moved:
        listener("os.rename", (str(tmp_path / "new"), str(last), -1, -1))
    listener("open", (str(last), "wb", os.O_WRONLY | os.O_TRUNC))
    found = tmp_path / audit.FILE
    assert ("rewrite" in (found.read_text() if found.exists() else "")) is not moved


@pytest.mark.parametrize("looks", [0, 2])
def test_a_module_that_is_looked_for_and_imported_later(
    looks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    monkeypatch.delitem(sys.modules, "colorsys", raising=False)
    seen: list[Any] = []
    after_import({"colorsys": seen.append})
    for _ in range(looks):
        assert importlib.util.find_spec("colorsys") is not None
    assert seen == []
    module = importlib.import_module("colorsys")
    assert seen == [module]


LOOKS = """import importlib.util, sys
importlib.util.find_spec("torch")
import torch
sys.exit("_doctor_guard.session" not in sys.modules)
"""


def test_torch_that_is_looked_for_before_it_is_imported_is_watched(tmp_path: Path) -> None:
    environment = {
        **os.environ,
        "DOCTOR_GUARD": json.dumps({"out": str(tmp_path / "records")}),
        "PYTHONPATH": str(Path(audit.__file__).parents[1] / "bootstrap"),
    }
    assert (
        subprocess.run([sys.executable, "-c", LOOKS], env=environment, check=False).returncode == 0
    )
