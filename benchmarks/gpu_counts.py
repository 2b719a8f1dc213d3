"""What `doctor run` costs on GPUs: counts that no load on this machine changes, and seconds.

The GPUs are pretended (tests/support/pretend.py): the counts are those of the code, and a machine
with such GPUs may differ where a process dies or a deadline passes. The seconds beyond
`import torch` are an estimate from the counts, and beside it what was measured on such a machine
(tests/support/gpu_seconds.py; "-": not measured). Needs gcc, g++ and torch.

    python benchmarks/gpu_counts.py [--units]

With --units the seconds of each unit are printed, with their sources.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "support"))

from gpu_seconds import MEASURED, UNITS, estimate
from pretend import MISSING, PROFILES, build, counted, machine

RUNS = ((1, ()), (1, ("--quick",)), (8, ()), (8, ("--quick",)))
ROW = "{:<16} {:>7} {:>15} {:>11} {:>15} {:>6} {:>13} {:>13} {:>20}"
HEADS = ("imports", "contexts by GPU", "cuDNN plans", "attention calls", "stages", "serial stages")


def main() -> None:
    if MISSING:
        sys.exit(MISSING)
    print(ROW.format("doctor run", *HEADS, "estimate in s", "measured in s"))
    with tempfile.TemporaryDirectory() as name:
        top = Path(name)
        libraries = build(top)
        for number, (count, options) in enumerate(RUNS):
            each = machine(top / str(number), libraries, PROFILES["H100"], count)
            done = each.doctor("--format", "json", *options)
            assert done.returncode == 0, done.stdout + done.stderr
            costs = counted(each.record())
            contexts = sorted(set(costs.contexts.values()))
            low, high = estimate(costs, count, quick="--quick" in options)
            print(
                ROW.format(
                    f"{count} x H100 {' '.join(options)}",
                    costs.imports,
                    f"{count} x {'-'.join(map(str, contexts))}",
                    costs.plans,
                    costs.calls,
                    costs.stages,
                    costs.serial,
                    f"{low:.1f} - {high:.1f}",
                    str(MEASURED.get((count, "--quick" in options), "-")),
                ),
                flush=True,
            )
    for name, unit in UNITS.items() if "--units" in sys.argv else ():
        print(f"{name:<38} {unit.low:>5g} - {unit.high:<5g} {unit.source}")


if __name__ == "__main__":
    main()
