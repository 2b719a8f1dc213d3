"""Real trainings that fail on this machine, and what `doctor triage` says of their logs.

    python benchmarks/real_failures.py [NAME ...] [--keep DIRECTORY]

Runs each training of `failures/trainings.py` under what makes it fail (a small control group, a
small file system, a signal), triages its log, and compares the first cause with the expected class.
`--keep` saves the logs, with paths neutralized, as `tests/log/real` has them. Needs root for the
control group and the small file systems.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
PYTHON = sys.executable
RUN = f"{PYTHON} {HERE}/failures/trainings.py"
TORCHRUN = f"{PYTHON} -m torch.distributed.run"
SMALL = "mount -t tmpfs -o size=2m tmpfs"
GROUP = "/sys/fs/cgroup/memory/doctor_real_failures"

SCENARIOS = {
    "nan_loss": ("loss-nonfinite", f"{RUN} nan_loss DIR"),
    "nan_loss_with_scaler": ("loss-zero-gradnorm-nan", f"{RUN} nan_loss_with_scaler DIR"),
    "trainer_nan": ("loss-zero-gradnorm-nan", f"{RUN} trainer_nan DIR"),
    "no_grad": ("element0-no-grad", f"{RUN} no_grad DIR"),
    "lora_reentrant": ("element0-no-grad", f"{RUN} lora_reentrant DIR"),
    "dtype_mismatch": ("dtype-mismatch", f"{RUN} dtype_mismatch DIR"),
    "memory_ulimit": ("host-out-of-memory", f"bash -c 'ulimit -v 6000000; {RUN} memory DIR'"),
    "memory_cgroup": (
        "killed-sigkill",
        f"bash -c 'mkdir -p {GROUP}; echo 700M > {GROUP}/memory.limit_in_bytes; "
        f"(echo $BASHPID > {GROUP}/tasks; exec {TORCHRUN} --standalone --nproc-per-node 1 "
        f"{HERE}/failures/trainings.py memory DIR); rmdir {GROUP}'",
    ),
    "worker_killed": ("dataloader-worker-killed", f"{RUN} worker_killed DIR"),
    "worker_raises": ("uncaught-exception", f"{RUN} worker_raises DIR"),
    "shm_full": (
        "shm-bus-error",
        f"unshare -m bash -c '{SMALL} /dev/shm; {RUN} shm_full DIR'",
    ),
    "one_rank_raises": (
        "uncaught-exception",
        f"{TORCHRUN} --standalone --nproc-per-node 3 {HERE}/failures/trainings.py "
        "one_rank_raises DIR",
    ),
    "one_rank_hangs": (
        "nccl-timeout",
        f"{TORCHRUN} --standalone --nproc-per-node 2 {HERE}/failures/trainings.py "
        "one_rank_hangs DIR",
    ),
    "port_in_use": (
        "port-in-use",
        f"bash -c '{PYTHON} -m http.server 29577 --bind 0.0.0.0 >/dev/null 2>&1 & server=$!; "
        "sleep 2; "
        "MASTER_ADDR=127.0.0.1 MASTER_PORT=29577 RANK=0 WORLD_SIZE=1 "
        f"{RUN} init_only DIR; kill $server'",
    ),
    "missing_rank": (
        "rendezvous-timeout",
        f"env MASTER_ADDR=127.0.0.1 MASTER_PORT=29578 RANK=0 WORLD_SIZE=2 {RUN} init_only DIR",
    ),
    "disk_full": (
        "disk-full",
        f"unshare -m bash -c '{SMALL} DIR; {RUN} disk_full DIR'",
    ),
    "hangup": (
        "killed-sighup",
        f"bash -c '{TORCHRUN} --standalone --nproc-per-node 1 {HERE}/failures/trainings.py long "
        "DIR & run=$!; sleep 12; kill -HUP $run; wait $run'",
    ),
    "interrupt": ("interrupted", f"timeout -s INT --foreground 6 {RUN} long DIR"),
    "weights_only": ("weights-only-load", f"{RUN} weights_only DIR"),
    "cuda_only": ("cuda-unavailable", f"{RUN} cuda_only DIR"),
    "undefined_symbol": ("extension-abi-mismatch", f"{RUN} undefined_symbol DIR"),
    "out_of_vocabulary": ("index-out-of-range", f"{RUN} out_of_vocabulary DIR"),
    "healthy": ("", f"{RUN} healthy DIR"),
}
"""Name -> the expected class, "" for none, and the command; DIR is a directory of its own."""


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*")
    parser.add_argument("--keep", type=Path)
    arguments = parser.parse_args()
    wrong = 0
    for name in arguments.names or SCENARIOS:
        expected, command = SCENARIOS[name]
        with tempfile.TemporaryDirectory() as directory:
            log = neutral(run(command, directory), directory)
            file = Path(directory, f"{name}.log")
            file.write_text(log, "utf-8")
            named = first_cause(file)
            if arguments.keep:
                arguments.keep.mkdir(parents=True, exist_ok=True)
                Path(arguments.keep, file.name).write_text(log, "utf-8")
        wrong += named != expected
        mark = "ok  " if named == expected else "MISS"
        print(f"{mark} {name:<22} {named or '-'} (expected {expected or '-'})", flush=True)
    return wrong


def run(command: str, directory: str) -> str:
    """The output of a failing training, stdout and stderr as they come."""
    environment = dict(
        os.environ, OMP_NUM_THREADS="1", PYTHONPATH="", TOKENIZERS_PARALLELISM="false"
    )
    process = subprocess.run(
        command.replace("DIR", directory), shell=True, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, timeout=180, env=environment, check=False, cwd=directory,
    )  # fmt: skip
    return process.stdout.decode("utf-8", "replace")


def neutral(log: str, directory: str) -> str:
    """The log without this machine's paths and names."""
    packages = str(Path(sys.prefix))
    for old, new in (
        (directory, "/work/run"), (packages, "/opt/venv"), (str(HERE / "failures"), "/work"),
        (os.uname().nodename, "node0"), (str(Path(sys.base_prefix)), "/usr"),
    ):  # fmt: skip
        log = log.replace(old, new)
    return re.sub(r"pid: \d+|PID \d+", lambda match: f"{match[0].split()[0]} 4242", log)


def first_cause(file: Path) -> str:
    """The class that `doctor triage` names first."""
    command = [PYTHON, "-m", "doctor", "triage", str(file), "--no-config", "--format", "json"]
    root = str(HERE.parent)
    process = subprocess.run(command, capture_output=True, env={**os.environ, "PYTHONPATH": root},
                             check=False)  # fmt: skip
    finding = json.loads(process.stdout)["findings"][0]
    return finding["slug"] if finding["status"] == "fail" else ""


if __name__ == "__main__":
    sys.exit(main())
