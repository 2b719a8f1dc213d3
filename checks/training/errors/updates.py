"""Optimizers, schedules and state dicts that do not fit the model."""

from __future__ import annotations

import re

from doctor._util.units import listed
from doctor.checks.training.errors.explanation import Explanation
from doctor.errors.tables import BY_ID
from doctor.facts.raised import Raised

KEYS = re.compile(r'"([^"]+)"')
SIZES = re.compile(
    r"size mismatch for ([\w.]+): copying a param with shape torch\.Size\((\[[\d, ]*\])\) from "
    r"checkpoint, the shape in current model is torch\.Size\((\[[\d, ]*\])\)"
)
INSIDE = ("model_state_dict", "state_dict", "model", "net", "module", "weights", "params")
"""Keys of a checkpoint under which the weights are saved."""
MOST = 4


def explain(raised: Raised) -> Explanation | None:
    if "loading state_dict" in raised.message:
        return _state_dict(raised.message)
    explanation = _parameters(raised) or _used_up(raised) or _schedule(raised)
    return explanation or _rate(raised) or _state(raised)


def _state_dict(message: str) -> Explanation | None:
    """Keys and shapes of the file against those of the model."""
    if sizes := SIZES.findall(message):
        return _of_another_shape(sizes)
    missing = _after("Missing key(s) in state_dict:", message)
    unexpected = _after("Unexpected key(s) in state_dict:", message)
    inside = next((name for name in INSIDE if name in unexpected), None)
    if inside and missing:
        return Explanation(
            f"the file holds a whole checkpoint with {', '.join(unexpected[:MOST])}",
            f"Load the weights in it: model.load_state_dict(checkpoint['{inside}']).",
        )
    if prefix := _prefix(unexpected, missing):
        return Explanation(
            f"the keys of the file begin with {prefix}",
            f"Remove the prefix: {{key.removeprefix('{prefix}'): value for key, value in "
            "state.items()}.",
        )
    if missing and not unexpected:
        return Explanation(
            f"the file lacks {', '.join(missing[:MOST])}",
            "If these layers are new, load with strict=False, which leaves them as they are "
            "initialized; else load the file into the model that wrote it.",
        )
    if unexpected and not missing:
        return Explanation(
            f"the model has no {', '.join(unexpected[:MOST])}",
            "If these layers were removed on purpose, load with strict=False; else build the model "
            "that wrote the file.",
        )
    if prefix := _prefix(missing, unexpected):
        return Explanation(
            f"the keys of the model begin with {prefix}, those of the file do not",
            f"Load the file into that part, model.{prefix.rstrip('.')}.load_state_dict(state), or "
            f"add the prefix: {{'{prefix}' + key: value for key, value in state.items()}}.",
        )
    return None


def _of_another_shape(sizes: list[tuple[str, str, str]]) -> Explanation:
    """Tensors with their shapes in the file and in the model."""
    names = [name for name, _, _ in sizes]
    name, there, here = sizes[0]
    return Explanation(
        f"of another shape in the file: {listed(names, MOST)} ({name} is {there} there, {here} "
        "here)",
        "Load the file into the model that wrote it, or leave out these tensors, as for a new "
        "head; strict=False alone does not do it:\n"
        "own = model.state_dict()\n"
        "state = {k: v for k, v in state.items() if k in own and v.shape == own[k].shape}\n"
        "model.load_state_dict(state, strict=False)",
    )


def _after(head: str, message: str) -> list[str]:
    """The quoted keys of the line that begins so."""
    return KEYS.findall(message.partition(head)[2].partition("\n")[0])


def _prefix(longer: list[str], shorter: list[str]) -> str:
    """What each of the longer names has in front of one of the shorter ones, "" if not all have."""
    if not shorter or len(longer) < len(shorter):
        return ""
    prefixes = {name[: -len(shorter[0])] for name in longer if name.endswith(f".{shorter[0]}")}
    for prefix in prefixes:
        if all(f"{prefix}{name}" in longer for name in shorter):
            return prefix
    return ""


def _parameters(raised: Raised) -> Explanation | None:
    """What an optimizer got for its parameters."""
    if shared := raised.observed.get("shared"):
        return Explanation(
            f"in two groups: {shared}",
            "Put each parameter into one group: leave those of the second group out of the first.\n"
            "ids = {id(p) for p in model.head.parameters()}\n"
            "rest = [p for p in model.parameters() if id(p) not in ids]",
        )
    params = raised.operand("params")
    if params is None or "iterable" not in raised.message:
        return None
    if params.shape is not None:
        return Explanation(
            "params is one tensor", "Pass a list, [parameter]: an optimizer takes an iterable."
        )
    if params.kind == "method":
        return Explanation("params is a method", "Call it: model.parameters(), with parentheses.")
    return Explanation(
        f"params is {params.value or params.kind}",
        "Pass model.parameters() to the optimizer instead of the model.",
    )


def _used_up(raised: Raised) -> Explanation | None:
    """A generator of parameters that is empty although the model has some."""
    models = raised.observed.get("models", "")
    if "empty parameter list" not in raised.message or not re.search(r"has [1-9]", models):
        return None
    params = raised.operand("params")
    if params is not None and params.kind == "list":
        return Explanation(
            f"the list of parameters is empty; {models}",
            "Look at the filter that makes the list: nothing passes it. If all parameters are "
            "frozen (0 trainable), call requires_grad_(True) on what is to train before that line.",
        )
    return Explanation(
        f"{models}",
        "Call model.parameters() again for the optimizer, or keep list(model.parameters()): it is "
        "a generator, which is empty after a loop or a sum over it. A filter may also leave "
        "nothing (requires_grad).",
    )


def _rate(raised: Raised) -> Explanation | None:
    """A number that is a text, as YAML reads 1e-4."""
    texts = [each for each in raised.operands if re.fullmatch(r"'[\d.eE+-]+'", each.value)]
    if not texts or "not supported between instances" not in raised.message:
        return None
    name, value = texts[0].name, texts[0].value
    return Explanation(
        f"{name} is the text {value}",
        f"Convert it, {name}=float(...). In YAML write 1.0e-4: without the point, 1e-4 is a text.",
    )


def _schedule(raised: Raised) -> Explanation | None:
    """The numbers of a schedule that cannot be stepped."""
    if not (text := raised.observed.get("schedule")):
        return None
    if raised.error == "ZeroDivisionError":
        return Explanation(
            text,
            "Give the schedule a number of steps above 0: T_max, step_size or total_steps is 0.",
        )
    if "total number of steps" in raised.message or "total steps" in raised.message:
        return Explanation(text, BY_ID["schedule-end"].fix)
    return None


def _state(raised: Raised) -> Explanation | None:
    """State of another parameter, or groups of another optimizer, that load_state_dict brought."""
    observed = raised.observed
    if state := observed.get("state"):
        return Explanation(
            f"in the state of {observed['optimizer']}, {state}",
            "Load the optimizer's state of this very model: load_state_dict compares only how many "
            "parameters a group has, not their shapes. To go on without it, start a new optimizer.",
        )
    if absent := observed.get("absent"):
        instead = f" and have {observed['instead']}" * bool(observed.get("instead"))
        return Explanation(
            f"the groups of {observed['optimizer']} lack {absent}{instead}",
            f"Load a state that {observed['optimizer']} saved: load_state_dict took these groups "
            "from another optimizer. To change the optimizer, start it without the old state.",
        )
    return None
