"""Time and memory of comparing a merge with its base, and of two equal checkpoints.

python benchmarks/merge_speed.py [--gigabytes 0.8] [--rank 16] [--directory DIRECTORY]

Each measurement is a process of its own; processor seconds are printed beside the wall clock, since
a busy machine stretches only the second. `cat` reads the same files.

"products" is the time of the adapters' matrix products alone, left @ right for every weight, which
ranks above 16 are compared with.

Figures on two cores with the priority of real time, in seconds of the clock (2026-11). Rank 16,
4.8 GB: cat 0.65 to 0.77, equal 0.75 and with two threads 0.60, merge 2.1 and with two processes
0.98 (0.66 to 0.79 of cat). Rank 128, 1.6 GB: merge 1.03, products alone 1.18, cat 0.25. Threads
did not help a merge: 2.0 with two, 2.1 with one, since numpy's calls on a block take 10 to 40
microseconds, and each gives the interpreter's lock away and waits for it. The time of merging and
of comparing is that of `read`, the import of numpy included.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy  # noqa: TID253
from safetensors.numpy import save_file  # noqa: TID253

ROOT = Path(__file__).resolve().parents[1]
WIDTH = 4096

CHILD = """
import json, resource, sys, time
sys.path.insert(0, {root!r})
import os
os.environ["OPENBLAS_NUM_THREADS"] = "1"
from doctor.checkpoint import merges
from doctor.checkpoint.analysis import workers
from doctor.checkpoint.analysis.merging import merge
from doctor.checkpoint.contents import ScanRequest, read
from doctor.checkpoint.io.stages import no_stage
merge.usable_processors = workers.usable_processors = lambda: {threads}
began, used = time.perf_counter(), time.process_time()
result = read(ScanRequest(**json.loads({request!r})), no_stage, lambda note: None)
found = result.merge or result.equality
status = dict(line.split(":", 1) for line in open("/proc/self/status") if ":" in line)
forks = resource.getrusage(resource.RUSAGE_CHILDREN)
used = time.process_time() - used + forks.ru_utime + forks.ru_stime
memory = max(int(status["VmHWM"].split()[0]), forks.ru_maxrss) / 1024
print(json.dumps([time.perf_counter() - began, used, memory, found.bytes]))
"""


def write(root: Path, gigabytes: float, rank: int) -> None:
    generator = numpy.random.default_rng(0)
    count = max(1, round(gigabytes * 1e9 / (2 * WIDTH * WIDTH)))
    base, merged, adapter = {}, {}, {}
    for number in range(count):
        module = f"model.layers.{number}.self_attn.q_proj"
        weight = generator.standard_normal((WIDTH, WIDTH), "f4") * numpy.float32(0.02)
        down = generator.standard_normal((rank, WIDTH), "f4") * numpy.float32(0.01)
        up = generator.standard_normal((WIDTH, rank), "f4") * numpy.float32(0.01)
        halves = _bf16(weight)
        base[f"{module}.weight"] = halves
        merged[f"{module}.weight"] = _bf16(_wide(halves) + 2 * (up @ down))
        adapter[f"base_model.model.{module}.lora_A.weight"] = down
        adapter[f"base_model.model.{module}.lora_B.weight"] = up
    _save(root / "base", base)
    _save(root / "merged", merged)
    shutil.copytree(root / "merged", root / "copy")
    (root / "adapter").mkdir()
    save_file(adapter, root / "adapter" / "adapter_model.safetensors")
    config = {"peft_type": "LORA", "r": rank, "lora_alpha": 2 * rank}
    (root / "adapter" / "adapter_config.json").write_text(json.dumps(config))


def _bf16(values: numpy.ndarray) -> numpy.ndarray:
    bits = values.view("<u4")
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype("<u2")


def _wide(values: numpy.ndarray) -> numpy.ndarray:
    return (values.astype("<u4") << 16).view("<f4")


def _save(path: Path, state: dict[str, numpy.ndarray]) -> None:
    """A safetensors file by hand: that of numpy has no bf16."""
    path.mkdir()
    header, at = {}, 0
    for name, values in state.items():
        offsets = [at, at + values.nbytes]
        header[name] = {"dtype": "BF16", "shape": values.shape, "data_offsets": offsets}
        at = offsets[1]
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with (path / "model.safetensors").open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for values in state.values():
            file.write(values.tobytes())


def measure(name: str, request: dict[str, object], threads: int) -> None:
    """Threads of a comparison, processes of a merge; the memory is that of the largest process."""
    code = CHILD.format(root=str(ROOT), request=json.dumps(request), threads=threads)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    wall, used, memory, read = json.loads(done.stdout)
    rate = read / used / 1e9 if used else 0
    print(
        f"{name:<32} {threads} thread{'s' * (threads > 1):1}  {wall:6.2f} s  {used:6.2f} s of "
        f"processor  {read / 1e9:6.2f} GB read  {rate:5.1f} GB/s  {memory:5.0f} MB",
        flush=True,
    )


def products(rank: int, gigabytes: float) -> None:
    """Of float32 factors, in blocks of rows that stay in the cache, by one thread."""
    code = f"""
import os
os.environ["OPENBLAS_NUM_THREADS"] = "1"
import numpy, time
left = numpy.ones(({WIDTH}, {rank}), "f4"); right = numpy.ones(({rank}, {WIDTH}), "f4")
out = numpy.empty((64, {WIDTH}), "f4")
began, used = time.perf_counter(), time.process_time()
for _ in range({max(1, round(gigabytes * 1e9 / (2 * WIDTH * WIDTH)))}):
    for row in range(0, {WIDTH}, 64):
        numpy.matmul(left[row : row + 64], right, out=out)
print(time.perf_counter() - began, time.process_time() - used)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    wall, used = map(float, done.stdout.split())
    print(f"{'products':<32} 1 thread   {wall:6.2f} s  {used:6.2f} s of processor")


def cat(*files: Path) -> None:
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(["cat", *map(str, files)], stdout=subprocess.DEVNULL, check=True)
    after, wall = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter() - began
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    size = sum(file.stat().st_size for file in files)
    print(f"{'cat':<43} {wall:6.2f} s  {used:6.2f} s of processor  {size / 1e9:6.2f} GB")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--gigabytes", type=float, default=0.8)
    parser.add_argument("--rank", type=int, default=16)
    parser.add_argument("--directory", type=Path)
    options = parser.parse_args()
    root = Path(tempfile.mkdtemp(prefix="merge-speed-", dir=options.directory))
    try:
        write(root, options.gigabytes, options.rank)
        merge = {
            "path": str(root / "merged"),
            "merged_from": str(root / "base"),
            "adapters": [[str(root / "adapter"), 1.0]],
        }
        equal = {"path": str(root / "merged"), "equals": str(root / "copy")}
        files = [root / name / "model.safetensors" for name in ("base", "merged")]
        cat(*files)
        products(options.rank, options.gigabytes)
        for threads in range(1, min(2, os.cpu_count() or 1) + 1):
            measure("merge", merge, threads)
            measure("equal", equal, threads)
        cat(*files)
    finally:
        shutil.rmtree(root)


if __name__ == "__main__":
    main()
