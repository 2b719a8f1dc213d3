"""Hostile torch files: nothing in them happens, and the answer is quick and small."""

from __future__ import annotations

import json
import pickle
import random
import statistics
import struct
import subprocess
import time
import zipfile
from pathlib import Path
from typing import Any

import preloaded
import pytest
from hypothesis import settings

from doctor.checkpoint.errors import CheckpointError
from doctor.checkpoint.formats.torch_files import read_torch
from doctor.checkpoint.io.files import LocalDirectory
from doctor.checkpoint.tensors import Shard

torch = pytest.importorskip("torch")

TIMES = 2_000
"""A damaged file takes at most so many times the CPU time of a sound one."""

CALLS = 40
"""Calls of functions for each byte of a pickle, and as many for a thousand bytes of every file."""

MEGABYTES = 40
"""That reading any file may take, beyond what its pickle may."""

PER_BYTE = 100
"""Bytes of memory that each byte of a pickle may take."""

MOST = 200
"""Megabytes of any of these files."""

PART = 4
"""A pickle may take so many times less than in the command, so that small ones reach the limit."""

CHILD = """
import cProfile, json, resource, sys
from pathlib import Path
from doctor.checkpoint.pickle import reader
from doctor.checkpoint.io.files import LocalDirectory
from doctor.checkpoint.formats.torch_files import read_torch
resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
place = Path(sys.argv[1])
reader.ALLOWANCE //= int(sys.argv[2])
with LocalDirectory(place.parent).open(place.name) as source:
    counter = cProfile.Profile()
    shard = counter.runcall(read_torch, source, place.name)
    calls = sum(entry.callcount for entry in counter.getstats())
# ru_maxrss would count what the parent had when it forked.
status = Path("/proc/self/status").read_text()
most = int(status.partition("VmHWM:")[2].split()[0]) / 1024
print(json.dumps({
    "calls": calls, "megabytes": most, "tensors": len(shard.tensors),
    "problems": [[p.kind, p.text] for p in shard.problems],
    "imports": shard.imports, "refused": shard.refused, "readable": shard.readable,
}))
"""


def read(path: Path) -> Shard:
    with LocalDirectory(path.parent).open(path.name) as source:
        return read_torch(source, path.name)


def stored(path: Path, data: bytes, records: dict[str, bytes] | None = None) -> Path:
    """A file as torch.save writes it, of this pickle."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr("m/data.pkl", data)
        for name, held in (records or {}).items():
            archive.writestr(f"m/{name}", held)
    return path


def short(text: str) -> bytes:
    return b"\x8c" + bytes([len(text)]) + text.encode()


TENSOR = b"ctorch._utils\n_rebuild_tensor_v2\n("


def tensor(
    key: bytes = b"X\x01\0\0\x000",
    count: bytes = b"K\x04",
    offset: bytes = b"K\x00",
    shape: bytes = b"K\x04\x85",
    stride: bytes = b"K\x01\x85",
    kind: bytes = b"ctorch\nFloatStorage\n",
) -> bytes:
    pid = b"(" + short("storage") + kind + key + short("cpu") + count + b"tQ"
    return TENSOR + pid + offset + shape + stride + b"\x89}tR"


def state(*values: bytes) -> bytes:
    items = b"".join(short(f"w{i}") + value for i, value in enumerate(values))
    return b"\x80\x02}(" + items + b"u."


DATA = {"data/0": bytes(16)}
LONG = b"\x8a\x08" + struct.pack("<q", (1 << 62))

DOUBLED = b"N" + b"\x85" + b"2\x86" * 60
"""((t, t), (t, t)), ... sixty times: hashing, comparing or printing it takes 2^60 steps."""


def canary(path: Path) -> str:
    return f'touch "{path}/canary"'


def calls(path: Path) -> dict[str, bytes]:
    """Every way in which a pickle calls something."""
    said = canary(path)
    text = short(said)
    return {
        "GLOBAL REDUCE": b"\x80\x02cos\nsystem\n" + text + b"\x85R.",
        "STACK_GLOBAL": b"\x80\x04" + short("os") + short("system") + b"\x93" + text + b"\x85R.",
        "memo confusion": b"\x80\x04"
        + short("os")
        + b"\x94"
        + short("torch")
        + b"\x94"
        + b"h\x00"
        + short("system")
        + b"\x93"
        + text
        + b"\x85R.",
        "INST": b"(" + text + b"ios\nsystem\n.",
        "OBJ": b"(cos\nsystem\n" + text + b"o.",
        "NEWOBJ": b"\x80\x02cos\nsystem\n" + text + b"\x85\x81.",
        "NEWOBJ_EX": b"\x80\x04cos\nsystem\n" + text + b"\x85}\x92.",
        "eval": b"c__builtin__\neval\n" + short(f"__import__('os').system('{said}')") + b"\x85R.",
        "getattr": b"c__builtin__\ngetattr\ncos\n__dict__\n" + short("system") + b"\x86R)R.",
        "BUILD of a global": b"cos\nsystem\n)R}" + short("__setstate__") + b"cos\nsystem\nsb.",
        "in a state": b"\x80\x02}" + short("w") + b"cos\nsystem\n" + text + b"\x85Rs.",
        "as a key": b"\x80\x02}cos\nsystem\n" + text + b"\x85RNs.",
        "as a storage's class": state(tensor(kind=b"cos\nsystem\n" + text + b"\x85R")),
        "as a storage's key": state(tensor(key=b"cos\nsystem\n" + text + b"\x85R")),
        "as a shape": state(tensor(shape=b"cos\nsystem\n" + text + b"\x85R")),
    }


HEAVY: dict[str, bytes] = {
    "a key that hashes for ever": b"\x80\x02}" + DOUBLED + b"Ns.",
    "a storage key that prints for ever": state(tensor(key=DOUBLED)),
    "a shape that prints for ever": state(tensor(shape=DOUBLED)),
    "a tree that walks for ever": b"\x80\x02" + b"]" + b"2\x86" * 60 + b".",
    "dictionaries that walk for ever": b"\x80\x02}"
    + b"q\x00}(X\1\0\0\0ah\0X\1\0\0\0bh\0u" * 90
    + b".",
    "a memo at 2^31": b"Nr\xff\xff\xff\x7f.",
    "a memo at 2^32": b"Nr\xff\xff\xff\xff.",
    "bytes of 4 GB": b"\x8e\xff\xff\xff\xff\0\0\0\0a.",
    "bytes of 2^63": b"\x8e\xff\xff\xff\xff\xff\xff\xff\x7fa.",
    "text of 4 GB": b"X\xff\xff\xff\xffa.",
    "a frame of 2^63": b"\x95\xff\xff\xff\xff\xff\xff\xff\x7fN.",
    "tuples in each other": b"N" + b"\x85" * 125_000 + b".",
    "lists in each other": b"]" + b"]" * 125_000 + b"a" * 125_000 + b".",
    "marks": b"(" * 225_000 + b".",
    "lists": b"]" * 250_000 + b".",
    "dictionaries": b"}" * 250_000 + b".",
    "sets": b"\x8f" * 250_000 + b".",
    "objects": b"cos\nsystem\n" + b"2)R" * 100_000 + b".",
    "references": b"N" + b"Q" * 225_000 + b".",
    "a memo of all": b"\x80\x04" + b"]\x94" * 175_000 + b".",
    "constants": b"N" * 750_000 + b".",
    "pops": b"N" + b"N0" * 500_000 + b".",
    "numbers that collide": b"}("
    + b"".join(
        b"\x8a\x0a" + (n * ((1 << 61) - 1)).to_bytes(10, "little") + b"N" for n in range(25_000)
    )
    + b"u.",
    "tuples that collide": b"}("
    + b"".join(
        b"\x8a\x09"
        + ((n * 0x9E3779B97F4A7C15) % (1 << 60)).to_bytes(9, "little")
        + b"\x8a\x09"
        + (n << 48).to_bytes(9, "little")
        + b"\x86N"
        for n in range(15_000)
    )
    + b"u.",
    "one list appended to": b"]" + b"(" + b"N" * 250_000 + b"e.",
    "a list that holds itself": b"]q\0" + b"h\0a" * 75_000 + b".",
    "a number of many digits": b"L" + b"9" * 900_000 + b"L\n.",
    "a number of many bytes": b"\x8b\xff\xff\x0f\0" + b"\x7f" * 0x0FFFFF + b".",
    "a long name": b"}X\0\0\x10\0" + b"a" * 0x100000 + tensor() + b"s.",
    "long names in each other": b"}"
    + (b"X\0\0\x01\0" + b"a" * 0x10000 + b"}") * 40
    + b"s" * 40
    + b".",
    "many strings": b"\x80\x02" + b"X\1\0\0\0a" * 125_000 + b".",
    "wide text": b"X\0\0\x80\0" + b"a" * (0x800000 - 4) + "\U0001f600".encode() + b".",
    "globals": b"".join(b"cm%d\nn\n0" % n for n in range(25_000)) + b"N.",
    "one tensor many times": b"\x80\x02" + tensor() + b"q\1](" + b"h\1" * 25_000 + b"e.",
}

WRONG_TENSORS: dict[str, tuple[bytes, str]] = {
    "a storage larger than its record": (tensor(count=b"M\xff\xff"), "says it has 262,140"),
    "a shape beyond the storage": (tensor(shape=b"K\x05\x85"), "whose bytes end at 20"),
    "a stride beyond the storage": (tensor(stride=b"K\x09\x85"), "whose bytes end at 112"),
    "an offset beyond the storage": (tensor(offset=b"K\x01"), "whose bytes end at 20"),
    "a negative offset": (tensor(offset=b"J\xff\xff\xff\xff"), "without an offset"),
    "a negative shape": (tensor(shape=b"J\xff\xff\xff\xff\x85"), "no sizes"),
    "a negative stride": (tensor(stride=b"J\xff\xff\xff\xff\x85"), "no sizes"),
    "a shape that overflows": (tensor(shape=LONG * 3 + b"\x87", stride=b"K\1K\1K\1\x87"), "2^63"),
    "a stride that overflows": (tensor(shape=b"K\x04K\x04\x86", stride=LONG * 2 + b"\x86"), "2^63"),
    "strides of another length": (tensor(stride=b")"), "do not fit its shape"),
    "a shape of bools": (tensor(shape=b"\x88\x85"), "no sizes"),
    "a shape of floats": (tensor(shape=b"G\x40\x10\0\0\0\0\0\0\x85"), "no sizes"),
    "many dimensions": (tensor(shape=b"(" + b"K\1" * 70 + b"t"), "70 dimensions"),
    "a record that is not there": (tensor(key=b"X\x01\0\0\x007"), "data/7, which is not in it"),
    "a path for a key": (tensor(key=short("../../etc/passwd")), "which is not in it"),
    "an unknown storage": (tensor(kind=b"ctorch\nNewStorage\n"), "class torch.NewStorage"),
    "no storage": (TENSOR + b"NK\0))\x89}tR", "without a storage"),
    "few arguments": (TENSOR + b"tR", "too few arguments"),
    "a negative storage": (tensor(count=b"J\xff\xff\xff\xff"), "without a key or a size"),
}


def child(path: Path, part: int = PART) -> dict[str, Any]:
    ended = subprocess.run(
        [preloaded.python(preloaded.READERS), "-c", CHILD, str(path), str(part)],
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert ended.returncode == 0, ended.stderr[-2000:]
    answer: dict[str, Any] = json.loads(ended.stdout)
    return answer


def legacy(data: bytes) -> bytes:
    """A file of the old form with this pickle and no storages."""
    first = [0x1950A86A20F9469CFC6C, 1001, {"little_endian": True}]
    return b"".join(pickle.dumps(part, 2) for part in first) + data + pickle.dumps([], 2)


def test_no_payload_runs(tmp_path: Path) -> None:
    for name, data in calls(tmp_path).items():
        for path in (tmp_path / "zip.pt", tmp_path / "legacy.pt"):
            if path.name == "zip.pt":
                stored(path, data, DATA)
            else:
                path.write_bytes(legacy(data))
            shard = read(path)
            assert not shard.tensors, name
            if shard.imports:
                assert shard.refused, name
            else:
                assert not shard.readable, name
            assert not (tmp_path / "canary").exists(), name


def test_the_canary_sings(tmp_path: Path) -> None:
    """The payload is real: pickle itself runs it."""
    pickle.loads(calls(tmp_path)["GLOBAL REDUCE"])
    assert (tmp_path / "canary").exists()


@pytest.mark.parametrize("name", HEAVY)
@pytest.mark.slow
def test_heavy(tmp_path: Path, name: str) -> None:
    answer = child(stored(tmp_path / "m.pt", HEAVY[name], DATA))
    assert answer["calls"] < CALLS * (len(HEAVY[name]) + 1_000), answer["calls"]
    assert answer["megabytes"] < min(MEGABYTES + PER_BYTE * len(HEAVY[name]) / 1e6, MOST)


@pytest.mark.slow
def test_the_limit_of_the_command(tmp_path: Path) -> None:
    answer = child(stored(tmp_path / "m.pt", b"\x8f" * 1_000_000 + b".", DATA), part=1)
    assert not answer["readable"]
    assert "makes more than a checkpoint does" in str(answer["problems"])
    assert answer["megabytes"] < MOST


def test_a_file_of_many_gigabytes_that_are_not_there(tmp_path: Path) -> None:
    path = tmp_path / "m.pt"
    with path.open("wb") as file:
        file.write(legacy(b"N."))
        file.truncate(1 << 40)
    answer = child(path)
    assert (answer["calls"] < CALLS * 1_000, answer["megabytes"] < MOST) == (True, True)
    with path.open("wb") as file:
        file.write(b"\x80\x02")
        file.truncate(1 << 40)
    answer = child(path)
    assert (answer["calls"] < CALLS * 1_000, answer["megabytes"] < MOST) == (True, True)
    assert not answer["readable"]


@pytest.mark.parametrize("name", WRONG_TENSORS)
def test_wrong_tensors(tmp_path: Path, name: str) -> None:
    data, text = WRONG_TENSORS[name]
    shard = read(stored(tmp_path / "m.pt", state(data, tensor()), DATA))
    assert [found.name for found in shard.tensors] == ["w1"]
    (problem,) = shard.problems
    assert text in problem.text
    assert not shard.readable


def test_problems_are_few(tmp_path: Path) -> None:
    broken = tensor(offset=b"K\x01")
    shard = read(stored(tmp_path / "m.pt", state(*[broken] * 200), DATA))
    assert len(shard.problems) == 20


def damaged(path: Path) -> str:
    shard = read(path)
    assert not shard.readable
    assert not shard.tensors
    return shard.problems[0].text


def entries(data: bytes) -> list[int]:
    """Where the entries of a zip's directory begin."""
    found, at = [], data.find(b"PK\x01\x02")
    while at >= 0:
        found.append(at)
        at = data.find(b"PK\x01\x02", at + 4)
    return found


def test_rules_of_the_zip(tmp_path: Path) -> None:
    path = tmp_path / "m.pt"
    plain = stored(path, state(tensor()), DATA).read_bytes()
    pickled, storage = entries(plain)

    def changed(at: int, value: bytes) -> str:
        path.write_bytes(plain[:at] + value + plain[at + len(value) :])
        return damaged(path)

    assert len(read(path).tensors) == 1
    assert "encrypted record, m/data/0" in changed(storage + 8, b"\x01")
    assert "compressed record, m/data/0" in changed(storage + 10, b"\x08")
    assert "two sizes" in changed(storage + 24, b"\x0f")
    assert "not in it" in changed(storage + 20, b"\0\0\0\x7f\0\0\0\x7f")
    assert "overlap" in changed(storage + 42, struct.pack("<I", 0))
    assert "overlap" in changed(pickled + 42, struct.pack("<I", 0xFFFFFF))
    assert "outside of m" in changed(storage + 46, b"n")
    assert "malformed" in changed(storage + 28, b"\xff\xff")
    assert "not UTF-8" in changed(storage + 46, b"\xff")
    assert "did not write" in changed(pickled + 46, b"m/data.pkx")
    assert "2 entries in its zip directory, which says 9" in changed(
        len(plain) - 22 + 8, b"\x09\0\x09\0"
    )
    assert "several parts" in changed(len(plain) - 22 + 4, b"\x01")
    assert "not where it says" in changed(len(plain) - 22 + 12, b"\x01")
    local = plain.find(b"PK\x03\x04", 4)
    path.write_bytes(plain[: local + 30] + b"x" + plain[local + 31 :])
    assert "disagrees with what lies at data/0" in read(path).problems[0].text
    path.write_bytes(plain + b"behind")
    assert "does not end with its zip directory" in damaged(path)
    path.write_bytes(plain[:-1])
    assert "cut short" in damaged(path)


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_two_records_of_one_name(tmp_path: Path) -> None:
    path = tmp_path / "m.pt"
    for twin in ("m/data/0", "m/DATA/0"):
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("m/data.pkl", state(tensor()))
            archive.writestr("m/data/0", bytes(16))
            archive.writestr(twin, bytes(16))
        assert "two records of one name" in damaged(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("m/data.pkl", state(tensor()))
        archive.writestr("n/data.pkl", state(tensor()))
    assert "outside of m" in damaged(path)


def test_byte_order(tmp_path: Path) -> None:
    path = stored(tmp_path / "m.pt", state(tensor()), {**DATA, "byteorder": b"big"})
    assert damaged(path) == "has big-endian numbers"
    path = stored(tmp_path / "m.pt", state(tensor()), {**DATA, "byteorder": b"\xff"})
    assert "byte order" in damaged(path)
    system = {"little_endian": False}
    parts = [0x1950A86A20F9469CFC6C, 1001, system, {}, []]
    (tmp_path / "m.pt").write_bytes(b"".join(pickle.dumps(part, 2) for part in parts))
    assert damaged(path) == "has big-endian numbers"


def real(path: Path, kind: str) -> bytes:
    """A small real file of each kind."""
    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.LayerNorm(2))
    values: dict[str, tuple[Any, dict[str, Any]]] = {
        "zip": (module.state_dict(), {}),
        "zip, protocol 4": (module.state_dict(), {"pickle_protocol": 4}),
        "legacy": (module.state_dict(), {"_use_new_zipfile_serialization": False}),
        "module": (module, {}),
    }
    value, how = values[kind]
    torch.save(value, path, **how)
    return path.read_bytes()


kinds = pytest.mark.parametrize("kind", ["zip", "zip, protocol 4", "legacy", "module"])


class Held:
    """A file in memory."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.size = len(data)

    def read(self, size: int, offset: int) -> bytes:
        return self.data[offset : offset + size]


def sound(data: bytes, shard: Shard) -> None:
    """Whatever was read lies in the file."""
    if shard.readable:
        for found in shard.tensors:
            assert 0 <= found.begin <= found.end <= len(data)


@pytest.mark.slow
@kinds
def test_cut_anywhere(tmp_path: Path, kind: str) -> None:
    data = real(tmp_path / "m.pt", kind)
    for size in range(len(data)):
        shard = read_torch(Held(data[:size]), "m.pt")
        assert not shard.readable, size
        assert shard.problems


@pytest.mark.slow
@kinds
def test_bytes_that_flip(tmp_path: Path, kind: str) -> None:
    data = real(tmp_path / "m.pt", kind)
    chance = random.Random(kind)
    costs: list[float] = []
    for _ in range(60 * settings().max_examples):
        changed = bytearray(data)
        for _ in range(chance.choice((1, 1, 1, 2, 8))):
            changed[chance.randrange(len(data))] = chance.randrange(256)
        began = time.process_time()
        shard = read_torch(Held(bytes(changed)), "m.pt")
        costs.append(time.process_time() - began)
        sound(data, shard)
    assert max(costs) < TIMES * statistics.median(costs)


class Changing(Held):
    """A file that is rewritten after so many reads."""

    def __init__(self, data: bytes, after: int, then: bytes) -> None:
        super().__init__(data)
        self.left, self.then = after, then

    def read(self, size: int, offset: int) -> bytes:
        if self.left == 0:
            self.data = self.then
        self.left -= 1
        return super().read(size, offset)


@kinds
def test_a_file_that_changes_while_it_is_read(tmp_path: Path, kind: str) -> None:
    data = real(tmp_path / "m.pt", kind)
    for then in (b"", data[: len(data) // 2], bytes(len(data)), random.Random(0).randbytes(9999)):
        for after in range(12):
            source = Changing(data, after, then)
            shard = read_torch(source, "m.pt")
            if source.left < 0:  # the change was seen
                assert not shard.readable
                assert shard.problems


def test_a_file_that_is_cut_while_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "m.pt"
    real(path, "zip")
    with LocalDirectory(tmp_path).open("m.pt") as source:
        path.write_bytes(b"PK\x03\x04")
        shard = read_torch(source, "m.pt")
    assert shard.problems[0].kind == "damaged"
    assert "ends at" in shard.problems[0].text


def test_a_file_that_cannot_be_read() -> None:
    class Refusing(Held):
        def read(self, size: int, offset: int) -> bytes:
            raise CheckpointError("not-inspectable", "cannot be read: Input/output error")

    (problem,) = read_torch(Refusing(b"PK"), "m.pt").problems
    assert (problem.kind, problem.text) == (
        "not-inspectable",
        "cannot be read: Input/output error",
    )
