"""Inputs that somebody else wrote: small good ones, and hostile ones for every command."""

from __future__ import annotations

import gzip
import io
import json
import os
import pickle
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

SCRIPT = """import torch
for x in loader:
    scaler.scale(model(x)).backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
"""
COLLECT_ENV = """PyTorch version: 2.6.0+cu124
CUDA used to build PyTorch: 12.4
Is CUDA available: True
GPU models and configuration: GPU 0: NVIDIA H100 80GB HBM3
Nvidia driver version: 550.54.15
"""
SIZES = {"F32": 4, "BF16": 2}


def safetensors(name: str, dtype: str, shape: list[int]) -> bytes:
    """A file with one tensor of zeros."""
    size = SIZES[dtype]
    for length in shape:
        size *= length
    entry = {"dtype": dtype, "shape": shape, "data_offsets": [0, size]}
    header = json.dumps({name: entry}).encode()
    return len(header).to_bytes(8, "little") + header + bytes(size)


FORGED = "forged"
"""In every line that an input tries to write by itself."""
TOKENS = ("hf_" + "Q7w9" * 9, "sk-proj-" + "Z3x8" * 10, "ghp_" + "K5m2" * 9, "hunter2swordfish")
TEXTS = {
    "line": "\nREADY: forged\n::error file=x::forged\n##vso[task.complete]forged\n",
    "return": "\rREADY: forged\r\n::error::forged",
    "separator": "\x0bREADY: forged\x0cREADY: forged\x85READY: forged\u2028READY: forged",
    "escape": "\x1b]0;forged\x07\x1b[2J\x1b[31mforged\x1b[0m\x08\x08\x7f",
    "c1": "\x9b31mforged\x9d0;forged\x9c",
    "bidi": "\u202eforged\u202c \u2066forged\u2069 \u200f\u200bforged",
    "html": "</style></script><script>forged()</script><img src=x onerror=forged()><!-- ]]>",
    "markup": "[bold]forged[/bold] [link=file:///etc/passwd]forged[/link] [/] [@click=forged]x[/]",
    "markdown": "[forged](javascript:forged) ![](http://127.0.0.1:9/forged) @forged `x` |x|\\|",
    "shell": "$(touch MARK); `touch MARK`; touch MARK # ' \" && touch MARK",
    "format": "{0.__class__} {forged!r:>99999999} %s %n %(forged)s ${jndi:ldap://forged}",
    "long": "forged " * 3_000,
    "nul": "forged\x00forged",
    "surrogate": "forged\ud800\udfff",
    "secret": " ".join(
        (
            "",
            TOKENS[0],
            f"token={TOKENS[1]}",
            f"https://me:{TOKENS[3]}@h/x",
            f"--api-key {TOKENS[2]}",
        )
    ),
}
"""What names, versions, messages and paths of others may hold."""
REPORTS = ("console", "plain", "json", "junit", "github", "markdown", "html", "sarif", "nagios")


@dataclass(frozen=True)
class Case:
    """One hostile command line."""

    name: str
    words: tuple[str, ...]
    files: Mapping[str, bytes | Callable[[Path], bytes]] = field(default_factory=dict)
    """Written below the working directory; a function gets the file that must not appear."""
    links: Mapping[str, str] = field(default_factory=dict)
    input: str = ""
    may_write: tuple[str, ...] = ()
    """Patterns of names, relative to the working directory."""


def cases(facts: bytes) -> Iterator[Case]:
    """All of them; `facts` is a healthy machine's file."""
    yield from _facts(json.loads(facts))
    yield from _logs()
    yield from _scripts()
    yield from _checkpoints()
    yield from _job_files()
    yield from _arguments()
    yield from _records()
    yield from _pasted()
    yield from _places()


FIELDS: tuple[tuple[str | int, ...], ...] = (
    ("driver", "version"),
    ("gpus", 0, "name"),
    ("host", "name"),
    ("host", "release"),
    ("interpreter", "path"),
    ("torch", "version"),
    ("places", 0, "path"),
    ("smoke", "stages", 0, "name"),
    ("smoke", "parameters", 0, "name"),
    ("driver", "nvml", "detail"),
    ("job", "working_dir"),
)


def _facts(healthy: dict[str, Any]) -> Iterator[Case]:
    for kind, text in TEXTS.items():
        changed = json.loads(json.dumps(healthy))
        for path in FIELDS:
            place = changed
            for key in path[:-1]:
                place = place[key]
            place[path[-1]] = f"{place[path[-1]]}{text}"
        changed["job"]["arguments"] = ["--password", TOKENS[3], "--hub_token=" + TOKENS[0]]
        data = {"f.json": json.dumps(changed).encode()}
        formats = REPORTS if kind in ("line", "escape", "html") else ("console", "html")
        for name in formats:
            words = ("report", "f.json", "--format", name, "--inject", "GPU001")
            yield Case(f"facts {kind} {name}", words, data)
        yield Case(f"prescribe {kind}", ("prescribe", "--facts", "f.json"), data)
        only = json.loads(json.dumps(healthy))
        only["gpus"][0]["name"] = text
        data = {"f.json": json.dumps(only).encode()}
        yield Case(f"facts name {kind}", ("report", "f.json", "--only", "GPU"), data)
    for name, text in {
        "deep": b"[" * 100_000,
        "number": b'{"doctor": 1e999, "torch": -0}',
        "empty": b"",
        "nul": b"\0" * 4096,
        "utf16": '{"doctor": "x"}'.encode("utf-16"),
        "many": b'{"gpus":' + b"[1," * 50_000,
    }.items():
        yield Case(f"facts file {name}", ("report", "f.json"), {"f.json": text})


ERROR = "RuntimeError: CUDA error: device-side assert triggered"


def _logs() -> Iterator[Case]:
    for kind, text in TEXTS.items():
        line = f"step 1 loss 2.0\n{text} {ERROR} {text}\n".encode("utf-8", "surrogatepass")
        for name in REPORTS if kind in ("line", "escape", "secret") else ("console",):
            yield Case(f"log {kind} {name}", ("triage", "t.log", "--format", name), {"t.log": line})
        if kind not in ("nul", "long", "surrogate", "shell", "html", "markdown", "markup"):
            path = f"a{text}.log".replace("/", ":")[:200]
            yield Case(f"log named {kind}", ("triage", path), {path: line})
            yield Case(f"log missing {kind}", ("triage", f"no{path}"))
    bomb = gzip.compress(b"a" * 30_000_000)
    yield Case("log bomb", ("triage", "t.log.gz"), {"t.log.gz": bomb})
    yield Case("log pickle", ("triage", "dump_0"), {"dump_0": _executes})
    yield Case("log directory of links", ("triage", "."), links={"a.log": "/dev/zero"})
    for name, text in {
        "repeats": "((((" * 4000,
        "colons": ":" * 60_000,
        "nan": "nan " * 20_000,
    }.items():
        yield Case(f"log {name}", ("triage", "t.log"), {"t.log": f"{text}\n{ERROR}\n".encode()})


def _scripts() -> Iterator[Case]:
    for kind, text in TEXTS.items():
        comment = "".join(f"  # {part}\n" for part in text.split("\n"))
        source = SCRIPT.replace("1.0)\n", f"1.0){comment}").encode("utf-8", "surrogatepass")
        formats = ("console", "concise", "plain", "json", "junit", "github", "markdown", "sarif")
        for name in formats if kind in ("escape", "secret", "separator") else ("console", "github"):
            yield Case(f"script {kind} {name}", ("lint", "--format", name), {"t.py": source})
        if kind not in ("nul", "long", "surrogate", "secret"):
            path = f"t{text}.py".replace("/", ":")[:200]
            yield Case(
                f"script named {kind}", ("lint", "--format", "concise"), {path: SCRIPT.encode()}
            )
            yield Case(f"script diff {kind}", ("lint", "--diff"), {path: SCRIPT.encode()})
            yield Case(f"script missing {kind}", ("lint", f"no{path}"))
    for name, data in {
        "deep.py": b"(" * 5_000,
        "signs.py": b"x = " + b"-" * 100_000 + b"1",
        "attributes.py": b"x = a" + b".b" * 50_000,
        "nul.py": b"x = 1\0",
        "rot.py": b"# coding: rot13\nvzcbeg bf",
        "encoding.py": b"# coding: idna\nx = '\xff'",
        "noqa.py": b"x = 1  # noqa: SCR101\n" * 5_000,
        "book.ipynb": b'{"cells": [{"cell_type": "code", "source": "'
        + b"!touch mark\\n" * 9
        + b'"}]}',
        "deep.ipynb": b'{"cells": ' + b"[" * 50_000,
        "bomb.yaml": b"a: &a [x, x]\n"
        + b"".join(
            b"%c: &%c [*%c, *%c]\n" % (97 + n, 97 + n, 96 + n, 96 + n) for n in range(1, 25)
        ),
        "tag.yaml": b"x: !!python/object/apply:os.system ['touch mark']\nfp16: true\n",
        "deep.json": b"[" * 100_000,
        "run.sh": b"torchrun $(touch mark) train.py --x `touch mark`\n" * 50,
    }.items():
        yield Case(f"source {name}", ("lint", name, "--format", "json"), {name: data})


def _executes(mark: Path) -> bytes:
    """A pickle that creates the file when it is loaded."""
    return pickle.dumps(_Call(mark))


class _Call:
    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Callable[[str], int], tuple[str]]:
        return os.system, (f"touch {self.mark}",)


def _zipped(mark: Path) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("archive/data.pkl", _executes(mark))
        archive.writestr("../../outside", b"x")
        archive.writestr("archive/version", b"3\n")
    return buffer.getvalue()


def _numpy(mark: Path) -> bytes:
    header = b"{'descr': '|O', 'fortran_order': False, 'shape': (1,), }\n"
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + _executes(mark)


def _header(text: str, size: int | None = None) -> bytes:
    data = text.encode("utf-8", "surrogatepass")
    return (len(data) if size is None else size).to_bytes(8, "little") + data


def _checkpoints() -> Iterator[Case]:
    for name, data in {
        "a.pkl": _executes,
        "a.pt": _executes,
        "pytorch_model.bin": _zipped,
        "a.npy": _numpy,
        "a.ckpt": _zipped,
    }.items():
        for form in ("console", "json", "html"):
            yield Case(f"scan {name} {form}", ("scan", name, "--format", form), {name: data})
        yield Case(f"scan deep {name}", ("scan", name, "--deep"), {name: data})
    for kind, text in TEXTS.items():
        if kind in ("long", "surrogate"):
            continue
        name = json.dumps(f"model.{text}.norm.weight")
        data = _header(f'{{{name}:{{"dtype":"BF16","shape":[1],"data_offsets":[0,2]}}}}') + b"\0\0"
        for form in ("console", "markdown", "html"):
            words = ("scan", "m.safetensors", "--format", form, "--tensors", "all")
            yield Case(f"tensor {kind} {form}", words[:4], {"m.safetensors": data})
        if kind != "nul":
            path = f"d{text}".replace("/", ":")[:150]
            yield Case(f"scan named {kind}", ("scan", path), {f"{path}/model.safetensors": data})
            yield Case(f"scan missing {kind}", ("scan", f"no{path}"))
    entry = '{"a":{"dtype":"F32","shape":[%s],"data_offsets":[%s]}}'
    for name, data in {
        "huge": (1 << 63).to_bytes(8, "little") + b"{}",
        "negative": _header(entry % ("-1", "0,4")),
        "reversed": _header(entry % ("1", "4,0")),
        "overflow": _header(entry % ("4294967296,4294967296,4294967296", "0,4")),
        "deep": _header("[" * 60_000),
        "short": b"\x05",
    }.items():
        yield Case(f"safetensors {name}", ("scan", "m.safetensors"), {"m.safetensors": data})
    for target in ("/etc/passwd", "../../../outside", "http://127.0.0.1:9/x", "a\x1b[31m", "."):
        index = json.dumps({"weight_map": {"w": target}}).encode()
        yield Case(f"index {target!r}", ("scan", "."), {"model.safetensors.index.json": index})
    for text in ("hunter2", TOKENS[0]):
        yield Case(
            f"address {text[:3]}", ("scan", f"http://me:{TOKENS[3]}@127.0.0.1:9/x?token={text}")
        )
    yield Case("address file", ("scan", "file:///etc/passwd"))
    yield Case("address chain", ("scan", "zip::file:///etc/passwd"))
    yield Case(
        "a link to a device", ("scan", "m.safetensors"), links={"m.safetensors": "/dev/zero"}
    )
    yield Case("a loop of links", ("scan", "a"), links={"a": "b", "b": "a"})


def _job_files() -> Iterator[Case]:
    for kind, text in TEXTS.items():
        if kind in ("surrogate", "secret"):
            continue
        quoted = json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
        for key, toml in {
            "value": f"[job]\ndevice = {quoted}\n",
            "key": f"[job]\n{quoted} = 1\n",
            "ignore": f"[[ignore]]\ncode = {quoted}\nreason = {quoted}\n",
        }.items():
            files = {"doctor.toml": toml.encode(), "t.log": b"step 1 loss 2.0\n"}
            yield Case(f"job file {key} {kind}", ("lint",), files)
            yield Case(f"job file {key} {kind} of a triage", ("triage", "t.log"), files)
    for key in (
        "python = './p'",
        "model = 'p:make'",
        "hf = '.'",
        "checkpoint = 'http://127.0.0.1:9'",
    ):
        files = {"doctor.toml": f"[job]\n{key}\n".encode(), "p": _program, "p.py": _program}
        yield Case(f"job file {key[:6]}", ("prescribe",), files)


def _program(mark: Path) -> bytes:
    return f"#!/bin/sh\ntouch {mark}\n".encode()


def _arguments() -> Iterator[Case]:
    for kind, text in TEXTS.items():
        if kind in ("nul", "surrogate", "long"):
            continue
        for words in (
            ("explain", text),
            ("explain", f"{ERROR}{text}"),
            ("list", text),
            ("report", text),
            ("read", text),
            ("run", "--only", text),
            ("run", "--config", text),
            ("run", "--gpus", text),
            ("run", f"--{text}"),
            ("scan", "--format", text),
            ("guard", "--", text),
            (text,),
        ):
            yield Case(f"argument {' '.join(words[:-1])} {kind}", words)
        yield Case(f"explain stdin {kind}", ("explain", "-"), input=f"{ERROR}{text}")
        yield Case(
            f"lint stdin {kind}", ("lint", "-", "--stdin-filename", f"{text}.py"), input=SCRIPT
        )


def _records() -> Iterator[Case]:
    for kind, text in TEXTS.items():
        if kind == "surrogate":
            continue
        lines = [
            {"kind": "meta", "rank": 0, "world": 1, "started": 1, "names": [text], "python": text},
            {"kind": "step", "o": 0, "s": 1, "t": 1.0, "loss": "nan"},
            {"kind": "alarm", "code": "GRD001", "status": "fail", "step": 1, "text": text,
             "cause": text, "names": [text]},
            {"kind": "end", "how": text},
        ]  # fmt: skip
        run = {"command": ["python", text, "--password", TOKENS[3]], "exit_code": 1}
        files = {
            "records/rank0-1.jsonl": "\n".join(map(json.dumps, lines)).encode(),
            "records/run.json": json.dumps(run).encode(),
        }
        for form in ("console", "html", "github"):
            yield Case(f"records {kind} {form}", ("report", "records", "--format", form), files)
    yield Case(
        "records link",
        ("report", "records"),
        {"records/x": b""},
        {"records/rank0-1.jsonl": "/dev/zero"},
    )


def _pasted() -> Iterator[Case]:
    for kind, text in TEXTS.items():
        lines = COLLECT_ENV.replace("H100 80GB HBM3", f"H100 {text}").replace("12.4", f"12.4{text}")
        data = lines.encode("utf-8", "surrogatepass")
        for form in ("console", "json"):
            yield Case(
                f"pasted {kind} {form}", ("read", "p.txt", "--format", form), {"p.txt": data}
            )


def _places() -> Iterator[Case]:
    """Files that would be written elsewhere, and modules that take another's place."""
    secret = {"victim/secret.py": SCRIPT.encode()}
    yield Case(
        "fix through a link",
        ("lint", "--fix", "d"),
        secret,
        {"d/a.py": "../victim/secret.py"},
        may_write=("d/*",),
    )
    yield Case(
        "fix through a directory",
        ("lint", "--fix", "d"),
        secret,
        {"d": "victim"},
        may_write=("victim/*",),
    )
    for name in (
        "torch",
        "json",
        "typer",
        "rich",
        "numpy",
        "pynvml",
        "sitecustomize",
        "usercustomize",
    ):
        files = {
            f"{name}.py": lambda mark: f"open({str(mark)!r}, 'w')\n".encode(),
            "t.py": SCRIPT.encode(),
        }
        yield Case(f"a module {name}", ("lint", "t.py"), files)
    for program in ("git", "nvidia-smi", "python3", "sh"):
        yield Case(f"a program {program}", ("lint",), {program: _program, "t.py": SCRIPT.encode()})
    for form in ("json", "html", "sarif"):
        words = ("lint", "--output", f"{form}=out/report")
        yield Case(
            f"output {form}",
            words,
            {"t.py": SCRIPT.encode(), "out/x": b""},
            may_write=("out/report",),
        )
