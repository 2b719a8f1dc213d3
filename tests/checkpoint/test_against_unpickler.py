"""Whatever CPython's own unpickler asks for before it stops, the doctor lists.

The unpickler runs in a child whose find_class imports nothing and gives harmless stand-ins, with an
audit hook that ends the child should anything be imported or executed after all.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from doctor.checkpoint.formats.pickle_inventory import take_inventory

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.filterwarnings("ignore")

MUTANTS = 150
"""Of each kind of file."""

CHILD = r"""
import _compat_pickle, io, json, os, pickle, resource, sys, zipfile

resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))
FORBIDDEN = ("import", "exec", "compile", "open", "os.", "subprocess.", "socket.", "ctypes.")
armed = False
asked = []

def watch(event, args):
    if event == "pickle.find_class" and armed:
        asked.append(list(args))
    elif armed and event.startswith(FORBIDDEN):
        os.write(2, f"{event} {args!r}".encode())
        os._exit(3)

class Meta(type):
    def __getattr__(cls, name):
        raise AttributeError(name)

class Stub(dict, metaclass=Meta):
    def __new__(cls, *args, **kwargs):
        return dict.__new__(cls)
    def __init__(self, *args, **kwargs):
        pass
    def __setstate__(self, state):
        pass
    def __hash__(self):
        return id(self)
    def append(self, item):
        pass
    def extend(self, items):
        pass
    def add(self, item):
        pass

def translated(unpickler, module, name):
    return module, name

class Unpickler(pickle.Unpickler):
    def find_class(self, module, name):
        asked.append([module, name])
        return Stub
    def persistent_load(self, pid):
        return Stub()

def load(file, count):
    global armed
    for number in range(count):
        unpickler = Unpickler(file)
        armed = True
        try:
            value = unpickler.load()
        except BaseException:
            return
        finally:
            armed = False
        if number == 0 and value != 0x1950A86A20F9469CFC6C:
            return

sys.addaudithook(watch)
for line in sys.stdin:
    asked.clear()
    data = bytes.fromhex(line)
    if data[:4] == b"PK\3\4":
        try:
            with zipfile.ZipFile(io.BytesIO(data)) as archive:
                pickles = [archive.read(n) for n in archive.namelist() if n.endswith("data.pkl")]
        except Exception:
            pickles = []
        for each in pickles:
            load(io.BytesIO(each), 1)
    else:
        load(io.BytesIO(data), 5)
    print(json.dumps(asked), flush=True)
"""


class Held:
    """A file in memory."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.size = len(data)

    def read(self, size: int, offset: int) -> bytes:
        return self.data[offset : offset + size]


def real(folder: Path, kind: str) -> bytes:
    """A small real file of each kind."""
    import torch.distributed.checkpoint as dcp

    module = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.LayerNorm(2))
    optimizer = torch.optim.AdamW(module.parameters())
    path = folder / "m.pt"
    if kind in ("metadata", "distcp"):
        dcp.save({"w": torch.ones(2), "n": {"lr": [0.1]}}, checkpoint_id=str(folder / "dcp"))
        if kind == "metadata":
            return (folder / "dcp/.metadata").read_bytes()
        return (folder / "dcp/__0_0.distcp").read_bytes()
    how = {
        "zip": {},
        "old": {"_use_new_zipfile_serialization": False},
        "old, protocol 4": {"_use_new_zipfile_serialization": False, "pickle_protocol": 4},
        "old, module": {"_use_new_zipfile_serialization": False},
        "arguments": {},
    }[kind]
    value: Any = {"model": module.state_dict(), "optimizer": optimizer.state_dict()}
    if kind == "old, module":
        value = module
    if kind == "arguments":
        transformers = pytest.importorskip("transformers")
        value = transformers.TrainingArguments(output_dir=str(folder), use_cpu=True, report_to=[])
    torch.save(value, path, **how)
    return path.read_bytes()


KINDS = ("zip", "old", "old, protocol 4", "old, module", "metadata", "distcp", "arguments")

OPCODES = b"c\x93iRob.0q\x94(tu}]ase\x80\x8cXVSPQhgpN2)\x85\x86\x87\x81\x92\x88ILFK"
SNIPPETS = (
    b"cos\nsystem\n",
    b"cos\nsystem\n0",
    b"(ios\nsystem\n",
    b"\x8c\x02os\x8c\x06system\x93",
    b"\x8c\x02os\x8c\x06system\x930",
    b"S'o\\x73'\nS'system'\n\x930",
    b"\x80\x04",
    b"c__builtin__\neval\n0",
    b"Nb",
    b"I0x10\n0",
    *(b"\x95" + bytes([size, *bytes(7)]) for size in (1, 2, 3, 6, 9)),
    b"\x95\x02\0\0\0\0\0\0\0B\x01\x01\0\0\0\0cos\nsystem\n0",
    b"\x95\x03\0\0\0\0\0\0\0X\x01\x01\0\0\0\0cos\nsystem\n0",
    b"\x95\x05\0\0\0\0\0\0\0B\x04\0\0\0cosn0",
)


def mutant(data: bytes, chance: random.Random) -> bytes:
    """Bytes flipped, cut or put in, mostly where the pickles are."""
    end = len(data) if data[:1] == b"\x80" else max(data.rfind(b"PK\x01\x02"), 1)
    changed = bytearray(data)
    for _ in range(chance.choice((1, 1, 2, 3))):
        at = chance.randrange(min(end, len(changed)) or 1)
        way = chance.randrange(4)
        if way == 0:
            changed[at : at + 1] = bytes(
                [changed[at] ^ 1 << chance.randrange(8)] if changed else b""
            )
        elif way == 1:
            snippet = chance.choice(SNIPPETS)
            zipped = data[:4] == b"PK\3\4"
            changed[at : at + len(snippet) * zipped] = snippet
        elif way == 2:
            changed[at : at + 1] = bytes([chance.choice(OPCODES)])
        elif chance.random() < 0.3:
            del changed[at:]
        else:
            del changed[at : at + chance.randrange(1, 9)]
    return bytes(changed)


def listed(data: bytes) -> set[str]:
    return set(take_inventory(Held(data), "m").imports)


def compare(data: bytes, count: int, seed: Any) -> list[tuple[bytes, list[str]]]:
    """Mutants with what the unpickler asked for and the doctor does not list."""
    chance = random.Random(seed)
    missed = []
    with subprocess.Popen(
        [sys.executable, "-c", CHILD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdin
        assert child.stdout
        for _ in range(count):
            changed = mutant(data, chance)
            child.stdin.write(changed.hex() + "\n")
            child.stdin.flush()
            answer = child.stdout.readline()
            assert answer, (child.wait(), changed)
            names = listed(changed)
            lacking = [
                f"{module}.{name}" for module, name in json.loads(answer)
                if not names & {f"{module}.{name}"[:900], *_translated(module, name)}
            ]  # fmt: skip
            if lacking:
                missed.append((changed, lacking))
        child.stdin.close()
    return missed


def _translated(module: str, name: str) -> set[str]:
    """What pickle makes of a name of Python 2 below protocol 3."""
    import _compat_pickle

    if (module, name) in _compat_pickle.NAME_MAPPING:
        return {".".join(_compat_pickle.NAME_MAPPING[module, name])}
    return {f"{_compat_pickle.IMPORT_MAPPING.get(module, module)}.{name}"}


@pytest.mark.parametrize("kind", KINDS)
def test_what_the_unpickler_asks_for_is_listed(tmp_path: Path, kind: str) -> None:
    data = real(tmp_path, kind)
    assert compare(data, MUTANTS, kind) == []
