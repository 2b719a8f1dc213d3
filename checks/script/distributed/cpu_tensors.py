"""A rule on collectives of NCCL, which has no tensors on the CPU."""

from __future__ import annotations

from collections.abc import Iterator

from doctor.checks.script import evaluate
from doctor.checks.script.rule import Match, Rule
from doctor.checks.script.training import Training
from doctor.facts.script import Call

COLLECTIVES = ("all_reduce", "broadcast", "reduce", "all_gather", "all_gather_into_tensor")
MADE = {"torch.tensor", "torch.zeros", "torch.ones", "torch.empty", "torch.Tensor",
        "torch.FloatTensor", "torch.LongTensor", "torch.as_tensor", "torch.from_numpy"}  # fmt: skip


def on_cpu(reading: Training) -> Iterator[Match]:
    starts = reading.named("init_process_group")
    if not starts or reading.mentions("set_default_device", "set_default_tensor_type"):
        return
    for start in starts:
        value = evaluate.argument(reading, start, "backend", 0)
        if evaluate.literals(reading, value, start) != {"nccl"}:
            return
    for call in reading.named(*COLLECTIVES):
        place = 1 if call.method.startswith("all_gather") else 0
        if not call.name.startswith("torch.distributed.") or len(call.args) <= place:
            continue
        if "group" in call.keywords:
            continue
        found = evaluate.options(reading, call.args[place], call)
        made = reading.calls_of(found)
        if made and len(made) == len(found) and all(_on_cpu(each) for each in made):
            name = call.args[place].name or "the tensor"
            yield Match(call.span, f"{name} is on the CPU: NCCL exchanges tensors of GPUs alone")


def _on_cpu(made: Call) -> bool:
    if made.name not in MADE or "device" in made.keywords or made.unpacked:
        return False
    return not (made.name in ("torch.as_tensor", "torch.tensor") and _of_tensor(made))


def _of_tensor(made: Call) -> bool:
    """as_tensor(x) of a tensor keeps its device."""
    return made.name == "torch.as_tensor" and bool(made.args) and made.args[0].kind == "name"


RULES = (
    Rule(
        code="SCR416",
        slug="collective-of-cpu-tensor",
        title="Collectives of NCCL get tensors of a GPU",
        severity="fail",
        find=on_cpu,
        why="torch raises 'No backend type associated with device type cpu' at the first such "
        "call, "
        "often only at the end of an epoch, in the metrics.",
        fires=("all_reduce(torch.tensor(value)) after init_process_group('nccl')",),
        fix="torch.tensor(value, device=device), or init_process_group('cpu:gloo,cuda:nccl').",
        sources=("torch-distributed",),
        needs=("init_process_group",),
    ),
)
