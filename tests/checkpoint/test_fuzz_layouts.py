"""Damaged checkpoints of every kind of folder: something is told, at once, and nothing breaks.

Half of the damage is bytes at random; the other half is aimed at what a reader trusts: lengths,
counts, offsets and sizes in headers, archives and pickles.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import pickletools
import random
import re
import shutil
import statistics
import subprocess
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import preloaded
import pytest
from command import doctor
from hypothesis import settings
from saved_layouts import gguf, model_of_gguf, saved, states_of, zero_two

from doctor import catalog
from doctor._util.records import Unknown
from doctor.checkpoint.io.files import Directory
from doctor.checkpoint.io.stages import no_stage
from doctor.checkpoint.reader import LayoutContents
from doctor.checkpoint.records import Checkpoint
from doctor.checkpoint.scan import scan
from doctor.checkpoint.tensors import Part
from doctor.cli.scan import facts_of, without_a_device
from doctor.judge.engine import BROKEN, examine
from doctor.report.formats.plain import render
from doctor.report.report import Report

pytestmark = pytest.mark.slow

torch = pytest.importorskip("torch")

FLIPS = 750 if settings.default.max_examples < 100 else 10_000
"""Damaged directories of each kind: the most with the profile `thorough`."""
TIMES = 2_000
"""A scan of a damaged directory takes at most so many times the CPU time of a typical one."""
JUDGED = 50
"""One in so many results is judged and printed as well."""


# --- folders, as small as they come: a scan takes about a millisecond ------------------------


def trained() -> tuple[Any, Any]:
    torch.manual_seed(0)
    model = torch.nn.Sequential()
    model.add_module("norm", torch.nn.LayerNorm(3, bias=False))
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.randn(2, 3)).pow(3).sum().backward()
    optimizer.step()
    return model, optimizer


def safetensors_file(folder: Path) -> None:
    from safetensors.torch import save_file

    weights = {"model.norm.weight": torch.ones(5), "q_proj.weight": torch.ones(2, 3).bfloat16()}
    save_file(weights, str(folder / "model.safetensors"), {"format": "pt"})


def trainers_folder(folder: Path) -> None:
    """As transformers' Trainer leaves it; test_layouts reads one that it made."""
    from safetensors.torch import save_file

    model, optimizer = trained()
    save_file(model.state_dict(), str(folder / "model.safetensors"))
    torch.save(optimizer.state_dict(), folder / "optimizer.pt")
    log = [{"step": step, "learning_rate": 1e-4 / step} for step in (1, 2)]
    state = {"global_step": 2, "logging_steps": 1, "log_history": log}
    (folder / "trainer_state.json").write_text(json.dumps(state))
    config = {"model_type": "llama", "torch_dtype": "float32", "vocab_size": 8, "pad_token_id": 0}
    (folder / "config.json").write_text(json.dumps(config))


def distributed(folder: Path) -> None:
    model, optimizer = trained()
    weights, kept = states_of(model, optimizer)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of torch, where there is one process
        saved(folder, {"model": weights, "optimizer": kept, "step": 1})


def engine(folder: Path) -> None:
    zero_two(folder, 1)


def gguf_file(folder: Path) -> None:
    (folder / "model.gguf").write_bytes(gguf(model_of_gguf()))


MAKERS: dict[str, Callable[[Path], None]] = {
    "safetensors": safetensors_file,
    "DCP": distributed,
    "DeepSpeed": engine,
    "GGUF": gguf_file,
    "Trainer": trainers_folder,
}

kinds = pytest.mark.parametrize("kind", MAKERS)


def made(kind: str, root: Path) -> Path:
    folder = root / kind
    folder.mkdir()
    MAKERS[kind](folder)
    return folder


def files(folder: Path) -> dict[Path, bytes]:
    """All that is in the folder and not empty."""
    found = {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}
    return {path: data for path, data in found.items() if data}


# --- where numbers lie that a reader trusts ----------------------------------------------------

Field = tuple[int, int]
"""Place and width in bytes; a width below zero is a number in decimal digits."""

RECORDS = {
    b"PK\x03\x04": (6, 8, 14, 18, 22, 26, 28),
    b"PK\x01\x02": (8, 10, 16, 20, 24, 28, 30, 32, 34, 42),
    b"PK\x05\x06": (4, 8, 10, 12, 16, 20),
    b"PK\x06\x06": (4, 24, 32, 40, 48),
    b"PK\x06\x07": (8, 16),
}
"""Signatures of zip's records, and where their sizes, counts and flags are."""

PREFIXES = {"BININT": 4, "BININT1": 1, "BININT2": 2, "LONG1": 1, "BINUNICODE": 4}
PREFIXES |= {"SHORT_BINUNICODE": 1, "FRAME": 8, "BINPUT": 1, "BINGET": 1, "LONG_BINPUT": 4}
"""Opcodes that a number follows, and its width."""


def zipped(data: bytes) -> Iterator[Field]:
    for signature, places in RECORDS.items():
        for match in re.finditer(re.escape(signature), data):
            yield from ((match.start() + place, 4) for place in places)


def pickled(data: bytes) -> Iterator[Field]:
    for match in re.finditer(rb"\x80[\x02-\x05]", data):
        start = match.start()
        with contextlib.suppress(Exception):  # what pickletools says of bytes that are no pickle
            for opcode, _, at in pickletools.genops(io.BytesIO(data[start:])):
                if width := PREFIXES.get(opcode.name):
                    yield start + (at or 0) + 1, width


def written(data: bytes) -> Iterator[Field]:
    """Numbers in text."""
    if b"{" in data[:9]:
        for match in re.finditer(rb"\d+", data):
            yield match.start(), -len(match[0])


def plain(data: bytes) -> Iterator[Field]:
    """Eight bytes that are a number within the file's size: lengths, counts, shapes and offsets."""
    for place in range(max(len(data) - 8, 0)):
        if 0 < int.from_bytes(data[place : place + 8], "little") <= len(data):
            yield place, 8


def fields(data: bytes) -> list[Field]:
    found = [*zipped(data), *pickled(data), *written(data)]
    return found if data[:2] == b"PK" else [*found, *plain(data)]


@dataclass
class Damage:
    """Damages one file of a folder at a time."""

    folder: Path
    chance: random.Random

    def __post_init__(self) -> None:
        self.whole = files(self.folder)
        self.fields = {path: fields(data) for path, data in self.whole.items()}
        self.paths = list(self.whole)
        # as often as there are numbers in it, so that a long payload takes no more than its share
        self.weights = [len(self.fields[path]) + 20 for path in self.paths]

    def apply(self, number: int) -> Path:
        (path,) = self.chance.choices(self.paths, self.weights)
        data = bytearray(self.whole[path])
        for _ in range(self.chance.choice((1, 1, 1, 2, 8))):
            if number % 2 and self.fields[path]:
                self._number(data, *self.chance.choice(self.fields[path]))
            else:
                data[self.chance.randrange(len(data))] = self.chance.randrange(256)
        _write(path, data)
        return path

    def _number(self, data: bytearray, place: int, width: int) -> None:
        if width < 0:
            digits = self.chance.choice((0, 1, 9, 10**-width, 2**31, 2**53, 2**63, 2**64, 10**30))
            text = str(self.chance.choice((1, 1, -1)) * digits).encode()
            data[place : place - width] = text if self.chance.random() < 0.5 else text[:-width]
            return
        width = min(width, len(data) - place)
        if width <= 0:
            return
        old, top = int.from_bytes(data[place : place + width], "little"), 1 << (8 * width)
        new = self.chance.choice(
            [
                0,
                1,
                old + 1,
                old - 1,
                2 * old,
                old // 2,
                old + 64,
                old * 1000,
                len(data),
                top - 1,
                top // 2,
                top // 2 - 1,
                2**31,
                2**32 - 1,
                self.chance.randrange(top),
            ]
        )
        data[place : place + width] = (new % top).to_bytes(width, "little")

    def restore(self, path: Path) -> None:
        _write(path, self.whole[path])


def _write(path: Path, data: bytes | bytearray) -> None:
    """Over what is there: a file that is emptied first may wait for the disk."""
    with path.open("r+b") as file:
        file.write(data)
        file.truncate()


class Bounds:
    """Hears what was read: where nothing is wrong, every byte that is pointed at is there."""

    def __init__(self) -> None:
        self.parts: list[tuple[Path, Part]] = []

    def __call__(self, folder: Directory, contents: LayoutContents) -> None:
        root = Path(folder.address)
        self.parts = [
            (root, part)
            for shard in contents.shards
            for tensor in shard.tensors
            if not tensor.dtype.startswith("ggml")  # of a size that is not known, as a note tells
            for part in tensor.parts or (Part(tensor.file, tensor.begin, tensor.end),)
        ]

    def hold(self) -> bool:
        return all(
            0 <= part.begin <= part.end <= (root / part.file).stat().st_size
            for root, part in self.parts
        )


def judged(path: Path, found: Checkpoint | Unknown) -> None:
    """The findings and the report come as well, and no check breaks."""
    facts = facts_of(str(path), found, 0.0)
    checks = [without_a_device(check) for check in catalog.CHECKS if check.family == "CKP"]
    report = Report(facts, examine(checks, facts))
    assert not [finding for finding in report.findings if BROKEN in finding.verdict.summary]
    assert render(report)


@kinds
def test_bytes_and_numbers_that_are_wrong(tmp_path: Path, kind: str) -> None:
    folder = made(kind, tmp_path)
    sound = scan(str(folder))
    assert isinstance(sound, Checkpoint)
    assert sound.problems == ()
    damage = Damage(folder, random.Random(kind))
    assert sum(map(len, damage.fields.values())) >= 10
    seen: Counter[bool] = Counter()
    costs: list[float] = []
    for number in range(FLIPS):
        path = damage.apply(number)
        bounds = Bounds()
        began = time.process_time()
        try:
            found = scan(str(folder), no_stage, bounds)
            costs.append(time.process_time() - began)
            assert isinstance(found, Checkpoint | Unknown)
            assert msgspec.json.encode(found)
            wrong = isinstance(found, Unknown) or bool(found.problems)
            assert wrong or bounds.hold(), path.name
            if number % JUDGED == 0:
                judged(folder, found)
        except BaseException:
            shutil.copytree(folder, tmp_path / "broke")  # to be looked at
            raise
        seen[wrong] += 1
        damage.restore(path)
    assert min(seen[True], seen[False]) > FLIPS // 100, seen
    assert max(costs) < TIMES * statistics.median(costs)
    assert timeless(scan(str(folder))) == timeless(sound)


def timeless(found: Checkpoint | Unknown) -> Checkpoint | Unknown:
    return found if isinstance(found, Unknown) else msgspec.structs.replace(found, seconds=0.0)


# --- files that change while they are read -----------------------------------------------------

CHANGED = """
import json, random, statistics, sys, threading, time
from collections import Counter
from pathlib import Path
from doctor.checkpoint.scan import scan
from doctor._util.records import Unknown

folder = Path(sys.argv[1])
whole = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
chance, stop = random.Random(0), threading.Event()
took = 0.001  # seconds of a whole scan: the other thread takes as long on a slow machine, too

def change():
    paths = [path for path, data in whole.items() if data]
    while not stop.is_set():
        path = chance.choice(paths)
        data = whole[path]
        way = chance.randrange(4)
        if way == 0:
            with path.open("r+b") as file:
                file.truncate(chance.randrange(len(data)))
        elif way == 1:
            path.write_bytes(chance.randbytes(len(data)))
        elif way == 2:
            path.unlink()
        time.sleep(chance.random() * took / 4)
        path.write_bytes(data)
        time.sleep(chance.random() * took)

sys.setswitchinterval(1e-5)
other = threading.Thread(target=change)
other.start()
seen, costs = Counter(), []
until = time.monotonic() + 60
try:
    while min(seen["wrong"], seen["fine"]) < 30 and time.monotonic() < until:
        began, start = time.thread_time(), time.monotonic()
        found = scan(str(folder))
        seconds = time.monotonic() - start
        costs.append(time.thread_time() - began)
        wrong = isinstance(found, Unknown) or bool(found.problems)
        seen["wrong" if wrong else "fine"] += 1
        took = took if wrong else seconds
finally:
    stop.set()
    other.join()
print(json.dumps({**seen, "times": max(costs) / statistics.median(costs)}))
"""


@kinds
def test_files_that_another_thread_cuts_and_rewrites(tmp_path: Path, kind: str) -> None:
    """In a process of its own: reading a mapped file that is cut would end it with SIGBUS."""
    folder = made(kind, tmp_path)
    command = [preloaded.python(preloaded.READERS), "-c", CHANGED, str(folder)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=240)
    assert (ended.returncode, ended.stderr) == (0, "")
    seen = json.loads(ended.stdout)
    assert seen["wrong"] > 5, seen
    assert seen["fine"] > 5, seen
    assert seen["times"] < TIMES, seen


@contextlib.contextmanager
def changing(path: Path) -> Iterator[None]:
    """Cut the file and write it anew, over and over."""
    whole, stop = path.read_bytes(), threading.Event()

    def change() -> None:
        chance = random.Random(0)
        while not stop.is_set():
            os.truncate(path, chance.randrange(len(whole)))
            time.sleep(0.001)
            path.write_bytes(whole)
            time.sleep(0.001)

    other = threading.Thread(target=change)
    other.start()
    try:
        yield
    finally:
        stop.set()
        other.join()


@pytest.mark.parametrize("name", ["model.safetensors", "model.pt"])
def test_the_command_while_a_file_changes(tmp_path: Path, name: str) -> None:
    """`doctor scan --deep` reads every byte of four megabytes that come and go."""
    from safetensors.torch import save_file

    path = tmp_path / name
    weights = {f"layers.{number}.norm.weight": torch.ones(1 << 16) for number in range(16)}
    if path.suffix == ".pt":
        torch.save(weights, path)
    else:
        save_file(weights, str(path))
    told = []
    with changing(path):
        for _ in range(4):
            ended = doctor("scan", path, "--deep", "--format", "json")
            assert ended.stderr == ""
            report = json.loads(ended.stdout)
            assert report["exit_code"] == ended.returncode
            found = report["checkpoint"]
            assert "layout" in found, found  # else the child that reads has died
            values = found.get("values") or {}
            told += found.get("problems", []) + values.get("problems", [])
    assert {problem["kind"] for problem in told} <= {"damaged", "disguised", "not-inspectable"}
    assert told
