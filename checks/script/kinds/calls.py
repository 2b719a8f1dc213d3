"""What a function of torch or numpy, or a method, leaves of the kinds of what it gets."""

from __future__ import annotations

import re
from collections.abc import Callable

from doctor.checks.script import evaluate
from doctor.checks.script.kinds import arithmetic, conversions, parts
from doctor.checks.script.kinds.arithmetic import made_of
from doctor.checks.script.kinds.dimensions import KIND
from doctor.checks.script.kinds.known import CALL, Follower, Kinds, Known, Place, agreed
from doctor.checks.script.kinds.made import is_function, of_module, receiver
from doctor.checks.script.reading import Reading
from doctor.facts.script import Call, Value

BUILT_IN = {"int", "float", "round", "abs"}
LIBRARIES = "torch numpy math torchvision copy PIL jax cv2 scipy librosa"


def kept(flow: Follower, call: Call, place: Place, depth: int) -> Kinds | None:
    """The kinds of the result; None for a function that is not known."""
    library = is_function(call) and (of_module(call.name, LIBRARIES) or call.name in BUILT_IN)
    handler = HANDLERS.get(call.method)
    inner = call.args[0] if library and call.args else receiver(call)
    if call.method == "DataLoader":
        return _loaded(flow, call, place, depth)
    if handler is None or inner is None or (library and not call.args):
        return None
    return handler(flow, call, inner, call.args[int(library) :], place, depth)


BUILDERS = re.compile(r"(?:build|make|get|create)_(?:data_?)?loader")
PART = re.compile(r"\btrain(?=_|set|data|\b)")
OTHER_PARTS = {"val": "val", "valid": "valid", "validation": "valid", "dev": "valid",
               "test": "test", "eval": "eval"}  # fmt: skip
"""What a call says of the part that it loads, and how the data of that part are named."""


def reads_other_part(reading: Reading, call: Call) -> bool:
    """build_loader(self.train_set, "dev"), where there is a valid_set, too."""
    first = call.first
    if BUILDERS.fullmatch(call.method) is None or first is None or not first.name:
        return False
    name = first.name.rpartition(".")[2]
    said = {OTHER_PARTS.get(str(value.literal)) for value in call.values} - {None}
    return any(PART.sub(str(part), name, count=1) in reading.script.identifiers - {name}
               for part in said)  # fmt: skip


def _loaded(flow: Follower, call: Call, place: Place, depth: int) -> Kinds:
    """The rows of a DataLoader, unless a sampler chooses some."""
    chosen = {"sampler", "batch_sampler"} & call.keywords.keys()
    found = flow.of(call.args[0], place, depth) if call.args and not chosen else {}
    return parts.only(found, "role")


Rest = tuple[Value, ...]


def _triangle(
    flow: Follower, call: Call, inner: Value, rest: Rest, place: Place, depth: int
) -> Kinds:
    """tril(ones) is True for what attention may see, triu(ones, 1) for the other places."""
    made = flow.reading.calls[inner.call] if inner.kind == "call" else None
    if made is None or made.name != "torch.ones":
        return {}
    given = evaluate.argument(flow.reading, call, "diagonal", 1)
    if call.method == "tril" and given is None:
        return {"mask": Known(KIND["True for tokens"], "tril()", CALL)}
    if call.method == "triu" and given is not None and given.literal == 1:
        return {"mask": Known(KIND["True for what is ignored"], "triu()", CALL)}
    return {}


def _joined(
    flow: Follower, call: Call, inner: Value, rest: Rest, place: Place, depth: int
) -> Kinds:
    if inner.kind != "list":
        return {}
    found = agreed([flow.of(each, place, depth) for each in inner.items])
    return parts.without(found, "plane", "form")


def _power(flow: Follower, call: Call, inner: Value, rest: Rest, place: Place, depth: int) -> Kinds:
    return arithmetic.power(flow, inner, rest, place, depth)


def _equal(flow: Follower, call: Call, inner: Value, rest: Rest, place: Place, depth: int) -> Kinds:
    mask = parts.only(flow.of(inner, place, depth), "mask")
    return made_of(mask, "complement") if call.method == "eq" else mask


def _converted(
    flow: Follower, call: Call, inner: Value, rest: Rest, place: Place, depth: int
) -> Kinds:
    """exp, log, sqrt and the like; a mean keeps units, too."""
    found = flow.of(inner, place, depth)
    made = made_of(found, conversions.OPERATIONS[call.method])
    if made or call.method not in conversions.KEPT_BY:
        return made
    return parts.only(found, *conversions.KEPT_BY[call.method])


def _pooled(
    flow: Follower, call: Call, inner: Value, rest: Rest, place: Place, depth: int
) -> Kinds:
    return parts.only(flow.of(inner, place, depth), *conversions.KEPT_BY["mean"])


def _reshaped(
    flow: Follower, call: Call, inner: Value, rest: Rest, place: Place, depth: int
) -> Kinds:
    return parts.reshaped(flow.of(inner, place, depth), call, rest)


def _tensor(
    flow: Follower, call: Call, inner: Value, rest: Rest, place: Place, depth: int
) -> Kinds:
    return parts.to_tensor(flow.of(inner, place, depth), call)


def _same(flow: Follower, call: Call, inner: Value, rest: Rest, place: Place, depth: int) -> Kinds:
    found = flow.of(inner, place, depth)
    return parts.without(found, *conversions.LOST_BY.get(call.method, ()))


def _formed(
    flow: Follower, call: Call, inner: Value, rest: Rest, place: Place, depth: int
) -> Kinds:
    """np.array(image), torch.from_numpy(array), Image.fromarray(array)."""
    found = flow.of(inner, place, depth)
    form = conversions.FORMS[call.method]
    before = found.get("form")
    found = {**found, "form": Known(KIND[form], f"{call.method}()", CALL)}
    if form == "PIL image":
        return parts.without(found, "layout")
    if form == "array" and before is not None and before.kind.name == "PIL image":
        found["layout"] = Known(KIND["channels last"], "the array of a PIL image", CALL)
    return found


Handler = Callable[[Follower, Call, Value, Rest, Place, int], Kinds]
HANDLERS: dict[str, Handler] = {
    **dict.fromkeys(conversions.ALL, _same),
    **dict.fromkeys(conversions.RESHAPES, _reshaped),
    **dict.fromkeys(conversions.POOLS, _pooled),
    **dict.fromkeys(conversions.OPERATIONS, _converted),
    **dict.fromkeys(conversions.FORMS, _formed),
    **dict.fromkeys(conversions.JOINS, _joined),
    **dict.fromkeys(("tril", "triu"), _triangle),
    **dict.fromkeys(("eq", "ne"), _equal),
    **dict.fromkeys(("to_tensor", "ToTensor"), _tensor),
    "pow": _power,
}
