"""Runs `doctor fleet run` under real launchers here: Slurm with four nodes, Open MPI inside it, and
torchrun, also by the recipes of docs/recipes, as they are.

python benchmarks/fleet_launchers.py [CASE...]: all cases, or those whose names hold a word. Where
launchers are not installed the cases are skipped, which is counted and proves nothing. A recipe
finds a `doctor` on its PATH that adds the flags of these tests.
"""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "benchmarks"), str(ROOT / "tests/support")]

import slurm_bed  # noqa: E402
from nodes import EXAMINE, ONE_MACHINE, free_port  # noqa: E402

DEADLINE = 100.0
DOCTOR = [sys.executable, "-P", "-m", "doctor", "fleet", "run", "--address", "127.0.0.1"]
FLAGS = ["--deadline", f"{DEADLINE:g}", *EXAMINE, *ONE_MACHINE]
SRUN = ["srun", "-N4", "--ntasks-per-node=1", "--overlap", "--kill-on-bad-exit=0"]
MPIRUN = ["salloc", "-Q", "-N2", "mpirun", "--allow-run-as-root", "--map-by", "ppr:1:node"]
UNLESS_N4 = 'test "$SLURMD_NODENAME" = n4 && exec sleep 1; exec "$@"'
RECIPES = ROOT / "docs/recipes"
BOTH = 'NODE_RANK=1 bash "$1" & NODE_RANK=0 bash "$1"; code=$?; wait; exit $code'
OWN_DOCTOR = """#!/bin/sh
test "$SLURMD_NODENAME" = "$ABSENT_NODE" && test -n "$ABSENT_NODE" && exec sleep 1
exec {words} "$@" {flags}
"""
CASES = {
    "srun": ([*SRUN, *DOCTOR, *FLAGS], 0, ("4 nodes reported; 4 required", "n4: READY")),
    "srun, n4 never joins": (
        [*SRUN, "sh", "-c", UNLESS_N4, "sh", *DOCTOR, *FLAGS],
        1,
        ("missing: n4", "n3: READY"),
    ),
    "srun, a node fails and the first exit kills": (
        [*SRUN[:-1], "--kill-on-bad-exit=1", *DOCTOR, *FLAGS, "--inject", "MEM003"],
        None,  # of the task that ended first
        ("4 nodes reported; 4 required", "FAIL FLT003"),
    ),
    "srun, two tasks on a node": (
        ["srun", "-N2", "-n3", "--overlap", *DOCTOR, *FLAGS],
        2,
        ("srun --ntasks-per-node=1",),
    ),
    "mpirun in two nodes": (
        [*MPIRUN, *DOCTOR, *FLAGS],
        0,
        ("2 nodes reported; 2 required", ": READY: all"),
    ),
    "recipe for Slurm": (
        ["salloc", "-Q", "-N4", "bash", str(RECIPES / "fleet-slurm.sh")],
        0,
        ("n3: READY", "trained"),
    ),
    "recipe for Slurm, n4 never joins": (
        ["salloc", "-Q", "-N4", "bash", str(RECIPES / "fleet-slurm.sh")],
        1,
        ("missing: n4",),
    ),
    "recipe for mpirun": (
        ["salloc", "-Q", "-N2", "bash", str(RECIPES / "fleet-mpirun.sh")],
        0,
        (": READY: ",),
    ),
    "recipe for torchrun": (
        ["bash", "-c", BOTH, "bash", str(RECIPES / "fleet-torchrun.sh")],
        0,
        (": READY: ",),
    ),
    "mpirun, two tasks on a node": (
        ["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", "2", *DOCTOR, *FLAGS],
        2,
        ("mpirun --map-by ppr:1:node",),
    ),
}


def variables(place: Path) -> dict[str, str]:
    """What the recipes expect of a job, and a PATH with a doctor of this checkout."""
    (place / "train.py").write_text("print('trained')\n")
    (place / "hosts").write_text("n1\nn2\n")
    words = shlex.join([sys.executable, "-P", "-m", "doctor"])
    flags = shlex.join(["--address", "127.0.0.1", *EXAMINE, *ONE_MACHINE])
    (place / "doctor").write_text(OWN_DOCTOR.format(words=words, flags=flags))
    (place / "doctor").chmod(0o755)
    root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    job = {"HOSTFILE": str(place / "hosts"), "NNODES": "2", "MASTER_ADDR": "127.0.0.1"}
    return {**root, **job, "MASTER_PORT": str(free_port())}


def main(chosen: list[str]) -> int:
    counts = {"pass": 0, "FAIL": 0, "skip": 0}
    if reason := slurm_bed.missing():
        print(f"skip all {len(CASES)}: {reason}")
        return 0
    with slurm_bed.cluster() as environment, tempfile.TemporaryDirectory() as place:
        job = variables(Path(place))
        path = f"{place}:{environment['PATH']}"
        for name, (command, code, words) in CASES.items():
            if chosen and not any(word in name for word in chosen):
                continue
            own = job | {"PATH": path} if name.startswith("recipe") else {}
            own |= {"ABSENT_NODE": "n4"} if own and "n4" in name else {}
            if "mpirun" in name and not shutil.which("mpirun"):
                counts["skip"] += 1
                print(f"skip {name}: mpirun is not installed")
                continue
            started = time.monotonic()
            done = subprocess.run(
                command,
                env=environment | own,
                cwd=place,
                capture_output=True,
                text=True,
                check=False,
                timeout=600,
            )
            seconds = time.monotonic() - started
            text = done.stdout + done.stderr
            wrong = [f"does not say {word!r}:\n{text}" for word in words if word not in text]
            if code is not None and done.returncode != code:
                wrong.append(f"exit code {done.returncode}, not {code}:\n{text}")
            outcome = "FAIL" if wrong else "pass"
            counts[outcome] += 1
            print(f"{outcome} {name} ({seconds:.1f} s)", *wrong, sep="\n     ", flush=True)
    print(", ".join(f"{count} {outcome}" for outcome, count in counts.items()))
    return 1 if counts["FAIL"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
