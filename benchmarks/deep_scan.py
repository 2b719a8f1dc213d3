"""Every value of a 4 GB checkpoint looked at, against `cat` of the same files to nowhere.

The files are in the page cache; both sides go turn by turn and the best turn counts.

    python benchmarks/deep_scan.py

Last figures, 0.54 GB of bf16, one thread, two busy cores (2026-11): 71 ms of processor time against
34 for a bare read (2.1; the goal of 1.2 is missed), 11 of them for samples and windows.
"""

from __future__ import annotations

import json
import math
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parent))

from checkpoint_scan import ObjectNode, divided, llama
from turns import against, best, busy, memory

from doctor.checkpoint.analysis.deep import scan_values
from doctor.checkpoint.formats.safetensors import read_shard
from doctor.checkpoint.io.files import LocalDirectory
from doctor.checkpoint.records import Values
from doctor.checkpoint.tensors import Tensor

LAYERS = 80

DEEP = """
from pathlib import Path
from deep_scan import listed, looked
tensors = listed(Path(sys.argv[1]))
mark()
looked(Path(sys.argv[1]), tensors, 2)
"""


def write(folder: Path, layers: int, seed: int = 0, still: str = "") -> None:
    """A Llama with layers 1,280 wide with random finite bf16 values, in four files.

    With another `seed` every tensor differs at its beginning, but for those named `still`.
    """
    import numpy

    noise = numpy.random.default_rng(0).normal(0, 0.02, 1 << 24).astype("f4").view("u2")[1::2]
    every = list(llama(layers, 1280))
    for number, shard in enumerate(divided(every, sum(t.size for t in every) // 4 + (1 << 27))):
        header, end = {}, 0
        for tensor in shard:
            offsets = [end, end := end + tensor.size]
            header[tensor.name] = {"dtype": "BF16", "shape": tensor.shape, "data_offsets": offsets}
        text = json.dumps(header).encode()
        with (folder / f"model-{number}.safetensors").open("wb") as output:
            output.write(struct.pack("<Q", len(text)) + text)
            for tensor in shard:
                same = still and still in tensor.name
                fill(output, tensor, noise if same else noise[seed:])


def fill(output: object, tensor: ObjectNode, noise: object) -> None:
    """Values of the noise, again and again."""
    left = math.prod(tensor.shape)
    while left > 0:
        part = noise[:left]  # type: ignore[index]
        output.write(part.tobytes())  # type: ignore[attr-defined]
        left -= len(part)


def listed(folder: Path) -> list[Tensor]:
    found: list[Tensor] = []
    for path in sorted(folder.glob("*.safetensors")):
        with LocalDirectory(folder).open(path.name) as source:
            shard = read_shard(source, path.name)
        assert not shard.problems, shard.problems
        found += shard.tensors
    return found


def looked(folder: Path, tensors: list[Tensor], threads: int) -> Values:
    found = scan_values(LocalDirectory(folder), tensors, threads)
    assert isinstance(found, Values)
    assert not found.nonfinite
    assert not found.problems
    return found


def cat(folder: Path) -> None:
    """Redirected by the shell, since cat to a pipe would copy."""
    subprocess.run(["sh", "-c", f"cat {folder}/*.safetensors > /dev/null"], check=True)


def measure(layers: int, turns: int) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write(folder, layers)
        tensors = listed(folder)
        size = looked(folder, tensors, 1).bytes
        took = best(
            turns,
            cat=lambda: cat(folder),
            one=lambda: looked(folder, tensors, 1),
            two=lambda: looked(folder, tensors, 2),
        )
        took["memory"] = memory(DEEP, name)
    took["bytes"] = size
    rates = {side: size / took[side] / 1e6 for side in ("cat", "one", "two")}
    print(
        f"{size / 1e9:.2f} GB, {len(tensors)} tensors: cat {rates['cat']:.1f} GB/s, "
        f"one thread {rates['one']:.1f} ({took['cat'] / took['one']:.2f} of cat), "
        f"two threads {rates['two']:.1f} ({took['cat'] / took['two']:.2f}), "
        f"memory {took['memory']:.1f} MB over the start"
    )
    return took


def main() -> None:
    print(busy())
    large, half = measure(LAYERS, 7), measure(LAYERS // 2, 7)
    print(f"  one thread {against(0.65, large['cat'] / large['one'], least=True)} of cat")
    print(f"  two threads {against(1.0, large['cat'] / large['two'], least=True)} of cat")
    print(f"  memory {against(60, large['memory'])} MB")
    for side in ("one", "two"):
        print(
            f"  {large['bytes'] / half['bytes']:.2f} x the bytes take "
            f"{large[side] / half[side]:.2f} x the time ({side})"
        )
    print(busy())


if __name__ == "__main__":
    main()
