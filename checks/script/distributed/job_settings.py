"""Rules on the directives and variables of a batch job: what of them takes effect."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.checks.script.distributed import batch
from doctor.checks.script.rule import Match, Rule
from doctor.checks.script.training import Training

LISTED = ("CUDA_VISIBLE_DEVICES", "MASTER_ADDR", "MASTER_PORT", "OMP_NUM_THREADS", "NCCL_DEBUG",
          "NCCL_SOCKET_IFNAME", "NCCL_P2P_DISABLE", "NCCL_IB_DISABLE", "HF_HOME", "WANDB_PROJECT",
          "TOKENIZERS_PARALLELISM", "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF", "WORLD_SIZE",
          "WANDB_MODE", "HF_HUB_OFFLINE", "TRANSFORMERS_CACHE", "CUDA_DEVICE_ORDER")  # fmt: skip
"""Variables that only programs read: without export they reach none."""

OPTIONS = ("MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "WANDB_PROJECT")
"""Those that programs also take as options, by way of other variables."""


_PIPED = {
    "status": "$? is that of tee: what fails counts as done",
    "condition": "the status of a pipe is that of tee: what fails counts as done",
    "deleted": "the status is that of tee: a run that fails goes on, and {} is deleted",
}
"""What the status of tee decides, without pipefail."""


def jobs(reading: Training) -> Iterator[Match]:
    """Directives that are not read, variables that reach no program, jobs that end at once."""
    texts = [launch.text for launch in reading.script.launches]
    lines = reading.script.settings
    for setting in lines:
        kind, _, name = setting.key.partition(".")
        if kind == "piped":
            message = _PIPED[name].format(setting.value)
            yield Match(setting.span, message, "warn", fix="set -o pipefail above the pipe.")
        elif kind == "late":
            yield Match(
                setting.span, f"--{name} stands behind the first command: sbatch ignores it"
            )
        elif kind == "sbatch" and re.search(r"\$\{?\w", str(setting.value)):
            yield Match(setting.span, f"sbatch replaces no variables: --{name} is taken as it is")
        elif kind == "set" and name in LISTED and not _reaches(reading, name, texts):
            yield Match(setting.span, f"{name} is not exported: no program sees it")
    yield from _allocator(reading)
    yield from _arrays(reading)
    if any(s.key.startswith("sbatch.") for s in lines) and reading.script.launches:
        last = reading.script.launches[-1]
        if batch.in_background(last) and not reading.mentions("wait") and not _waits(reading):
            yield Match(batch.place(last), "the job ends at once: nothing waits for the background")


def _reaches(reading: Training, name: str, texts: list[str]) -> bool:
    """The variable stands in a command, or is exported elsewhere."""
    used = any(f"${name}" in text or f"${{{name}" in text for text in texts)
    keys = {each.key for each in reading.script.settings}
    return used or f"export.{name}" in keys or (name in OPTIONS and f"read.{name}" in keys)


def _arrays(reading: Training) -> Iterator[Match]:
    """All tasks of a job array run the same command. One at a time, they continue each other."""
    setting = batch.settings(reading).get("sbatch.array")
    texts = [launch.text for launch in reading.script.launches]
    texts += [str(each.value) for each in reading.script.settings]
    known = any("ARRAY_TASK" in text or "TASK_ID" in text for text in texts)
    if setting is None or str(setting.value).endswith("%1"):
        return
    if known:
        yield from _shared_files(reading)
        return
    if any(re.search(r"\$\{?[1@*]|resume", text) for text in texts):
        return
    message = "all tasks run the same command: it has no SLURM_ARRAY_TASK_ID"
    yield Match(setting.span, message, "warn")


WEIGHTS = re.compile(r"\.(?:pt|pth|ckpt|bin|safetensors|h5|pkl)$")
SAME_FOR_ALL = {"USER", "HOME", "SCRATCH", "WORK", "PWD", "PROJECT", "SLURM_ARRAY_JOB_ID",
                "SLURM_SUBMIT_DIR", "SLURM_JOB_NAME", "SLURM_JOB_USER"}  # fmt: skip
"""Variables that all tasks of an array share; SLURM_JOB_ID differs."""


def _shared_files(reading: Training) -> Iterator[Match]:
    """Tasks that differ write one file of weights, or one folder of a Trainer."""
    for launch in reading.script.launches:
        for flag, value in launch.arguments.items():
            path = _expanded(reading, value)
            unknown = set(re.findall(r"\$\{?(\w+)", path)) - SAME_FOR_ALL
            if not path or unknown or re.search(r"\$\(|[$]\{?[\d@*]|`", path):
                continue
            new = WEIGHTS.search(path) and (
                "SLURM_ARRAY_JOB_ID" in path or re.match(r"(?:save|out)(?!.*(?:load|from))", flag)
            )
            trainer = flag == "output_dir" and "per_device_train_batch_size" in launch.arguments
            if new or trainer:
                message = f"all tasks of the array write --{flag}: the path has no task in it"
                yield Match(batch.place(launch), message, "warn")
                return


def _expanded(reading: Training, text: str) -> str:
    """A path with the variables of the script replaced; one that has several values stays."""
    held: dict[str, set[str]] = {}
    for setting in reading.script.settings:
        kind, _, name = setting.key.partition(".")
        if kind in ("set", "export"):
            held.setdefault(name, set()).add(str(setting.value))
    plain = {name: values.pop() for name, values in held.items() if len(values) == 1}
    for _ in range(4):
        text = re.sub(r"\$\{?(\w+)\}?", lambda m: plain[m[1]] if m[1] in plain else m[0], text)
    return text


def _waits(reading: Training) -> bool:
    return any(setting.key == "waits" for setting in reading.script.settings)


def _allocator(reading: Training) -> Iterator[Match]:
    """PYTORCH_CUDA_ALLOC_CONF takes name:value."""
    for setting in reading.script.settings:
        name, value = setting.key.rpartition(".")[2], str(setting.value)
        if name in ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF") and "=" in value:
            yield Match(setting.span, f"{name} has name:value, not name=value: torch raises")


def debugging(reading: Training) -> Iterator[Match]:
    slow = {
        "CUDA_LAUNCH_BLOCKING": ("1", "each kernel waits for the one before it"),
        "TORCH_DISTRIBUTED_DEBUG": ("DETAIL", "each collective is compared across ranks"),
        "NCCL_P2P_DISABLE": ("1", "GPUs exchange data through the host"),
        "NCCL_IB_DISABLE": ("1", "nodes exchange data over Ethernet"),
        "TORCH_USE_CUDA_DSA": ("1", "kernels test for errors"),
    }
    for setting in reading.script.settings:
        kind, _, name = setting.key.partition(".")
        if kind == "export" and name in slow and str(setting.value) == slow[name][0]:
            yield Match(setting.span, f"{name}={setting.value}: {slow[name][1]}")


RULES = (
    Rule(
        code="SCR362",
        slug="job-settings-lost",
        title="Directives and variables of a job take effect",
        severity="fail",
        find=jobs,
        why="sbatch reads directives above the first command, as plain text. A variable that is "
        "not exported stays in the shell.",
        fires=(
            "#SBATCH behind a command, or with a $VARIABLE",
            "CUDA_VISIBLE_DEVICES=0,1 on a line of its own, without export",
            "PYTORCH_CUDA_ALLOC_CONF with = in place of :",
            "a job array whose command has no SLURM_ARRAY_TASK_ID, or whose tasks write one file "
            "(a warning)",
            "$? behind a pipe to tee, a condition on one, or a deletion of what the run writes "
            "behind one, without pipefail (a warning)",
        ),
        fix="Move directives to the top; write export before the variable.",
        sources=("slurm-sbatch",),
        kinds=batch.KIND,
    ),
    Rule(
        code="SCR363",
        slug="debug-variable-left-on",
        title="Variables for debugging are off",
        severity="warn",
        find=debugging,
        why="CUDA_LAUNCH_BLOCKING=1 and the like are for the search for an error: each step takes "
        "longer, some many times.",
        fires=("export CUDA_LAUNCH_BLOCKING=1, TORCH_DISTRIBUTED_DEBUG=DETAIL, NCCL_P2P_DISABLE=1, "
               "NCCL_IB_DISABLE=1",),
        fix="Remove the line once the error is found.",
        sources=("torch-cuda-env",),
        kinds=batch.KIND,
    ),
)  # fmt: skip
