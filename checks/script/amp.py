"""Autocast and GradScaler: which are made, what they cover and in which dtype."""

from __future__ import annotations

from collections.abc import Iterator

from doctor.checks.script import evaluate
from doctor.checks.script.evaluate import UNDECIDED
from doctor.checks.script.reading import exclusive
from doctor.checks.script.training import Training
from doctor.facts.script import Call, Value

NOT_CUDA = {"cpu", "mps", "xpu", "hpu", "npu", "xla", "tpu"}
CLIPS = ("clip_grad_norm_", "clip_grad_norm", "clip_grad_value_")
OWN_CLIP = ("accelerator", "fabric", "self", "trainer", "engine", "strategy", "scaler")
FRAMEWORKS = (
    "accelerate", "deepspeed", "lightning", "pytorch_lightning", "lightning_fabric", "apex",
    "fairscale", "colossalai", "ignite",
)  # fmt: skip


def is_autocast(reading: Training, value: Value, position: int = -1) -> Call | str | None:
    """The call of autocast that a with item is, its name if no call of it is there, else None."""
    if value.kind == "call":
        return _autocast_call(reading, value)
    if value.kind == "choice":
        results = [is_autocast(reading, item, position) for item in value.items]
        return next((each for each in results if each is not None), None)
    if value.kind == "name":
        last = value.name.rpartition(".")[2].casefold()
        return value.name if last in ("autocast", "amp_autocast", "autocast_ctx") else None
    return None


def _autocast_call(reading: Training, value: Value) -> Call | str | None:
    call = reading.calls[value.call]
    if call.method in ("autocast", "cuda_amp_autocast"):
        return call
    if "autocast" in call.method.casefold() and "context_manager" not in call.method:
        function = reading.target_function(call)
        returns = reading.returns(function)
        return is_autocast(reading, returns[0]) if returns else call.name
    if call.receiver_call < 0 and "." not in call.name:
        return _held_by_name(reading, call)
    return None


def _held_by_name(reading: Training, call: Call) -> Call | str | None:
    """The class autocast, or a partial of it, that a variable holds which is called."""
    for option in evaluate.options(reading, Value("name", name=call.name), call):
        if option.kind == "name" and option.name.endswith(".autocast"):
            return option.name
        made = reading.call_of(option)
        if made is not None and made.method == "partial" and made.args:
            return made if made.args[0].name.endswith("autocast") else None
    return None


def context_autocast(reading: Training, call: Call) -> Call | str | None:
    """The innermost autocast around a call, None if there is none or it is disabled."""
    for number in reversed(call.contexts):
        context = reading.script.contexts[number]
        for option in _context_options(reading, context.value, call):
            results = is_autocast(reading, option)
            if results is not None:
                return None if is_disabled(reading, results) else results
    for decorator in reading.function(call.scope).decorators:
        results = is_autocast(reading, decorator)
        if results is not None and not is_disabled(reading, results):
            return results
    return None


def _context_options(reading: Training, value: Value, call: Call) -> list[Value]:
    return [value] if value.kind == "call" else [value, *evaluate.options(reading, value, call)]


def is_disabled(reading: Training, autocast: Call | str) -> bool:
    return not isinstance(autocast, str) and enabled(reading, autocast) is False


def enabled(reading: Training, call: Call) -> bool | None:
    """Whether an autocast or a scaler is enabled: True, False, None for undecided."""
    position = {"torch.cuda.amp.autocast": 0, "torch.cpu.amp.autocast": 0}.get(call.name)
    if call.method == "autocast" and call.name in ("torch.autocast", "torch.amp.autocast"):
        position = 2
    value = evaluate.argument(reading, call, "enabled", position)
    if value is None:
        return None if evaluate.unpacks_unknown(reading, call) else True
    return evaluate.truth(reading, value, call)


def autocast_dtypes(reading: Training, autocast: Call | str) -> set[str]:
    """Possible dtypes of an autocast on CUDA; the default there is fp16."""
    if isinstance(autocast, str) or autocast.method == "partial":
        return {UNDECIDED}
    call = autocast
    if call.name.startswith("torch.cpu"):
        return {"cpu"}
    if call.name not in ("torch.cuda.amp.autocast", "torch.autocast", "torch.amp.autocast"):
        return {UNDECIDED}
    value = evaluate.argument(reading, call, "dtype", 1)
    devices = {"cuda"} if call.name.startswith("torch.cuda") else _devices(reading, call)
    if devices <= NOT_CUDA:
        return {"cpu"}
    if value is not None:
        results = _by_default(reading, value, call) or evaluate.dtypes(reading, value, call)
        return {"fp16" if each == "default" else each for each in results}
    return (
        {UNDECIDED}
        if "cuda" not in devices or evaluate.unpacks_unknown(reading, call)
        else {"fp16"}
    )


def _by_default(reading: Training, value: Value, call: Call) -> set[str]:
    """The dtype that a command line argument chooses of a table or of two, by its default."""
    given = [value]
    if value.kind == "name":
        given = [a.value for a in evaluate.definitions_at(reading, value.name, call)]  # fmt: skip
    each = given[0] if len(given) == 1 else value
    if each.kind != "item" or len(each.items) != 2:
        return set()
    keys = evaluate.options(reading, each.items[1], call)
    chosen = [evaluate.flag_default(reading, key.name) for key in keys if key.kind == "name"]
    tables = evaluate.options(reading, each.items[0], call)
    found = [evaluate.entry(reading, table, str(key)) for table in tables for key in chosen]
    if len(chosen) < len(keys) or any(entry is None for entry in found):
        return set()
    return {evaluate.dtype(reading, entry) for entry in found if entry is not None}


def _devices(reading: Training, call: Call) -> set[str]:
    value = evaluate.argument(reading, call, "device_type", 0)
    if value is not None and value.kind == "name" and value.name.endswith((".type", ".device")):
        value = Value("name", name=value.name.removesuffix(".type"))
    results: set[str] = set()
    for option in evaluate.options(reading, value, call):
        made = reading.call_of(option)
        if made is not None and made.method == "device" and made.args:
            results |= {_device(each) for each in evaluate.options(reading, made.args[0], made)}
        else:
            results.add(_device(option))
    return results


def _device(value: Value) -> str:
    text = value.literal
    return text.partition(":")[0] if isinstance(text, str) else UNDECIDED


def autocasts(reading: Training) -> Iterator[int]:
    """Calls of torch's autocast that are not disabled."""
    for number, call in reading.numbered(reading.methods("autocast")):
        if call.name.startswith("torch.") and enabled(reading, call) is not False:
            yield number


def scalers(reading: Training) -> list[int]:
    """Calls that make a GradScaler."""
    return reading.calls_where(lambda name: name.endswith("GradScaler"))


def may_scale(reading: Training) -> bool:
    """A GradScaler may be at hand, as a parameter, an attribute or inherited.

    StandardScaler and the like of scikit-learn are other scalers.
    """
    if _is_unused(reading):
        return False
    if reading.mentions("gradscaler", "grad_scaler", "loss_scaler", "nativescaler", "amp_scaler"):
        return True
    return reading.mentions("scaler") and not reading.imports_from("sklearn")


def _is_unused(reading: Training) -> bool:
    """The file makes its scalers itself, scales nothing with them and hands them to nothing."""
    made = scalers(reading)
    names = {name for n in made for name in reading.calls[n].targets}
    if not names or reading.methods("scale") or any(not reading.calls[n].targets for n in made):
        return False
    if any("." in name for name in names) or reading.mentions("nativescaler", "amp_scaler"):
        return False
    return not any(
        names.intersection(value.all_names)
        for call in reading.calls
        for value in (*call.values, *call.unpacked)
        if call.method not in ("load_state_dict", "save")
    )


def scaled_backwards(reading: Training) -> list[tuple[int, str]]:
    """Calls of scaler.scale(loss).backward(), with the scaler's name."""
    results = []
    for number in reading.methods("backward"):
        scaled = scale_of(reading, reading.calls[number], number)
        if scaled is not None and reading.calls[scaled].receiver:
            results.append((number, reading.calls[scaled].receiver))
    return results


def scale_of(reading: Training, backward: Call, number: int) -> int | None:
    """The call scaler.scale(...) whose result a backward is called on."""
    inner = backward.receiver_call
    if inner >= 0:
        return inner if reading.calls[inner].method == "scale" else None
    if not backward.receiver:
        return None
    for each in evaluate.definitions(
        reading, backward.receiver, backward.scope, number, backward.arms
    ):
        if each.value.kind == "call" and reading.calls[each.value.call].method == "scale":
            return each.value.call
    return None


def is_clip(call: Call) -> bool:
    """A clip of gradients by torch or a model, not by a framework that unscales itself."""
    if call.method not in CLIPS:
        return False
    owner = call.receiver.rpartition(".")[2].casefold()
    return owner not in OWN_CLIP and "optim" not in owner and "scaler" not in owner


def on_scaler(reading: Training, scope: int, scaler: str, method: str) -> list[int]:
    """Calls of a method of the scaler in one function."""
    return [
        number
        for number in reading.methods(method)
        if reading.calls[number].scope == scope and reading.calls[number].receiver == scaler
    ]


def is_off(reading: Training, scaler: str, scope: int) -> bool | None:
    """Whether the scaler of this name is disabled: True, False, None where undecided."""
    key = reading.key(scaler, scope)
    states = {
        enabled(reading, reading.calls[each.value.call])
        for each in reading.assigned.get(key, ())
        if each.value.kind == "call" and reading.calls[each.value.call].method.endswith("Scaler")
    }
    if not states:
        return None
    return False if True in states else True if states == {False} else None


def same_path(reading: Training, *numbers: int) -> bool:
    """Whether all these calls may run in one execution."""
    calls = [reading.calls[number] for number in numbers]
    return not any(
        exclusive(one.arms, other.arms) for i, one in enumerate(calls) for other in calls[:i]
    )
