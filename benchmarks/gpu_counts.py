"""What `doctor run` costs on GPUs, in counts that no load on this machine changes.

The GPUs are pretended (tests/support/pretend.py): the counts are those of the code, and a machine
with such GPUs may differ where a process dies or a deadline passes. Needs gcc, g++ and torch.

    python benchmarks/gpu_counts.py
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "support"))

from pretend import MISSING, PROFILES, build, counted, machine

RUNS = ((1, ()), (1, ("--quick",)), (8, ()), (8, ("--quick",)))
ROW = "{:<16} {:>8} {:>16} {:>13} {:>12} {:>10} {:>13}"


def main() -> None:
    if MISSING:
        sys.exit(MISSING)
    heads = ("imports", "contexts by GPU", "SDPA shapes", "SDPA plans", "stages", "serial stages")
    print(ROW.format("doctor run", *heads))
    with tempfile.TemporaryDirectory() as name:
        top = Path(name)
        libraries = build(top)
        for number, (count, options) in enumerate(RUNS):
            each = machine(top / str(number), libraries, PROFILES["H100"], count)
            done = each.doctor("--format", "json", *options)
            assert done.returncode == 0, done.stdout + done.stderr
            costs = counted(each.record())
            contexts = sorted(set(costs.contexts.values()))
            print(
                ROW.format(
                    f"{count} x H100 {' '.join(options)}",
                    costs.imports,
                    f"{count} x {'-'.join(map(str, contexts))}",
                    costs.shapes,
                    costs.plans,
                    costs.stages,
                    costs.serial,
                ),
                flush=True,
            )


if __name__ == "__main__":
    main()
