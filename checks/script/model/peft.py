"""Rules on PEFT and gradient checkpointing."""

from __future__ import annotations

from collections.abc import Iterator

from doctor.checks.script import evaluate
from doctor.checks.script.casts import cast_dtype
from doctor.checks.script.lineage import lineage_of
from doctor.checks.script.opposites import apart
from doctor.checks.script.reading import exclusive
from doctor.checks.script.rule import Match, Rule, Severity
from doctor.checks.script.training import Training
from doctor.facts.script import Call, Value
from doctor.script.fixes import makers
from doctor.script.fixes.makers import Fix

ENABLE = ("gradient_checkpointing_enable", "activation_checkpointing_enable")
SWITCHES = ("gradient_checkpointing", "activation_checkpointing")
INPUT_GRADIENTS = (
    "enable_input_require_grads", "make_inputs_require_grad", "make_inputs_require_grads",
    "prepare_model_for_gradient_checkpointing", "prepare_model_for_kbit_training",
    "prepare_model_for_int8_training", "prepare_model_for_training",
    "prepare_model_for_half_training",
)  # fmt: skip


def _is_peft_model(call: Call) -> bool:
    return call.name.endswith("get_peft_model") and not call.name.startswith("unsloth")


def gives_input_gradients(reading: Training) -> bool:
    """Something makes the embedding's output require a gradient."""
    hooks = any(name in reading.functions_by_name for name in INPUT_GRADIENTS)
    return hooks or bool(reading.methods(*INPUT_GRADIENTS))


def checkpointing_after_peft(reading: Training) -> Iterator[Match]:
    wraps = [n for n in reading.methods("get_peft_model") if _is_peft_model(reading.calls[n])]
    fast = reading.mentions("fastlanguagemodel", "unsloth", "fastmodel")
    if any(reading.is_trl(reading.calls[n]) for n in reading.trainers):
        return
    if not wraps or fast or gives_input_gradients(reading):
        return
    severity: Severity = "note" if _is_5(reading.machine.transformers) else "fail"
    enabled = reading.methods(*ENABLE)
    for number, call in reading.numbered(enabled):
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
    lineage = lineage_of(reading, call.receiver, call.scope, number)
    return any(
        (n in lineage.calls or (n < number and _wraps(reading.calls[n], call)))
        and not apart(reading, reading.calls[n], call)
        for n in wraps
    )


def _wraps(wrap: Call, call: Call) -> bool:
    """It wraps the object that checkpointing is enabled on later: the two share their layers."""
    base = wrap.args[0].name if wrap.args else ""
    return wrap.scope == call.scope and bool(base) and base == call.receiver


def _enabled_before(reading: Training, number: int, wraps: list[int], enabled: list[int]) -> bool:
    """It was also enabled before, which turns input gradients on."""
    first = min(n for n in wraps)
    same = reading.calls[first].scope
    return any(n < first and reading.calls[n].scope == same for n in enabled if n != number)


def _not_reentrant(reading: Training, call: Call) -> bool:
    switches = (f"{switch}_kwargs" for switch in SWITCHES)
    results = [evaluate.argument(reading, call, name) for name in (*switches, "use_reentrant")]
    if call.method in ENABLE:
        results += call.args[:1]
    for value in filter(None, results):
        for option in evaluate.options(reading, value, call):
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
        value = next(
            filter(None, (evaluate.argument(reading, call, key) for key in SWITCHES)), None
        )
        if value is None:
            continue
        truth = evaluate.truth(reading, value, call)
        message = "TrainingArguments enables gradient checkpointing after get_peft_model"
        if all(reading.is_flagged(reading.calls[n]) for n in wraps):
            yield Match(call.span, message, undecided="a flag decides whether PEFT wraps the model")
        elif truth is True:
            yield Match(call.span, message, severity)
        elif truth is None:
            yield Match(call.span, message, undecided="a flag decides it")


def _is_5(version: str | None) -> bool:
    return version is not None and version.partition(".")[0] not in ("0", "1", "2", "3", "4")


def fresh_adapter(reading: Training) -> Iterator[Match]:
    wraps = {n for n in reading.methods("get_peft_model") if _is_peft_model(reading.calls[n])}
    if not wraps:
        return
    for number, call in reading.numbered(reading.methods("from_pretrained")):
        if not call.receiver.rpartition(".")[2].startswith("PeftModel") or not call.args:
            continue
        base = evaluate.argument(reading, call, "model", 0)
        if base is None or base.kind != "name" or "adapter_name" in call.keywords:
            continue
        lineage = lineage_of(reading, base.name, call.scope, number)
        merged = [n for n in lineage.calls if reading.calls[n].method == "merge_and_unload"]
        same = [n for n in lineage.calls if n in wraps and reading.calls[n].scope == call.scope]
        if same and not merged and not exclusive(reading.calls[same[0]].arms, call.arms):
            yield Match(call.span, "a saved adapter is loaded onto a model that already has one")


def cast_after_peft(reading: Training) -> Iterator[Match]:
    wraps = {n for n in reading.methods("get_peft_model") if _is_peft_model(reading.calls[n])}
    if not wraps or reading.has_master_weights:
        return
    for number, call in reading.numbered(reading.methods("half", "bfloat16", "to")):
        dtypes = cast_dtype(reading, call)
        if not call.receiver or not dtypes & {"bf16", "fp16"} or reading.is_evaluation(call):
            continue
        lineage = lineage_of(reading, call.receiver, call.scope, number)
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
    for each in reading.assignments:
        if each.value.kind != "call" or not each.target.endswith(".data") or not each.loops:
            continue
        call = reading.calls[each.value.call]
        iterable = reading.iterable_of(each)
        if not cast_dtype(reading, call) & {"bf16", "fp16"} or iterable is None:
            continue
        owners = [
            other
            for other in reading.inside(iterable)
            if other.method in ("named_parameters", "parameters")
        ]
        for owner in owners:
            lineage = lineage_of(reading, owner.receiver, each.scope, each.position - 1)
            tests = " ".join(test.text for test in reading.tests(each))
            if wraps & set(lineage.calls) and ("lora" in tests or "requires_grad" in tests):
                yield Match(call.span, "the adapters of a PEFT model are cast")


RULES = (
    Rule(
        code="SCR121",
        slug="checkpointing-after-peft",
        title="Gradient checkpointing is enabled before get_peft_model",
        severity="fail",
        find=checkpointing_after_peft,
        training=True,
        why="With transformers 4.31 to 4.57, reentrant checkpointing enabled after get_peft_model "
        "raises 'element 0 of tensors does not require grad': the frozen embedding's output needs "
        "no gradient. Before it, PEFT turns input gradients on.",
        fires=("checkpointing enabled after get_peft_model, reentrant, without input gradients",),
        fix='Pass gradient_checkpointing_kwargs={"use_reentrant": False}, call '
        "model.enable_input_require_grads(), or enable checkpointing before get_peft_model.",
        needs=("get_peft_model",),
        sources=("cbl-root", "cbl-fix"),
        limits="that the installed transformers is below 5, where both orders work.",
        fixes=Fix(makers.not_reentrant),
    ),
    Rule(
        code="SCR122",
        slug="peft-fresh-adapter-over-saved",
        title="A saved adapter is loaded onto the base model",
        severity="warn",
        find=fresh_adapter,
        training=True,
        why="PeftModel.from_pretrained on the result of get_peft_model nests two adapters: the "
        "fresh one stays in place under the saved one.",
        fires=("PeftModel.from_pretrained on an object that get_peft_model returned",),
        fix="Load the saved adapter onto the base model with is_trainable=True, without "
        "get_peft_model.",
        needs=("get_peft_model",),
        sources=("peft-2115",),
    ),
    Rule(
        code="SCR123",
        slug="cast-after-peft",
        title="Adapters keep their dtype",
        severity="warn",
        find=cast_after_peft,
        training=True,
        why="PEFT keeps adapters in fp32 over a half-precision base. A cast of the whole model "
        "after get_peft_model casts them, too: bf16 loses small updates, fp16 cannot be unscaled.",
        fires=("half(), bfloat16() or to(dtype) on the result of get_peft_model",),
        fix="Cast the base model before get_peft_model.",
        needs=("get_peft_model",),
        sources=("bts-fix7",),
    ),
)
