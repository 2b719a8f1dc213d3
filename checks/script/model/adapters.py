"""A rule on adapters that are loaded or wrapped without being trained."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.checks.script import evaluate
from doctor.checks.script.lineage import PARAMETERS, WRAPPERS, lineage_of, lineage_of_value
from doctor.checks.script.model.parameters import LOOKS
from doctor.checks.script.rule import Match, Rule
from doctor.checks.script.training import Trained, Training
from doctor.facts.script import Assignment, Call

ADAPTS = {"get_peft_model", "add_adapter", "load_adapter", "prepare_model"}


def nothing_trains(reading: Training) -> Iterator[Match]:
    """Adapters that are frozen, and quantized weights without adapters."""
    yield from _frozen_with_base(reading)
    if reading.mentions("set_adapter", "unsloth", "fastlanguagemodel") or _switched(reading):
        return
    for number in reading.calls_where(lambda name: name.endswith("Config")):
        call = reading.calls[number]
        value = call.keywords.get("inference_mode")
        frozen = value is not None and value.literal is True and reading.trained
        if frozen and call.name.startswith("peft."):
            yield Match(call.span, "inference_mode=True freezes the adapters")
    yield from _prepared_late(reading)
    for trained in reading.trained:
        calls = [reading.calls[n] for n in trained.lineage.calls]
        methods = {call.method for call in calls}
        for call in calls if not methods & {"merge_and_unload", "get_peft_model"} else ():
            if call.name == "peft.PeftModel.from_pretrained" and _is_frozen(reading, call):
                yield Match(call.span, "the adapter is loaded frozen: is_trainable is False")
        adapted = methods & ADAPTS or any("peft" in call.name.casefold() for call in calls)
        if not adapted and any(is_quantized(reading, call) for call in calls):
            yield from _without_adapters(reading, trained)


def _switched(reading: Training) -> bool:
    """The file itself says what requires a gradient; a test of it changes nothing."""
    assigned = any(each.target.endswith(".requires_grad") for each in reading.assignments)
    return assigned or reading.mentions("requires_grad_", "setattr")


def _without_adapters(reading: Training, trained: Trained) -> Iterator[Match]:
    sink = reading.calls[trained.sink]
    known = trained.trainer and not sink.unpacked and "peft_config" not in sink.keywords
    if known and not reading.mentions("get_peft_model"):
        message = f"{trained.name} is quantized and has no adapters"
        yield Match(sink.span, message, undecided=_changes_elsewhere(reading, trained))


def _changes_elsewhere(reading: Training, trained: Trained) -> str:
    """Why another file may have given the model adapters, "" where none has it."""
    for number, call in enumerate(reading.calls[: trained.sink]):
        known = call.method in LOOKS | WRAPPERS or reading.target_function(call) is not None
        given = any(
            v.kind == "name" and reading.key(v.name, call.scope) in trained.lineage.names
            for v in call.values
        )
        if given and not known and number != trained.sink:
            return f"{call.name}() may add them"
    return ""


def _is_frozen(reading: Training, call: Call) -> bool:
    value = evaluate.argument(reading, call, "is_trainable", 3)
    if call.unpacked:
        return False
    return value is None or evaluate.truth(reading, value, call) is False


def is_quantized(reading: Training, call: Call) -> bool:
    """load_in_4bit=True for certain, also in a BitsAndBytesConfig."""
    if call.method != "from_pretrained":
        return False
    for key in ("load_in_4bit", "load_in_8bit"):
        if key in call.keywords and evaluate.truth(reading, call.keywords[key], call) is True:
            return True
    value = call.keywords.get("quantization_config")
    found = evaluate.options(reading, value, call)
    configs = reading.calls_of(found)
    return bool(configs) and len(configs) == len(found) and all(
        config.method == "BitsAndBytesConfig"
        and any(
            evaluate.truth(reading, config.keywords.get(key), config) is True
            for key in ("load_in_4bit", "load_in_8bit")
        )
        for config in configs
    )  # fmt: skip


HEADS = re.compile(r"""['"](?:classifier|score|head|lm_head|pooler|cls|fc|out_proj)\.?['"]""")
"""Parts of a name that no adapter has."""


def _frozen_with_base(reading: Training) -> Iterator[Match]:
    """All parameters of a PEFT model but its head are frozen: the adapters are among them."""
    wraps = set(reading.methods("get_peft_model"))
    tests = [b.test.text for b in reading.branches if b.test is not None]
    tests += [a.value.text for a in reading.assignments if a.value.kind == "test"]
    if not wraps or any(re.search("lora|adapter|modules_to_save|ia3", t.casefold()) for t in tests):
        return
    for each in reading.assignments:
        name = _loop_over_parameters(reading, each)
        if not name or not _leaves_out_adapters(reading, each):
            continue
        made = set(lineage_of(reading, name, each.scope, each.position).calls)
        if made & wraps and "merge_and_unload" not in {reading.calls[n].method for n in made}:
            yield Match(each.span, f"the adapters of {name} are frozen with the rest of it")
    for n, call in reading.numbered(reading.methods("requires_grad_")):
        name = re.sub(r"\.base_model(?:\.model)?$", "", call.receiver)
        if name and call.args and call.args[0].literal is False:
            made = set(lineage_of(reading, name, call.scope, n).calls)
            if made & wraps and not any(number > n for number in wraps):
                yield Match(call.span, f"the adapters of {name} are frozen with the rest of it")


def _loop_over_parameters(reading: Training, each: Assignment) -> str:
    """The model of `for name, p in model.named_parameters(): p.requires_grad = ...`."""
    if not each.target.endswith(".requires_grad") or not each.loops:
        return ""
    loop = reading.loops[each.loops[-1]]
    if loop.iterable is None or each.target.removesuffix(".requires_grad") not in loop.targets:
        return ""
    calls = [call for call in reading.inside(loop.iterable)]
    owners = [c.receiver for c in calls if c.method in PARAMETERS]
    return re.sub(r"\.base_model(?:\.model)?$", "", owners[0]) if len(owners) == 1 else ""


def _leaves_out_adapters(reading: Training, each: Assignment) -> bool:
    """What is assigned is False for an adapter, by the test of its name."""
    inner = [(reading.test_of(b), arm) for b, arm in each.arms]
    named = [(t, arm) for t, arm in inner if t is not None and " in " in t.text]
    if each.value.kind == "test":
        text = each.value.text
        return HEADS.search(text) is not None and " not in " not in text and not named
    if each.value.literal is not False or len(named) > 1:
        return False
    if not named:
        return not inner
    text, arm = named[0][0].text, named[0][1]
    excluded = " not in " in text or text.startswith("not ")
    return HEADS.search(text) is not None and excluded == (arm == 0)


def _prepared_late(reading: Training) -> Iterator[Match]:
    """prepare_model_for_kbit_training freezes everything, adapters included."""
    for number, call in reading.numbered(reading.methods("prepare_model_for_kbit_training")):
        if not call.args or call.args[0].kind != "name":
            continue
        lineage = lineage_of_value(reading, call.args[0], call.scope, number)
        before = {reading.calls[n].name for n in lineage.calls if n != number}
        if before & {"peft.get_peft_model", "peft.PeftModel.from_pretrained"}:
            later = [n for n in reading.methods("get_peft_model") if n > number]
            if not later:
                yield Match(call.span, "the adapters that the model has are frozen here")


RULES = (
    Rule(
        code="SCR275",
        slug="adapter-frozen",
        title="Adapters that train are trainable",
        severity="fail",
        find=nothing_trains,
        why="PeftModel.from_pretrained loads adapters for inference, inference_mode and "
        "prepare_model_for_kbit_training freeze them: backward() raises, or nothing changes.",
        fires=(
            "PeftModel.from_pretrained without is_trainable=True reaches an optimizer or a Trainer",
            "a configuration with inference_mode=True in a script that trains",
            "prepare_model_for_kbit_training on the result of get_peft_model",
            "requires_grad = False for all parameters of a PEFT model but those of its head",
            "a model loaded in 4 or 8 bits reaches a Trainer without adapters",
        ),
        fix="Pass is_trainable=True; prepare and freeze the model first, then call get_peft_model.",
        sources=("chinese-llama-alpaca-2-577", "transformers-26098", "peft-282"),
    ),
)
