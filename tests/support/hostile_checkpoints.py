"""Hostile checkpoints, adapters and addresses, for doctor scan."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterator
from pathlib import Path

from hostile_texts import TEXTS, TOKENS, Case, executes


def _zipped(mark: Path) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("archive/data.pkl", executes(mark))
        archive.writestr("../../outside", b"x")
        archive.writestr("archive/version", b"3\n")
    return buffer.getvalue()


def _numpy(mark: Path) -> bytes:
    header = b"{'descr': '|O', 'fortran_order': False, 'shape': (1,), }\n"
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + executes(mark)


def _header(text: str, size: int | None = None) -> bytes:
    data = text.encode("utf-8", "surrogatepass")
    return (len(data) if size is None else size).to_bytes(8, "little") + data


def checkpoints() -> Iterator[Case]:
    for name, data in {
        "a.pkl": executes,
        "a.pt": executes,
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
