"""Rules on device maps and attention kernels: where and how a loaded model runs."""

from __future__ import annotations

from collections.abc import Iterator

from doctor.checks.script import evaluate, objects
from doctor.checks.script.model.capability import NOT_TRAINED, has_capability_test
from doctor.checks.script.rendering import texts_in
from doctor.checks.script.rule import Match, Rule, Severity
from doctor.checks.script.training import Training
from doctor.facts.script import Call, Span, Value

STARTS = ("init_process_group", "Accelerator", "PartialState")
RANKS = ("local_rank", "process_index", "world_size")
"""What is called and read where a program runs in several processes."""
ATTENTION_WORDS = ("flash", "attn", "attention", "fa2", "capab", "ampere")


def device_map_auto(reading: Training) -> Iterator[Match]:
    trained = {n for each in reading.trained for n in each.lineage.calls}
    names = {each.name.rpartition(".")[2] for each in reading.trained if each.name}
    ends = reading.training_ends
    for number, call in reading.numbered(reading.loads):
        texts = evaluate.literals(reading, evaluate.argument(reading, call, "device_map"), call)
        if "auto" not in texts or reading.is_evaluation(call):
            continue
        if not _may_train(reading, number, trained, names, ends):
            continue
        message = 'device_map="auto" on the model that trains'
        if texts == {"auto"}:
            yield Match(call.span, message, _severity(reading, call))
        else:
            yield Match(call.span, message, undecided="a condition decides the device map")


def _may_train(
    reading: Training, number: int, trained: set[int], names: set[str], ends: dict[int, int]
) -> bool:
    call = reading.calls[number]
    if number in trained:
        return True
    if number > ends.get(call.scope, len(reading.calls)):
        return False
    targets = {target.rpartition(".")[2] for target in call.targets}
    if any(word in target for target in targets for word in NOT_TRAINED):
        return False
    sinks = {reading.calls[each.sink].scope for each in reading.trained}
    if sinks and call.scope and call.scope not in sinks and targets:
        return False
    if any(
        each.lineage.complete and each.name.rpartition(".")[2] in targets
        for each in reading.trained
        if reading.calls[each.sink].scope == call.scope
    ):
        return False
    if not targets:
        return call.scope != 0 and _returned_model(reading, call)
    return bool(targets & (names or {"model"}))


def _returned_model(reading: Training, call: Call) -> bool:
    function = reading.function(call.scope).name.casefold()
    return "model" in function and not any(word in function for word in NOT_TRAINED)


def _severity(reading: Training, call: Call) -> Severity:
    """One process may split a model that is too large for a GPU; several cannot share the split."""
    if _distributed(reading):
        return "fail"
    several = (reading.machine.gpus or 1) > 1 or any(
        _processes(launch.launcher) > 1 for launch in reading.script.launches
    )
    return "warn" if several or _counts_processes(reading, call) else "note"


def _counts_processes(reading: Training, call: Call) -> bool:
    """The file's top, this function, or one before or after it, does."""
    scopes = {0, call.scope, *objects.near(reading, call.scope)}
    started = any(each.scope in scopes for each in reading.named(*STARTS))
    texts = [text for scope in scopes for text in texts_in(reading, scope)]
    texts += [each.target for each in reading.assignments if each.scope in scopes]
    return started or any(word in text.casefold() for text in texts for word in RANKS)


def _distributed(reading: Training) -> bool:
    """All launch lines start several processes."""
    programs = {launch.program for launch in reading.script.launches}
    return (
        bool(programs)
        and programs <= {"torchrun", "accelerate", "deepspeed"}
        and all(_processes(launch.launcher) > 1 for launch in reading.script.launches)
    )


def _processes(launcher: dict[str, str]) -> int:
    for key in ("nproc_per_node", "nproc-per-node", "num_processes", "num_gpus"):
        if launcher.get(key, "").isdecimal():
            return int(launcher[key])
    return 1


def flash_attention(reading: Training) -> Iterator[Match]:
    below = reading.machine.capability is not None and reading.machine.capability < (8, 0)
    missing = reading.machine.flash_attention is False
    works = reading.machine.capability is not None and not below and reading.machine.flash_attention
    if works or (has_capability_test(reading) and not (below or missing)):
        return
    severity: Severity = "fail" if below or missing else "note"
    reason = " on a GPU below 8.0" * below or " without flash_attn" * missing
    message = f"flash_attention_2 without a test or a flag{reason}"
    for span in (*_flash_arguments(reading), *_flash_defaults(reading)):
        yield Match(span, message, severity)


FLASH_KEYS = ("attn_implementation", "_attn_implementation", "use_flash_attention_2")


def _flash_arguments(reading: Training) -> Iterator[Span]:
    """Calls that a literal flash_attention_2 reaches."""
    for call in reading.calls:
        if not (call.unpacked or call.keywords.keys() & set(FLASH_KEYS)):
            continue
        if reading.is_flagged(call, *ATTENTION_WORDS) or reading.is_evaluation(call):
            continue
        for value in filter(None, (evaluate.argument(reading, call, key) for key in FLASH_KEYS)):
            results = evaluate.literals(reading, value, call)
            if (
                results
                and results <= {"flash_attention_2", True}
                and not _default_of(value, reading)
            ):
                yield call.span


def _flash_defaults(reading: Training) -> Iterator[Span]:
    """Defaults of functions, and assignments to a configuration."""
    for function in reading.script.functions:
        defaults = (each.default for each in function.parameters if each.default is not None)
        if any(default.literal == "flash_attention_2" for default in defaults):
            yield function.span
    for each in reading.assignments:
        named = each.target.endswith("attn_implementation") and "." in each.target
        if named and each.value.literal == "flash_attention_2" and not reading.is_flagged(each):
            yield each.span


def _default_of(value: Value, reading: Training) -> bool:
    """The value is a function's parameter, whose default is reported there."""
    return value.kind == "name" and any(
        parameter.name == value.name and parameter.default is not None
        for function in reading.script.functions
        for parameter in function.parameters
    )


RULES = (
    Rule(
        code="SCR124",
        slug="device-map-auto-training",
        title="The model that trains is placed by the job, not by device_map=auto",
        severity="note",
        find=device_map_auto,
        training=True,
        why="With several GPUs visible, device_map=auto splits the layers over them: one GPU "
        "computes at a time. accelerate refuses it in distributed training.",
        fires=(
            'device_map="auto" in from_pretrained of the object that trains',
            "a warning: the same in a file that counts its processes, and on several GPUs",
        ),
        errors=("the same where launch lines start several processes",),
        fix='Omit device_map, or use device_map={"": local_rank} for quantized models; a model '
        "that is too large for one GPU needs FSDP or ZeRO-3 to use several at a time.",
        sources=("bts-fix5",),
    ),
    Rule(
        code="SCR125",
        slug="flash-attention-unguarded",
        title="flash_attention_2 is chosen where it can run",
        severity="note",
        find=flash_attention,
        training=True,
        why="flash_attention_2 needs the package flash_attn and a GPU of compute capability 8.0 "
        "or later; elsewhere loading the model raises.",
        fires=("a literal flash_attention_2 that no flag or test decides",),
        errors=("the same on a machine where it cannot run",),
        fix='Use attn_implementation="sdpa", or choose by transformers.utils.'
        "is_flash_attn_2_available() and the capability.",
        sources=("bts-fast",),
    ),
)
