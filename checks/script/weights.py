"""Rules on the dtype of weights that train."""

from __future__ import annotations

from collections.abc import Iterator

from doctor.checks.script import amp
from doctor.checks.script.reading import UNDECIDED
from doctor.checks.script.rule import Match, Rule, Severity
from doctor.checks.script.training import PEFT, Lineage, Trained, Training
from doctor.facts.script import Call, Value
from doctor.facts.script_machine import ScriptMachine

HALVES = {"bf16", "fp16"}
PRECISION_WORDS = ("bf16", "fp16", "float16", "half", "amp", "precision", "dtype", "mixed", "capab")
CASTS = ("half", "bfloat16", "to", "type")
BACK = ("float",)
NOT_TRAINED = (
    "ref",
    "reward",
    "teacher",
    "embed",
    "judge",
    "draft",
    "critic_ref",
    "vae",
    "text_enc",
)
TESTS = (
    *("get_device_capability", "is_bf16_supported", "is_bf16_available", "is_bfloat16_supported"),
    *("is_torch_bf16_available", "is_torch_bf16_gpu_available", "is_ampere"),
)


CAST_TO = {"half": "fp16", "bfloat16": "bf16", "float": "fp32"}


def cast_dtype(reading: Training, call: Call) -> set[str]:
    """The dtypes a cast may give; () for a call that casts nothing."""
    if call.method in CAST_TO:
        return {CAST_TO[call.method]} if not call.args else set()
    if call.method not in ("to", "type"):
        return set()
    values = [*call.args, *(v for k, v in call.keywords.items() if k == "dtype")]
    return {each for value in values for each in _dtypes_of(reading, value, call)}


def _dtypes_of(reading: Training, value: Value, call: Call) -> Iterator[str]:
    """The dtypes of an argument of to(), which may also be a device."""
    for option in reading.options(value, call):
        dtype = reading.dtype(option)
        if dtype != UNDECIDED and option.kind != "literal":
            yield dtype
        elif "dtype" in value.name or "precision" in value.name:
            yield UNDECIDED


def has_adapters(reading: Training) -> bool:
    """The file makes adapters, perhaps for another object or under a condition."""
    return bool(reading.methods(*PEFT, "LoraConfig", "LoRA"))


def whole(reading: Training) -> Iterator[Trained]:
    """Objects that train whole, without adapters and without other owners of fp32 copies."""
    for trained in reading.trained:
        if not reading.is_peft(trained) and not reading.is_frozen(trained.lineage):
            yield trained


def low_precision_cast(reading: Training, machine: ScriptMachine) -> Iterator[Match]:
    if reading.has_master_weights:
        return
    for trained in whole(reading):
        for number in _casts(reading, trained):
            call = reading.calls[number]
            if reading.is_evaluation(call) or not _before(reading, number, trained):
                continue
            dtypes = cast_dtype(reading, call)
            if not dtypes & HALVES or _cast_back(reading, trained.lineage, number):
                continue
            name = call.receiver or "the model"
            shown = " or ".join(sorted(dtypes & HALVES))
            message = f"{name} is cast to {shown} and trains in it"
            if dtypes <= HALVES:
                severity: Severity = "fail" if dtypes == {"fp16"} else "warn"
                yield Match(call.span, message, severity)
            else:
                yield Match(call.span, message, undecided="a flag decides the dtype")


def _casts(reading: Training, trained: Trained) -> list[int]:
    on = reading.on_object(trained.lineage, *CASTS)
    inside = [n for n in trained.lineage.calls if reading.calls[n].method in CASTS]
    return sorted({*on, *inside})


def _before(reading: Training, number: int, trained: Trained) -> bool:
    """Casts after the last backward or in other functions are for saving or evaluation."""
    call, sink = reading.calls[number], reading.calls[trained.sink]
    if number in trained.lineage.calls or call.scope != sink.scope:
        return True
    last = max(reading.backwards, default=trained.sink)
    runs = [n for n in reading.methods("train") if reading.calls[n].scope == sink.scope]
    return number < max([last, trained.sink, *runs[:1]])


def _cast_back(reading: Training, lineage: Lineage, number: int) -> bool:
    later = {*reading.on_object(lineage, "float", "to"), *lineage.calls}
    later |= {n for n in reading.methods("float", "to") if reading.calls[n].receiver_call == number}
    return any(n > number and "fp32" in cast_dtype(reading, reading.calls[n]) for n in later)


def _load_dtypes(reading: Training, call: Call) -> set[str]:
    value = reading.argument(call, "torch_dtype") or reading.argument(call, "dtype")
    return reading.dtypes(value, call) if value is not None else set()


def _loads(reading: Training, trained: Trained) -> Iterator[int]:
    """from_pretrained calls that made the trained object."""
    for number in trained.lineage.calls:
        if number in reading.loads and not reading.quantized(reading.calls[number]):
            yield number


def half_weights(reading: Training, machine: ScriptMachine) -> Iterator[Match]:
    if reading.has_master_weights:
        return
    fp16, _ = reading.setting("fp16")
    scaler = bool(amp.scaled_backwards(reading)) or fp16 is True
    for trained in whole(reading):
        for number in _loads(reading, trained):
            call = reading.calls[number]
            dtypes = _load_dtypes(reading, call)
            if not dtypes & HALVES or _cast_back(reading, trained.lineage, number):
                continue
            if dtypes == {"bf16"} and scaler:
                continue
            shown = " or ".join(sorted(dtypes & HALVES))
            message = f"the weights are loaded in {shown} and train in it"
            reason = _undecided(reading, trained, dtypes)
            if reason:
                yield Match(call.span, message, undecided=reason)
            else:
                yield Match(call.span, message, "fail" if "fp16" in dtypes else "warn")


def _undecided(reading: Training, trained: Trained, dtypes: set[str]) -> str:
    if not dtypes <= HALVES:
        return "a flag decides the dtype"
    if reading.mentions("freeze"):
        return "a part of the model may be frozen"
    if "fp16" not in dtypes and reading.mentions("fsdp", "fullysharded"):
        return "FSDP may keep fp32 copies"
    if "fp16" not in dtypes and reading.parses_arguments and trained.trainer:
        return "DeepSpeed or FSDP of the command line may keep fp32 copies"
    if has_adapters(reading):
        return "the file can also train adapters"
    return ""


def bf16_with_scaler(reading: Training, machine: ScriptMachine) -> Iterator[Match]:
    fp16, _ = reading.setting("fp16")
    scaled = any(
        amp.is_off(reading, scaler, reading.calls[n].scope) is not True
        for n, scaler in amp.scaled_backwards(reading)
    )
    if not scaled and fp16 is False:
        return
    for trained in reading.trained:
        if reading.is_peft(trained) or reading.is_frozen(trained.lineage):
            continue
        for number, dtypes in _bf16_sources(reading, trained):
            call = reading.calls[number]
            if _cast_back(reading, trained.lineage, number) or "bf16" not in dtypes:
                continue
            message = "bf16 weights train under a GradScaler (fp16)"
            states = {
                amp.is_off(reading, s, reading.calls[n].scope)
                for n, s in amp.scaled_backwards(reading)
            }
            certain = fp16 is True or False in states or not amp.scalers(reading)
            if dtypes == {"bf16"} and certain and (scaled or fp16):
                yield Match(call.span, message)
            else:
                yield Match(call.span, message, undecided="a flag decides dtype or scaler")


def _bf16_sources(reading: Training, trained: Trained) -> Iterator[tuple[int, set[str]]]:
    for number in _loads(reading, trained):
        yield number, _load_dtypes(reading, reading.calls[number])
    for number in _casts(reading, trained):
        if _before(reading, number, trained):
            yield number, cast_dtype(reading, reading.calls[number])


def checkpoint_dtype(reading: Training, machine: ScriptMachine) -> Iterator[Match]:
    version = machine.transformers or _pinned(reading)
    if (
        version is None
        or not version.partition(".")[0].isdecimal()
        or int(version.partition(".")[0]) < 5
    ):
        return
    if reading.has_master_weights:
        return
    for trained in whole(reading):
        for number in _loads(reading, trained):
            call = reading.calls[number]
            if _load_dtypes(reading, call) or reading.unpacks_unknown(call):
                continue
            if not _is_transformers(call) or reading.on_object(trained.lineage, "float"):
                continue
            message = f"transformers {version} loads these weights in the checkpoint's dtype"
            yield Match(call.span, message)


def _is_transformers(call: Call) -> bool:
    return call.name.startswith("transformers.")


def _pinned(reading: Training) -> str | None:
    """The lowest transformers version that the requirements admit."""
    specifier = reading.script.requirements.get("transformers", "")
    for part in specifier.split(","):
        if part.strip()[:2] in ("==", ">=", "~="):
            return part.strip()[2:].strip()
    return None


def has_capability_test(reading: Training) -> bool:
    """A test of the GPU or a helper that chooses the dtype."""
    return (
        bool(reading.methods(*TESTS))
        or reading.mentions(
            "bf16_supported",
            "bfloat16_supported",
            "support_bf16",
            "supports_bf16",
            "is_ampere",
            "bf16_ready",
            "has_bf16",
        )
        or (bool(reading.methods("get_device_properties")) and reading.mentions("major"))
    )


def bf16_unchecked(reading: Training, machine: ScriptMachine) -> Iterator[Match]:
    if has_capability_test(reading):
        return
    below = machine.capability is not None and machine.capability < (8, 0)
    if machine.capability is not None and not below:
        return
    for call, what in _bf16_literals(reading, by_name=below):
        if reading.is_flagged(call, *PRECISION_WORDS) or reading.is_evaluation(call):
            continue
        message = f"{what} requires a GPU of compute capability 8.0 or later"
        if below and machine.capability:
            message += f"; this one is {machine.capability[0]}.{machine.capability[1]}"
        yield Match(call.span, message, "fail" if below else "note")


def _bf16_literals(reading: Training, by_name: bool) -> Iterator[tuple[Call, str]]:
    """Literal dtypes and bf16=True; `by_name`: also "bf16-mixed" and bfloat16()."""
    for number in amp.autocasts(reading):
        call = reading.calls[number]
        if amp.autocast_dtypes(reading, call) == {"bf16"}:
            yield call, "autocast in bf16"
    for number in reading.arguments:
        call = reading.calls[number]
        if reading.truth(reading.argument(call, "bf16"), call):
            yield call, "bf16=True"
    yield from _bf16_weights(reading, by_name)
    if by_name:
        yield from _named_precisions(reading)


def _bf16_weights(reading: Training, by_name: bool) -> Iterator[tuple[Call, str]]:
    for number in reading.loads:
        call = reading.calls[number]
        trains = number <= reading.training_ends.get(call.scope, number)
        if trains and _load_dtypes(reading, call) == {"bf16"}:
            yield call, "loading in bf16"
    for number in {n for trained in reading.trained for n in _casts(reading, trained)}:
        call = reading.calls[number]
        if cast_dtype(reading, call) == {"bf16"} and (by_name or call.method == "to"):
            yield call, "a cast to bf16"


def _named_precisions(reading: Training) -> Iterator[tuple[Call, str]]:
    """mixed_precision="bf16" of accelerate, precision="bf16-mixed" of Lightning."""
    for number in reading.methods("Accelerator", "Trainer", "Fabric"):
        call = reading.calls[number]
        for key in ("mixed_precision", "precision"):
            texts = reading.literals(reading.argument(call, key), call)
            if texts and all(isinstance(text, str) and "bf16" in text for text in texts):
                yield call, f"{key} bf16"


def emulated_check(reading: Training, machine: ScriptMachine) -> Iterator[Match]:
    for number in reading.methods("is_bf16_supported"):
        call = reading.calls[number]
        if not call.name.startswith("torch.cuda"):
            continue
        if call.args or call.keywords or call.statement or reading.is_evaluation(call):
            continue
        if _only_reported(reading, number) or _checks_capability(reading, call, number):
            continue
        message = "is_bf16_supported() is True on GPUs that only emulate bf16"
        yield Match(call.span, message)


def _only_reported(reading: Training, number: int) -> bool:
    """It is printed or asserted, and decides nothing."""
    users = [
        call
        for call in reading.calls
        if any(number in v.calls for v in (*call.args, *call.keywords.values()))
    ]
    names = {call.method for call in users}
    return bool(names) and names <= {"print", "info", "debug", "warning", "log", "format", "str"}


def _checks_capability(reading: Training, call: Call, number: int) -> bool:
    """The same condition asks for the capability, too."""
    for branch in reading.script.branches:
        test = branch.test
        if test is not None and number in test.calls and "capability" in test.text:
            return True
    return any("capability" in test.text for test in reading.tests(call))


def loaded_before_branch(reading: Training, machine: ScriptMachine) -> Iterator[Match]:
    tests = set(reading.methods("get_device_capability", "is_bf16_supported"))
    if not tests:
        return
    choices = [
        each
        for each in reading.script.assignments
        if (reading.dtype(each.value) in HALVES and _chosen_by(reading, each.arms, tests))
        or (
            each.value.kind == "choice"
            and tests & set(each.value.calls)
            and any(reading.dtype(item) in HALVES for item in each.value.items)
        )
    ]
    for trained in reading.trained:
        for number in trained.lineage.calls:
            call = reading.calls[number]
            if number not in reading.loads or not _load_dtypes(reading, call) <= HALVES:
                continue
            later = [c for c in choices if c.scope == call.scope and c.position > number]
            if _load_dtypes(reading, call) and later and not call.arms:
                message = "the weights are loaded in a fixed dtype before the GPU is asked"
                yield Match(call.span, message)


def _chosen_by(reading: Training, arms: object, tests: set[int]) -> bool:
    for branch, _ in arms:  # type: ignore[attr-defined]
        test = reading.script.branches[branch].test
        if test is None:
            continue
        calls = set(test.calls)
        for name in test.names:
            for each in reading.assigned.get((0, name), ()):
                calls |= set(each.value.calls)
        if calls & tests:
            return True
    return False


def both_precisions(reading: Training, machine: ScriptMachine) -> Iterator[Match]:
    for number in reading.arguments:
        call = reading.calls[number]
        values = [reading.argument(call, key) for key in ("fp16", "bf16")]
        if all(v is not None and reading.truth(v, call) is True for v in values):
            yield Match(call.span, "fp16=True and bf16=True exclude each other")


RULES = (
    Rule(
        code="SCR111",
        slug="bf16-weights-with-scaler",
        title="Weights under a GradScaler are fp32",
        severity="fail",
        find=bf16_with_scaler,
        why="A GradScaler cannot unscale bf16 gradients on CUDA: the first step raises "
        "_amp_foreach_non_finite_check_and_unscale_cuda not implemented for BFloat16, on every "
        "GPU.",
        fires=("trainable weights that are bf16 by a literal, and fp16=True or a GradScaler",),
        fix="Load the weights in torch.float32, or train in bf16 without a GradScaler.",
        sources=("titan-why", "ps-P6", "pytorch-127176"),
    ),
    Rule(
        code="SCR112",
        slug="low-precision-weights",
        title="Weights that train are loaded in fp32",
        severity="warn",
        find=half_weights,
        why="fp16 weights raise 'Attempting to unscale FP16 gradients' under a GradScaler and "
        "underflow without one. bf16 weights lose updates below half a step of their 8 bits: "
        "norms and other weights stay unchanged.",
        fires=("from_pretrained in bf16 by a literal, trained whole without fp32 copies",),
        errors=("from_pretrained in fp16 by a literal, trained whole",),
        fix="Load with dtype=torch.float32 and compute in half precision with autocast "
        "(bf16=True or fp16=True).",
        sources=("bts-fix2", "fnr-root", "fnr-fix"),
    ),
    Rule(
        code="SCR113",
        slug="trainable-low-precision-cast",
        title="Weights that train are not cast to half precision",
        severity="warn",
        find=low_precision_cast,
        why="half() and to(bfloat16) convert the weights that the optimizer updates. bf16 loses "
        "updates below half a step of its 8 bits; fp16 gradients underflow, and a GradScaler "
        "refuses them.",
        fires=("a cast to bf16 of the object whose parameters reach the optimizer",),
        errors=("the same cast to fp16",),
        fix="Keep the weights in fp32 and use torch.autocast.",
        sources=("ps-P4", "bts-fix2", "fnr-root"),
    ),
    Rule(
        code="SCR114",
        slug="bf16-without-capability-check",
        title="bf16 is chosen after asking the GPU",
        severity="note",
        find=bf16_unchecked,
        why="GPUs below compute capability 8.0 (V100, T4, RTX 20xx) emulate bf16 slowly or refuse "
        "it. Which GPU a rental gives is known at run time only.",
        fires=("a literal bf16 without a test of the GPU or a flag that decides it",),
        errors=("the same on a machine whose GPU is below 8.0",),
        fix="Choose the autocast dtype by torch.cuda.get_device_capability() >= (8, 0): bf16 "
        "there, else fp16 with a GradScaler.",
        sources=("titan-matrix", "ps-P3"),
        fixes="unsafe",
    ),
    Rule(
        code="SCR115",
        slug="emulated-bf16-check",
        title="The test for bf16 leaves out emulation",
        severity="warn",
        find=emulated_check,
        why="Since torch 2.3 torch.cuda.is_bf16_supported() is True on Turing and Volta, which "
        "emulate bf16: training works, several times slower.",
        fires=("torch.cuda.is_bf16_supported() without arguments chooses a dtype",),
        fix="Call is_bf16_supported(including_emulation=False) (torch 2.4 and later) or compare "
        "get_device_capability() with (8, 0).",
        sources=("ps-P3",),
        fixes="safe",
    ),
    Rule(
        code="SCR116",
        slug="checkpoint-dtype-full-finetune",
        title="Weights that train whole are loaded with an explicit dtype",
        severity="warn",
        find=checkpoint_dtype,
        why="transformers 5 loads the checkpoint's dtype by default. A bf16 checkpoint becomes "
        "bf16 weights with no dtype in the script, and training them loses small updates.",
        fires=("transformers 5, from_pretrained without dtype, trained whole",),
        fix="Pass dtype=torch.float32 to from_pretrained.",
        sources=("bts-fix2", "fnr-root"),
        limits="that a checkpoint of other files is fp32.",
        fixes="unsafe",
    ),
    Rule(
        code="SCR117",
        slug="model-loaded-before-dtype-branch",
        title="The dtype is chosen before the weights are loaded",
        severity="warn",
        find=loaded_before_branch,
        why="A test of the GPU that comes after from_pretrained does not change the weights that "
        "were already loaded in a fixed dtype.",
        fires=("from_pretrained in a literal half dtype before the branch that chooses one",),
        fix="Move the test above from_pretrained, and let it choose the autocast dtype.",
        sources=("titan-why",),
    ),
    Rule(
        code="SCR118",
        slug="fp16-and-bf16",
        title="fp16 and bf16 are not both on",
        severity="fail",
        find=both_precisions,
        why="transformers refuses TrainingArguments with both.",
        fires=("fp16=True and bf16=True in one call",),
        fix="Remove one: bf16 on GPUs of compute capability 8.0 and later, else fp16.",
        sources=("ps-P1",),
        training=False,
    ),
)
