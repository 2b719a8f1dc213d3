"""Rules on DDP: what goes through it, and what its processes save and load."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.checks.script import evaluate
from doctor.checks.script.ranks import OTHERS, ddp_calls, depends_on_rank
from doctor.checks.script.reading import exclusive
from doctor.checks.script.rule import Match, Rule
from doctor.checks.script.training import Training
from doctor.facts.script import Call, Value


def ddp_bypassed(reading: Training) -> Iterator[Match]:
    """What a step calls is the model below DDP, under any name, and DDP itself never."""
    wraps = [n for n in ddp_calls(reading) if len(reading.calls[n].targets) == 1]
    if not wraps or any(reading.calls[n].arms for n in wraps):
        return
    outer = {target for n in wraps for target in reading.calls[n].targets}
    past: list[Call] = []
    for number, call in enumerate(reading.calls):
        if not _in_step(reading, call) or reading.is_evaluation(call):
            continue
        given = [v.name for v in call.values if v.kind == "name"]
        foreign = reading.target_function(call) is None and number not in wraps
        if any(_is_wrapped(reading, name, call, wraps) for name in
               (call.name, *(given if foreign and call.method not in LOOKS else ()))):  # fmt: skip
            return
        if _goes_past(reading, call, wraps, outer):
            past.append(call)
    if past:
        message = f"{past[0].name}(...) goes past DDP: gradients are not averaged over the GPUs"
        yield Match(past[0].span, message)


LOOKS = {"hasattr", "isinstance", "getattr", "len", "print", "type", "id"}
QUIET = {
    "parameters", "named_parameters", "modules", "state_dict", "load_state_dict", "to", "no_sync",
    "train", "eval", "zero_grad", "requires_grad_", "children", "get", "clip_grad_norm_",
}  # fmt: skip


def _is_wrapped(reading: Training, name: str, call: Call, wraps: list[int]) -> bool:
    if not name or "(" in name or name.startswith("torch."):
        return False
    found = evaluate.options(reading, Value("name", name=name), call)
    below = any(v.kind == "name" and v.name.endswith(".module") for v in found)
    return not below and any(v.kind == "call" and v.call in wraps for v in found)


def _goes_past(reading: Training, call: Call, wraps: list[int], outer: set[str]) -> bool:
    """ddp.module(x), a part or a method of it, a name for it, or the model that was wrapped."""
    if "(" in call.name or call.method in QUIET or not call.args:
        return False
    base, found, rest = call.name.partition(".module")
    if found and (not rest or rest[0] == ".") and _is_wrapped(reading, base, call, wraps):
        direct = not rest or rest.count(".") == 1
        return not rest or (direct and _reaches_loss(reading, call))
    number = reading.number(call)
    for wrap, made in reading.numbered(wraps):
        inner = made.args[0].name
        same = inner and reading.key(inner, made.scope) == reading.key(call.name, call.scope)
        if same and inner not in made.targets and number > wrap:
            return True
    return any(
        v.kind == "name" and v.name.endswith(".module") and v.name.removesuffix(".module") in outer
        for v in evaluate.options(reading, Value("name", name=call.name), call)
    )


def _reaches_loss(reading: Training, call: Call) -> bool:
    """backward() is called on what the call returns, or on what is computed of it."""
    names, number = set(call.targets), reading.number(call)
    for other in reading.calls[number + 1 :]:
        if other.scope != call.scope:
            continue
        if other.receiver in names and reading.number(other) in reading.backward_numbers:
            return True
        if names & {n for v in other.values for n in v.all_names}:
            names |= set(other.targets)
    return False


def _in_step(reading: Training, call: Call) -> bool:
    """backward() comes after it in the same loop, or in a function that is a step."""
    if (not call.loops and not call.scope) or call.statement:
        return False
    number = reading.number(call)
    return any(
        n > number and reading.calls[n].scope == call.scope and reading.calls[n].loops == call.loops
        for n in reading.backwards
    )


GUARDED = re.compile(
    r"rank|main|master|primary|local|world|distributed|dist\b|leader|chief|gpu|save|zero|alone",
    re.I,
)
WORD = re.compile(r"[A-Za-z_]\w*")
BY_THEMSELVES = (
    "fullyshardeddataparallel", "fully_shard", "save_on_master", "setup_for_distributed",
)  # fmt: skip
"""Names of what saves on one process, or must be called by all."""
SAVERS = ("torch.save", "safetensors.torch.save_file")


def saved_by_all(reading: Training) -> Iterator[Match]:
    frameworks = [name for name in OTHERS if name != "accelerate"]
    several = ddp_calls(reading) or reading.methods("Accelerator")
    if not several or reading.imports_from(*frameworks) or reading.mentions(*BY_THEMSELVES):
        return
    message = "every process writes the same file"
    for number, call in reading.numbered(reading.methods("save", "save_file", "save_pretrained")):
        if not _saves(reading, call, number) or _is_guarded(reading, call):
            continue
        path = call.args[call.method != "save_pretrained"]
        if depends_on_rank(reading, path, call):
            continue
        sites = reading.callers(call.scope)
        if call.scope and not sites:
            yield Match(call.span, message, undecided="the callers are in another file")
        elif not any(
            _is_guarded(reading, site)
            or _outer(reading, site)
            or _passes_own_path(reading, path, call.scope, site)
            for site in sites
        ):
            yield Match(call.span, message)


def _saves(reading: Training, call: Call, number: int) -> bool:
    """torch.save() of something, or save_pretrained() of the model below DDP."""
    if call.method != "save_pretrained":
        own = reading.imports_from("accelerate")
        model = any(other.method in ("state_dict", "unwrap_model")
                    for v in call.args[:1] for other in reading.inside(v))  # fmt: skip
        return call.name in SAVERS and len(call.args) > 1 and (not own or model)
    base = call.receiver.removesuffix(".module")
    return (
        bool(base)
        and base != call.receiver
        and bool(call.args)
        and any(
            v.kind == "call" and v.call in ddp_calls(reading)
            for v in evaluate.options(reading, Value("name", name=base), call, number)
        )
    )


def _is_guarded(reading: Training, call: Call) -> bool:
    """Some condition is, or may be, about the process."""
    found = [reading.test_of(branch) for branch, _ in call.arms]
    tests = [test for test in found if test is not None and "__name__" not in test.text]
    return any(
        GUARDED.search(test.text)
        or test.kind in ("name", "call")
        or any(
            depends_on_rank(reading, Value("name", name=word), call)
            for word in WORD.findall(test.text)
        )
        for test in tests
    )


def _passes_own_path(reading: Training, path: Value, scope: int, site: Call) -> bool:
    """The caller of a function that saves passes a path of its rank."""
    names = [name for name in path.all_names if evaluate.is_parameter(reading, scope, name)]
    given = [evaluate.argument_of(reading, site, scope, name) for name in names]
    return any(value is not None and depends_on_rank(reading, value, site) for value in given)


def _outer(reading: Training, site: Call) -> bool:
    """The caller is itself called under such a condition."""
    sites = reading.callers(site.scope) if site.scope else []
    return any(_is_guarded(reading, each) for each in sites)


def loaded_to_one_gpu(reading: Training) -> Iterator[Match]:
    if not ddp_calls(reading) or reading.imports_from(*OTHERS):
        return
    if "CUDA_VISIBLE_DEVICES" in reading.script.identifiers or _is_on_cpu(reading):
        return
    for number, call in reading.numbered(reading.methods("load")):
        if call.name != "torch.load" or call.unpacked or len(call.args) > 1:
            continue
        if "map_location" in call.keywords or not _is_loaded(reading, number, call):
            continue
        if any(
            "map_location" in other.keywords and exclusive(other.arms, call.arms)
            for other in reading.named("load")
        ):
            continue
        yield Match(
            call.span, "torch.load without map_location: every process loads to the saved GPU"
        )


def _is_on_cpu(reading: Training) -> bool:
    """All process groups are gloo's: the tensors are saved from the CPU."""
    starts = reading.named("init_process_group")
    return bool(starts) and all(
        evaluate.literals(reading, evaluate.argument(reading, start, "backend", 0), start)
        == {"gloo"}
        for start in starts
    )


def _is_loaded(reading: Training, number: int, call: Call) -> bool:
    """Its result reaches load_state_dict."""
    for use in reading.named("load_state_dict"):
        for value in use.args:
            if number in value.calls or any(
                name.partition("[")[0] in call.targets for name in value.all_names if name
            ):
                return True
    return False


def sync_norm_after_ddp(reading: Training) -> Iterator[Match]:
    for number, call in reading.numbered(reading.methods("convert_sync_batchnorm")):
        if not call.name.startswith("torch.nn.") or len(call.args) != 1:
            continue
        value = call.args[0]
        for option in evaluate.options(reading, value, call):
            if option.kind == "call" and option.call in ddp_calls(reading) and option.call < number:
                yield Match(call.span, "SyncBatchNorm is set after DDP wrapped the model")


RULES = (
    Rule(
        code="SCR253",
        slug="ddp-bypassed",
        title="The forward pass of a step goes through DDP",
        severity="fail",
        find=ddp_bypassed,
        why="DDP prepares its gradient hooks in forward(). model.module(x), or the model that was "
        "wrapped, leaves them unprepared: each GPU trains a model of its own.",
        fires=(
            "the loss of a step is computed by ddp.module(x), under any name, by its methods and "
            "parts, or by the inner model, and never by DDP itself",
        ),
        fix="Call the wrapped model itself.",
        needs=("DistributedDataParallel", "DDP"),
        sources=("torch-ddp-notes",),
    ),
    Rule(
        code="SCR255",
        slug="save-on-all-ranks",
        title="One process saves the model",
        severity="warn",
        find=saved_by_all,
        why="All processes write the same path at the same time: the file may be torn, and the "
        "time is spent once per process.",
        fires=(
            "torch.save, or save_pretrained of ddp.module, in a file with DDP, under no test of "
            "the rank",
            "torch.save of the model in a file with Accelerator, under no such test",
        ),
        fix="Save under if dist.get_rank() == 0, then call dist.barrier() on all ranks.",
        needs=("DistributedDataParallel", "DDP", "Accelerator"),
        sources=("torch-ddp-notes",),
    ),
    Rule(
        code="SCR256",
        slug="load-without-map-location",
        title="Each process loads to its own GPU",
        severity="warn",
        find=loaded_to_one_gpu,
        why="torch.load restores tensors to the GPU that they were saved from, mostly GPU 0: all "
        "processes allocate there, and its memory may be exhausted.",
        fires=("torch.load without map_location in a file with DDP, given to load_state_dict",),
        fix='Pass map_location="cpu", or f"cuda:{local_rank}".',
        needs=("DistributedDataParallel", "DDP"),
        sources=("torch-load",),
    ),
    Rule(
        code="SCR259",
        slug="sync-batchnorm-after-ddp",
        title="SyncBatchNorm is set before DDP wraps the model",
        severity="fail",
        find=sync_norm_after_ddp,
        why="DDP has already taken the parameters of the layers that convert_sync_batchnorm "
        "replaces.",
        fires=("convert_sync_batchnorm of a model that DistributedDataParallel returned",),
        fix="Convert first, then wrap.",
        needs=("convert_sync_batchnorm",),
        sources=("torch-sync-batchnorm",),
    ),
)
