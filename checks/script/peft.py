"""Rules on PEFT, gradient checkpointing, device maps and tokenizers."""

from __future__ import annotations

from collections.abc import Iterator

from doctor.checks.script.reading import exclusive
from doctor.checks.script.rule import Match, Rule, Severity
from doctor.checks.script.training import Training
from doctor.checks.script.weights import NOT_TRAINED, cast_dtype, has_capability_test
from doctor.facts.script import Call, Span, Value
from doctor.facts.script_machine import ScriptMachine

ENABLE = ("gradient_checkpointing_enable", "activation_checkpointing_enable")
ATTENTION_WORDS = ("flash", "attn", "attention", "fa2", "capab", "ampere")
SWITCHES = ("gradient_checkpointing", "activation_checkpointing")
INPUT_GRADIENTS = (
    *("enable_input_require_grads", "make_inputs_require_grad", "make_inputs_require_grads"),
    *("prepare_model_for_kbit_training", "prepare_model_for_int8_training"),
    *("prepare_model_for_training", "prepare_model_for_half_training"),
)


def _is_peft_model(call: Call) -> bool:
    return call.name.endswith("get_peft_model") and not call.name.startswith("unsloth")


def gives_input_gradients(reading: Training) -> bool:
    """Something makes the embedding's output require a gradient."""
    hooks = any(name in reading.functions_by_name for name in INPUT_GRADIENTS)
    return hooks or bool(reading.methods(*INPUT_GRADIENTS))


def checkpointing_after_peft(reading: Training, machine: ScriptMachine) -> Iterator[Match]:
    wraps = [n for n in reading.methods("get_peft_model") if _is_peft_model(reading.calls[n])]
    fast = reading.mentions("fastlanguagemodel", "unsloth", "fastmodel")
    if any(reading.is_trl(reading.calls[n]) for n in reading.trainers):
        return
    if not wraps or fast or gives_input_gradients(reading):
        return
    severity: Severity = "note" if _is_5(machine.transformers) else "fail"
    enabled = reading.methods(*ENABLE)
    for number in enabled:
        call = reading.calls[number]
        if _not_reentrant(reading, call) or not call.receiver:
            continue
        if _wrapped_before(reading, number, wraps) and not _enabled_before(
            reading, number, wraps, enabled
        ):
            message = "gradient checkpointing is enabled after get_peft_model"
            yield Match(call.span, message, severity)
    yield from _by_arguments(reading, wraps, enabled, severity)


def _wrapped_before(reading: Training, number: int, wraps: list[int]) -> bool:
    """The object that checkpointing is enabled on came from get_peft_model."""
    call = reading.calls[number]
    lineage = reading.lineage(call.receiver, call.scope, number)
    return any(
        n in lineage.calls and not exclusive(reading.calls[n].arms, call.arms) for n in wraps
    )


def _enabled_before(reading: Training, number: int, wraps: list[int], enabled: list[int]) -> bool:
    """It was also enabled before, which turns input gradients on."""
    first = min(n for n in wraps)
    same = reading.calls[first].scope
    return any(n < first and reading.calls[n].scope == same for n in enabled if n != number)


def _not_reentrant(reading: Training, call: Call) -> bool:
    switches = (f"{switch}_kwargs" for switch in SWITCHES)
    results = [reading.argument(call, name) for name in (*switches, "use_reentrant")]
    if call.method in ENABLE:
        results += call.args[:1]
    for value in filter(None, results):
        for option in reading.options(value, call):
            if option.kind == "dict" and "use_reentrant" in option.keys:
                item = option.items[option.keys.index("use_reentrant")]
                return item.literal is not True
            if option.kind == "call" and reading.calls[option.call].name == "dict":
                item = reading.calls[option.call].keywords.get("use_reentrant", Value("other"))
                return item.literal is not True
            if option.kind in ("name", "other"):
                return True
    return False


def _by_arguments(
    reading: Training, wraps: list[int], enabled: list[int], severity: Severity
) -> Iterator[Match]:
    """TrainingArguments(gradient_checkpointing=True) turns it on when the training starts."""
    trainers = [
        n
        for n in reading.trainers
        if not reading.is_trl(reading.calls[n])
        and reading.is_transformers_trainer(reading.calls[n])
    ]
    if not trainers or any(n < min(wraps) for n in enabled):
        return
    for number in reading.arguments:
        call = reading.calls[number]
        if not call.method.endswith("TrainingArguments") or _not_reentrant(reading, call):
            continue
        value = next(filter(None, (reading.argument(call, key) for key in SWITCHES)), None)
        if value is None:
            continue
        truth = reading.truth(value, call)
        message = "TrainingArguments enables gradient checkpointing after get_peft_model"
        if all(reading.is_flagged(reading.calls[n]) for n in wraps):
            yield Match(call.span, message, undecided="a flag decides whether PEFT wraps the model")
        elif truth is True:
            yield Match(call.span, message, severity)
        elif truth is None:
            yield Match(call.span, message, undecided="a flag decides it")


def _is_5(version: str | None) -> bool:
    return version is not None and version.partition(".")[0] not in ("0", "1", "2", "3", "4")


def fresh_adapter(reading: Training, machine: ScriptMachine) -> Iterator[Match]:
    wraps = {n for n in reading.methods("get_peft_model") if _is_peft_model(reading.calls[n])}
    if not wraps:
        return
    for number in reading.methods("from_pretrained"):
        call = reading.calls[number]
        if not call.receiver.rpartition(".")[2].startswith("PeftModel") or not call.args:
            continue
        base = reading.argument(call, "model", 0)
        if base is None or base.kind != "name" or "adapter_name" in call.keywords:
            continue
        lineage = reading.lineage(base.name, call.scope, number)
        merged = [n for n in lineage.calls if reading.calls[n].method == "merge_and_unload"]
        same = [n for n in lineage.calls if n in wraps and reading.calls[n].scope == call.scope]
        if same and not merged and not exclusive(reading.calls[same[0]].arms, call.arms):
            yield Match(call.span, "a saved adapter is loaded onto a model that already has one")


def cast_after_peft(reading: Training, machine: ScriptMachine) -> Iterator[Match]:
    wraps = {n for n in reading.methods("get_peft_model") if _is_peft_model(reading.calls[n])}
    if not wraps or reading.has_master_weights:
        return
    for number in reading.methods("half", "bfloat16", "to"):
        call = reading.calls[number]
        dtypes = cast_dtype(reading, call)
        if not call.receiver or not dtypes & {"bf16", "fp16"} or reading.is_evaluation(call):
            continue
        lineage = reading.lineage(call.receiver, call.scope, number)
        last = max(reading.backwards or reading.methods("train") or [number + 1])
        here = [n for n in lineage.calls if n in wraps]
        if not here or (
            reading.calls[here[0]].scope == call.scope
            and exclusive(reading.calls[here[0]].arms, call.arms)
        ):
            continue
        if reading.calls[here[0]].scope == call.scope and number > last:
            continue
        if call.receiver.startswith("self.") and reading.calls[here[0]].scope != call.scope:
            continue
        message = f"{call.receiver} is cast after get_peft_model: its adapters are cast, too"
        if dtypes <= {"bf16", "fp16"}:
            yield Match(call.span, message)
        else:
            yield Match(call.span, message, undecided="a flag decides the dtype")
    yield from _adapter_casts(reading, wraps)


def _adapter_casts(reading: Training, wraps: set[int]) -> Iterator[Match]:
    """param.data = param.data.to(bfloat16) for the parameters of a PEFT model."""
    for each in reading.script.assignments:
        if each.value.kind != "call" or not each.target.endswith(".data") or not each.loops:
            continue
        call = reading.calls[each.value.call]
        iterable = reading.script.loops[each.loops[-1]].iterable
        if not cast_dtype(reading, call) & {"bf16", "fp16"} or iterable is None:
            continue
        owners = [
            reading.calls[n]
            for n in iterable.calls
            if reading.calls[n].method in ("named_parameters", "parameters")
        ]
        for owner in owners:
            lineage = reading.lineage(owner.receiver, each.scope, each.position - 1)
            tests = " ".join(test.text for test in reading.tests(each))
            if wraps & set(lineage.calls) and ("lora" in tests or "requires_grad" in tests):
                yield Match(call.span, "the adapters of a PEFT model are cast")


def device_map_auto(reading: Training, machine: ScriptMachine) -> Iterator[Match]:
    trained = {n for each in reading.trained for n in each.lineage.calls}
    names = {each.name.rpartition(".")[2] for each in reading.trained if each.name}
    ends = reading.training_ends
    for number in reading.loads:
        call = reading.calls[number]
        texts = reading.literals(reading.argument(call, "device_map"), call)
        if "auto" not in texts or reading.is_evaluation(call):
            continue
        if not _may_train(reading, number, trained, names, ends):
            continue
        message = 'device_map="auto" on the model that trains'
        if texts == {"auto"}:
            severity: Severity | None = "fail" if _distributed(reading) else None
            yield Match(call.span, message, severity)
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
        return call.scope != 0 and _returned_model(reading, call, names)
    return bool(targets & (names or {"model"}))


def _returned_model(reading: Training, call: Call, names: set[str]) -> bool:
    function = reading.function(call.scope).name.casefold()
    return "model" in function and not any(word in function for word in NOT_TRAINED)


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


def flash_attention(reading: Training, machine: ScriptMachine) -> Iterator[Match]:
    below = machine.capability is not None and machine.capability < (8, 0)
    missing = machine.flash_attention is False
    works = machine.capability is not None and not below and machine.flash_attention
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
        for value in filter(None, (reading.argument(call, key) for key in FLASH_KEYS)):
            results = reading.literals(value, call)
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
    for each in reading.script.assignments:
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
        code="SCR121",
        slug="checkpointing-after-peft",
        title="Gradient checkpointing is enabled before get_peft_model",
        severity="fail",
        find=checkpointing_after_peft,
        why="With transformers 4.31 to 4.57, reentrant checkpointing enabled after get_peft_model "
        "raises 'element 0 of tensors does not require grad': the frozen embedding's output needs "
        "no gradient. Before it, PEFT turns input gradients on.",
        fires=("checkpointing enabled after get_peft_model, reentrant, without input gradients",),
        fix='Pass gradient_checkpointing_kwargs={"use_reentrant": False}, call '
        "model.enable_input_require_grads(), or enable checkpointing before get_peft_model.",
        sources=("cbl-root", "cbl-fix"),
        limits="that the installed transformers is below 5, where both orders work.",
        fixes="safe",
    ),
    Rule(
        code="SCR122",
        slug="peft-fresh-adapter-over-saved",
        title="A saved adapter is loaded onto the base model",
        severity="warn",
        find=fresh_adapter,
        why="PeftModel.from_pretrained on the result of get_peft_model nests two adapters: the "
        "fresh one stays in place under the saved one.",
        fires=("PeftModel.from_pretrained on an object that get_peft_model returned",),
        fix="Load the saved adapter onto the base model with is_trainable=True, without "
        "get_peft_model.",
        sources=("peft-2115",),
    ),
    Rule(
        code="SCR123",
        slug="cast-after-peft",
        title="Adapters keep their dtype",
        severity="warn",
        find=cast_after_peft,
        why="PEFT keeps adapters in fp32 over a half-precision base. A cast of the whole model "
        "after get_peft_model casts them, too: bf16 loses small updates, fp16 cannot be unscaled.",
        fires=("half(), bfloat16() or to(dtype) on the result of get_peft_model",),
        fix="Cast the base model before get_peft_model.",
        sources=("bts-fix7",),
    ),
    Rule(
        code="SCR124",
        slug="device-map-auto-training",
        title="The model that trains is placed by the job, not by device_map=auto",
        severity="warn",
        find=device_map_auto,
        why="With several GPUs visible, device_map=auto splits the layers over them: one GPU "
        "computes at a time. accelerate refuses it in distributed training.",
        fires=('device_map="auto" in from_pretrained of the object that trains',),
        errors=("the same where launch lines start several processes",),
        fix='Omit device_map, or use device_map={"": local_rank} for quantized models.',
        sources=("bts-fix5",),
    ),
    Rule(
        code="SCR125",
        slug="flash-attention-unguarded",
        title="flash_attention_2 is chosen where it can run",
        severity="note",
        find=flash_attention,
        why="flash_attention_2 needs the package flash_attn and a GPU of compute capability 8.0 "
        "or later; elsewhere loading the model raises.",
        fires=("a literal flash_attention_2 that no flag or test decides",),
        errors=("the same on a machine where it cannot run",),
        fix='Use attn_implementation="sdpa", or choose by transformers.utils.'
        "is_flash_attn_2_available() and the capability.",
        sources=("bts-fast",),
    ),
)
