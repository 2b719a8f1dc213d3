"""Headers and norms of a 141 GB checkpoint in 31 shards, against safetensors' safe_open.

The files are sparse, with the names, dtypes and shapes of Llama 70B, and take little room. Both
sides run in one process on the same files, warm, turn by turn; the best of several turns counts.

    python benchmarks/checkpoint_scan.py
"""

from __future__ import annotations

import json
import struct
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from doctor.checkpoint.scan import scan
from doctor.sections import Checkpoint

HIDDEN, FEED, KEYS, WORDS = 8192, 28672, 1024, 128256
SHARD = 4_700_000_000
TURNS = 15
GOAL_MS = 20.0


def tensors(layers: int) -> Iterator[tuple[str, list[int]]]:
    """Names and shapes of a Llama with so many layers of the 70B model."""
    yield "model.embed_tokens.weight", [WORDS, HIDDEN]
    for layer in range(layers):
        for name, shape in (
            ("self_attn.q_proj", [HIDDEN, HIDDEN]),
            ("self_attn.k_proj", [KEYS, HIDDEN]),
            ("self_attn.v_proj", [KEYS, HIDDEN]),
            ("self_attn.o_proj", [HIDDEN, HIDDEN]),
            ("mlp.gate_proj", [FEED, HIDDEN]),
            ("mlp.up_proj", [FEED, HIDDEN]),
            ("mlp.down_proj", [HIDDEN, FEED]),
            ("input_layernorm", [HIDDEN]),
            ("post_attention_layernorm", [HIDDEN]),
        ):
            yield f"model.layers.{layer}.{name}.weight", shape
    yield "model.norm.weight", [HIDDEN]
    yield "lm_head.weight", [WORDS, HIDDEN]


def sharded(layers: int) -> list[dict[str, tuple[list[int], int]]]:
    """Tensors with their bytes, shard by shard, as save_pretrained divides them."""
    shards: list[dict[str, tuple[list[int], int]]] = [{}]
    for name, shape in tensors(layers):
        size = 2
        for length in shape:
            size *= length
        if sum(part for _, part in shards[-1].values()) + size > SHARD:
            shards.append({})
        shards[-1][name] = (shape, size)
    return shards


def write(folder: Path, layers: int) -> list[Path]:
    """Sparse shards and their index; only headers and norms take room."""
    shards = sharded(layers)
    weight_map: dict[str, str] = {}
    files = []
    for number, shard in enumerate(shards, 1):
        file = folder / f"model-{number:05}-of-{len(shards):05}.safetensors"
        write_shard(file, shard)
        weight_map |= dict.fromkeys(shard, file.name)
        files.append(file)
    index = {"metadata": {}, "weight_map": weight_map}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    config = {"model_type": "llama", "torch_dtype": "bfloat16"}
    (folder / "config.json").write_text(json.dumps(config))
    return files


def write_shard(file: Path, shard: dict[str, tuple[list[int], int]]) -> None:
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    norms: list[tuple[int, int]] = []
    end = 0
    for name, (shape, size) in shard.items():
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [end, end + size]}
        if "norm" in name:
            norms.append((end, size))
        end += size
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with file.open("wb") as output:
        output.write(struct.pack("<Q", len(text)) + text)
        output.truncate(8 + len(text) + end)
        for begin, size in norms:
            output.seek(8 + len(text) + begin)
            output.write(b"\x81\x3f" * (size // 2))


def library(files: list[Path]) -> int:
    """Every name, dtype and shape by safe_open; it checks the headers and reads no norms."""
    from safetensors import safe_open

    count = 0
    for file in files:
        with safe_open(file, framework="numpy") as opened:
            for name in opened.keys():  # noqa: SIM118 - no mapping
                part = opened.get_slice(name)
                part.get_dtype()
                part.get_shape()
                count += 1
    return count


def doctor(folder: Path) -> Checkpoint:
    found = scan(str(folder))
    assert isinstance(found, Checkpoint)
    assert not found.problems, found.problems
    assert all(norm.value == "other" for norm in found.norms)
    return found


def compare(ours: Callable[[], object], theirs: Callable[[], object]) -> tuple[float, float]:
    """Milliseconds of each, the best of turns taken one after the other."""
    best = [float("inf"), float("inf")]
    for _ in range(TURNS):
        for side, call in enumerate((ours, theirs)):
            began = time.perf_counter()
            call()
            best[side] = min(best[side], 1e3 * (time.perf_counter() - began))
    return best[0], best[1]


def main() -> None:
    took: list[tuple[int, float]] = []
    for layers in (80, 40):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            files = write(folder, layers)
            found = doctor(folder)
            assert library(files) == found.tensors
            ours, theirs = compare(lambda at=folder: doctor(at), lambda all=files: library(all))
        took.append((found.tensors, ours))
        print(
            f"{found.bytes / 1e9:.1f} GB, {found.files} shards, {found.tensors} tensors, "
            f"{len(found.norms)} norms: scan {ours:.1f} ms, safe_open {theirs:.1f} ms, "
            f"ratio {ours / theirs:.2f}"
        )
    (many, long), (few, short) = took
    print(f"{many / few:.2f} x the tensors take {long / short:.2f} x the time")
    print(f"goal: {GOAL_MS:.0f} ms for the larger; {'met' if took[0][1] <= GOAL_MS else 'missed'}")


if __name__ == "__main__":
    main()
