"""Makes facts files of many nodes with planted faults, compares them, and measures it.

    python benchmarks/compare.py DIRECTORY [--nodes 10000] [--noise normal|heavy|cloud] [--keep]

The files are those of two recorded machines, an H100 and, of every third node, an H200, with names,
UUIDs, times and noisy rates of their own. Noise as in `stragglers.py`.
Planted: other drivers, a lower power limit, a GPU with a failed row remap, slow nodes, half of a
rack without InfiniBand, a node twice, a missing node, a torn file. Each must be named.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import re
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from doctor.cli.fleet.node_files import judge, processors
from doctor.facts.facts import Facts, decode, decode_unchecked, encode
from doctor.facts.host import Hca, Host
from doctor.facts.launched import Launched
from doctor.fleet.compare import compare
from doctor.fleet.summary import check, summarize

ROOT = Path(__file__).resolve().parent.parent
RECORDED = (
    ROOT / "tests/machines/captured/h100_torch2.11.json",
    ROOT / "tests/machines/h200_torch2.11.json",
)
UUID = re.compile(rb"GPU-0{8}-0000-4000-8000-0*")
replace = msgspec.structs.replace


def planted(nodes: int) -> dict[str, list[int]]:
    """Fault -> nodes that have it."""
    chosen = random.Random(7).sample(range(2, nodes), 14)
    return {
        "driver": chosen[:2], "power": chosen[2:4], "remap": chosen[4:6], "slow": chosen[6:9],
        "network": chosen[9:11], "twice": chosen[11:12], "missing": chosen[12:13],
        "torn": chosen[13:14],
    }  # fmt: skip


def machines() -> list[Facts]:
    """The recorded machines, the one of most nodes first."""
    return [decode(path.read_bytes()) for path in RECORDED]


def disturb(noise: str, dice: random.Random) -> Callable[[], float]:
    """What each rate of one measurement of one node is multiplied with."""
    neighbour = dice.uniform(0.1, 0.5) if noise == "cloud" and dice.random() < 0.02 else 0.0

    def factor() -> float:
        heavy = noise == "heavy"
        tail = math.sqrt(3 / sum(dice.gauss(0, 1) ** 2 for _ in range(3))) if heavy else 1.0
        return math.exp(0.01 * dice.gauss(0, 1) * tail - neighbour)

    return factor


def write_files(folder: Path, nodes: int, noise: str) -> dict[str, list[int]]:
    """The files of all nodes; the planted faults."""
    folder.mkdir(parents=True, exist_ok=True)
    bases = machines()
    faults = planted(nodes)
    struck = {number for numbers in faults.values() for number in numbers}
    dice = random.Random(1)
    for number in range(nodes):
        name = f"gpu-{number:05}"
        if number in faults["missing"]:
            continue
        rest = number % 3 == 0 and number not in struck
        base = bases[1] if rest else bases[0]
        data = encode(node(base, number, name, nodes, faults, dice, disturb(noise, dice)))
        data = UUID.sub(b"GPU-%08d-0000-4000-8000-000000000000" % number, data)
        if number in faults["torn"]:
            data = data[: len(data) // 2]
        (folder / f"{name}.json").write_bytes(data)
        if number in faults["twice"]:
            (folder / f"{name}-again.json").write_bytes(
                data.replace(f'"rank": {number}'.encode(), b'"rank": 999999')
            )
    return faults


def node(
    base: Facts,
    number: int,
    name: str,
    nodes: int,
    faults: dict[str, list[int]],
    dice: Any,
    factor: Callable[[], float],
) -> Facts:
    host, driver = base.host, base.driver
    assert isinstance(host, Host)
    assert isinstance(base.gpus, tuple)
    assert isinstance(base.load, tuple)
    ports = 7 if number in faults["network"] else 8
    hcas = tuple(
        Hca(name=f"mlx5_{port}", state="ACTIVE" if port < ports else "DOWN", rate="400 Gb/sec")
        for port in range(8)
    )
    host = replace(host, name=name, hcas=hcas, limits={"nofile": 1048576})
    if number in faults["driver"]:
        driver = replace(driver, version="570.86.10")  # type: ignore[type-var]
    gpus = tuple(
        replace(
            gpu,
            power_limit=500_000 if number in faults["power"] else gpu.power_limit,
            power_limit_default=500_000 if number in faults["power"] else gpu.power_limit_default,
            remap_failed=number in faults["remap"],
        )
        for gpu in base.gpus
    )
    slow = 1.5 if number in faults["slow"] else 1.0
    load = tuple(
        replace(
            each,
            matmul={k: v * factor() / slow for k, v in each.matmul.items()},
            copy=(each.copy or 0) * factor(),
            to_device=(each.to_device or 0) * factor(),
            from_device=(each.from_device or 0) * factor(),
        )
        for each in base.load
    )
    launched = Launched(by="slurm", node=name, rank=number, nodes=nodes, job="4711")
    return base.with_(host=host, driver=driver, gpus=gpus, load=load, launched=launched)


def measure(command: list[str]) -> tuple[float, float, str]:
    """Seconds, peak MiB of one process among it and its children, and stdout."""
    began = time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    seconds = time.monotonic() - began
    print(done.stderr[-2000:], file=sys.stderr)
    return seconds, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024, done.stdout


def named(report: dict[str, Any], faults: dict[str, list[int]]) -> dict[str, str]:
    """Fault -> which of its nodes the report names where it must."""
    fleet = report["fleet"]
    lines = {line["node"]: line for line in fleet["nodes"]}
    differ = {
        (each["name"], node)
        for each in fleet["differences"]
        for group in each["groups"][1:]
        for node in group["nodes"]
    }
    slow = {each["node"] for each in fleet["slow"]}
    tests = {
        "driver": lambda n: ("driver", n) in differ,
        "power": lambda n: ("power limit", n) in differ,
        "remap": lambda n: lines[n]["outcome"] == "return",
        "slow": lambda n: n in slow,
        "network": lambda n: ("active ports", n) in differ,
        "twice": lambda n: n in {each["value"] for each in fleet["doubled"]},
        "missing": lambda n: n in fleet["missing"],
        "torn": lambda n: any(each["file"].startswith(n) for each in fleet["unread"]),
    }
    found = {}
    for fault, numbers in faults.items():
        hits = [tests[fault](f"gpu-{number:05}") for number in numbers]
        found[fault] = f"{sum(hits)} of {len(hits)}"
    return found


def in_process(folder: Path, most: int = 400) -> None:
    """Milliseconds of a processor for a file: decoding, the comparison beyond it, judging."""
    data = [path.read_bytes() for path in sorted(folder.glob("*.json"))[:most]]
    kept, times = [], {"msgspec": 0.0, "decode": 0.0, "summary": 0.0, "judge": 0.0}
    for each in data:
        try:
            began = time.process_time()
            msgspec.json.decode(each, type=Facts)
        except msgspec.DecodeError:
            continue
        middle = time.process_time()
        facts = decode_unchecked(each)
        decoded = time.process_time()
        summary = check(summarize(facts, "ready"))
        summarized = time.process_time()
        if len(kept) < 40:
            judge(facts)
            times["judge"] += time.process_time() - summarized
        times["msgspec"] += middle - began
        times["decode"] += decoded - middle
        times["summary"] += summarized - decoded
        kept.append(summary)
    compare(kept[:20])  # imports numpy
    began = time.process_time()
    compare(kept)
    compared = time.process_time() - began
    count = len(kept)
    alone = times["msgspec"] / count * 1e3
    rest = (times["decode"] + times["summary"] + compared) / count * 1e3
    print(f"msgspec alone {alone:.3f} ms a file; decoding, summary and comparison {rest:.3f} ms "
          f"({rest / alone:.1f} times); judging {times['judge'] / 40 * 1e3:.2f} ms")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--nodes", type=int, default=10_000)
    parser.add_argument("--noise", choices=("normal", "heavy", "cloud"), default="normal")
    parser.add_argument("--keep", action="store_true", help="use the files that are there")
    arguments = parser.parse_args()
    if arguments.keep:
        faults = planted(arguments.nodes)
    else:
        faults = write_files(arguments.directory, arguments.nodes, arguments.noise)
    page = arguments.directory.parent / "fleet.html"
    names = f"gpu-[00000-{arguments.nodes - 1:05}]"
    command = [
        sys.executable, "-m", "doctor", "compare", str(arguments.directory), "--nodes-from", names,
        "--format", "json", "--output", f"html={page}", "-q",
    ]  # fmt: skip
    seconds, memory, output = measure(command)
    report = json.loads(output)
    for fault, hits in named(report, faults).items():
        print(f"{fault:>8}: {hits} named")
    slowed = {f"gpu-{number:05}" for number in faults["slow"]}
    others = {each["node"] for each in report["fleet"]["slow"] if each.get("certain")} - slowed
    print(f"others that a single measurement calls slow: {len(others)}, {arguments.noise} noise")
    print(f"{arguments.nodes} nodes in {seconds:.1f} s on {processors()} processors, {memory:.0f} "
          f"MiB in the largest process, HTML {page.stat().st_size / 1e6:.2f} MB")  # fmt: skip
    in_process(arguments.directory)


if __name__ == "__main__":
    main()
