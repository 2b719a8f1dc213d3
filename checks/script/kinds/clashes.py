"""Places where a value of one kind meets another kind of the same dimension."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator

from doctor.checks.script import evaluate, objects
from doctor.checks.script.kinds import meetings, rows, uses
from doctor.checks.script.kinds.clash import Clash, clash
from doctor.checks.script.kinds.dimensions import KIND, OF, Kind, stated
from doctor.checks.script.kinds.flow import Flow, flow_of, place_of
from doctor.checks.script.kinds.known import CALL, DERIVED, NAME, Known, Place, before
from doctor.checks.script.kinds.made import is_function, of_module, receiver, short
from doctor.checks.script.kinds.needs import active
from doctor.checks.script.kinds.requirements import KEYWORDS, REQUIREMENTS, Requirement
from doctor.checks.script.kinds.sources import by_call
from doctor.checks.script.rule import Match
from doctor.checks.script.training import Training
from doctor.facts.script import Assignment, Call, Span, Value

STATED_BY_DERIVED = {
    "role",
    "spread",
    "angle",
    "time",
    "size",
    "dropped",
    "progress",
    "noise",
    "distance",
}
"""Dimensions in which what an operation makes of a name's kind is compared with another name."""
LOOSE = ({"distances", "squared distances"},)
"""Kinds that share their names."""
PLACES = ("set_device", "device", "DistributedDataParallel", "DDP", "cuda", "to", "FSDP",
          "FullyShardedDataParallel", "barrier")  # fmt: skip
"""What takes the number of a GPU."""
CHOOSING = ("gather", "scatter", "take_along_dim", "index_select")
"""What takes the indices of the entries that it chooses."""
OLDER = {("spread", DERIVED, "a variance"): "SCR322"}
"""What a rule of another package reports: exp(logvar) named std."""
GRAPHS = {"torch_geometric", "dgl", "networkx", "edge_index", "adj", "adjacency", "degree",
          "in_degrees", "out_degrees"}  # fmt: skip
"""Names of files whose degrees may be those of a graph's nodes."""
NOT_STATED = {"score", "share", "dropped"}
"""Dimensions whose words are used loosely: `logits = logits.softmax(-1)` harms nobody."""


def clashes(reading: Training) -> dict[str, list[Match]]:
    """All of a file, by the name of the dimension, or the code of a rule of another package."""
    flow = flow_of(reading)
    table: dict[str, list[Match]] = defaultdict(list)
    for find in (_required, _of_trainers, _keywords, _stated, meetings.found, uses.found):
        for each in find(flow):
            table[each.code or each.dimension].append(each.match)
    return table


FUNCTIONS = by_call(REQUIREMENTS, module=False)
OBJECTS = by_call(REQUIREMENTS, module=True)


def _required(flow: Flow) -> Iterator[Clash]:
    """Arguments of calls of libraries."""
    reading = flow.reading
    for name in FUNCTIONS.keys() & reading.by_method.keys():
        for number in reading.by_method[name]:
            call = reading.calls[number]
            for each in FUNCTIONS[name]:
                if _is_of(each, call):
                    yield from _argument(flow, each, call, short(call.name))
    if not reading.script.identifiers.isdisjoint(OBJECTS):
        yield from _required_by_objects(flow)


def _of_trainers(flow: Flow) -> Iterator[Clash]:
    """Trainer(train_dataset=...) and TrainingArguments(max_steps=...)."""
    reading = flow.reading
    for name, numbers in (("*Trainer", reading.trainers), ("*Arguments", reading.arguments)):
        for number in numbers:
            call = reading.calls[number]
            for each in FUNCTIONS[name]:
                yield from _argument(flow, each, call, call.method)


def _is_of(each: Requirement, call: Call) -> bool:
    if each.of:
        return is_function(call) and of_module(call.name, each.of)
    return not is_function(call) or (
        bool(call.receiver) and not call.name.startswith(("torch.", "numpy.", "math."))
    )


def _required_by_objects(flow: Flow) -> Iterator[Clash]:
    """Arguments of criterion(output, target) of criterion = nn.GaussianNLLLoss()."""
    reading = flow.reading
    held = {
        reading.key(target, reading.calls[n].scope)
        for n in reading.methods(*OBJECTS)
        for target in reading.calls[n].targets
    }
    for call in reading.calls:
        written = call.name.endswith("()") and call.method[:-2] in OBJECTS
        if not call.args or not (written or reading.key(call.name, call.scope) in held):
            continue
        makers = objects.callee(reading, call)
        made = makers[0] if len(makers) == 1 else None
        for each in OBJECTS.get(made.method, ()) if made is not None else ():
            if made is not None and of_module(made.name, each.of) and _holds(each, made):
                yield from _argument(flow, each, call, short(made.name))


def _holds(each: Requirement, made: Call) -> bool:
    if not each.when:
        return True
    value = made.keywords.get(each.when[0], made.args[0] if made.args else None)
    text = "None" if value is None else str(value.literal or value.name)
    return text in each.when[1:]


def _argument(flow: Flow, each: Requirement, call: Call, callee: str) -> Iterator[Clash]:
    if each.position == -1:
        value = receiver(call)
    else:
        value = evaluate.argument(flow.reading, call, each.name, each.position)
    chosen = call.keywords.keys() & set(each.unless) or (each.alone and len(call.args) > 1)
    if value is None or chosen:
        return
    dimension = each.dimension or OF[each.takes[0]].name
    known = flow.of_argument(value, call).get(dimension)
    if known is None or known.kind.name in each.takes or not _counts(flow, known, each, value):
        return
    if not each.takes:
        message = f"{callee} takes no {known.kind.name}, and gets them ({known.origin})"
        yield Clash(dimension, Match(call.span, message))
        return
    yield clash(call.span, f"{callee} takes", KIND[each.takes[0]], known, each.code, each.severity)


def _counts(flow: Flow, known: Known, each: Requirement, value: Value) -> bool:
    """Whether the evidence is enough: a call, or a name that is used for nothing else."""
    if known.evidence != NAME:
        return True
    if known.kind.name == "degrees" and GRAPHS & flow.reading.script.identifiers:
        return False
    sure = stated(value.name, sure=True).get(OF[known.kind.name].name) if value.name else None
    return each.named and sure is known.kind


def _keywords(flow: Flow) -> Iterator[Clash]:
    """Keywords that mean the same in every call, and those of unknown functions that state one."""
    possible = flow.reading.cached(active) - NOT_STATED
    for call in flow.reading.calls:
        for key, value in call.keywords.items():
            name = KEYWORDS.get(key)
            if name is not None:
                known = flow.of_argument(value, call).get(OF[name].name)
                if known is not None and known.kind.name != name and known.evidence >= DERIVED:
                    yield clash(call.span, f"{key} is", KIND[name], known, "SCR315")
            elif value.kind != "literal" and (kinds := _binding(key, possible)):
                yield from _compared(
                    flow, kinds, value, place_of(flow.reading, call), call.span, key
                )


def _binding(name: str, possible: frozenset[str]) -> dict[str, Kind]:
    return {k: v for k, v in stated(name).items() if k in possible}


def _stated(flow: Flow) -> Iterator[Clash]:
    """Names that state another kind than what is assigned to them."""
    possible = flow.reading.cached(active) - NOT_STATED
    for each in flow.reading.script.assignments:
        if each.augmented or each.value.kind == "literal":
            continue
        if not (kinds := _binding(each.target, possible)):
            continue
        if each.target in each.value.names or not _matters(flow, kinds, each):
            continue
        found = list(_compared(flow, kinds, each.value, before(each), each.span, each.target))
        if found and rows.suspect(flow, kinds, each):
            yield from found


def _matters(flow: Flow, kinds: dict[str, Kind], each: Assignment) -> bool:
    """Not in a test's own function; a rank that is named local chooses a device, and what chooses
    entries is an index, whatever its name."""
    if flow.reading.function(each.scope).name.startswith("test_"):
        return False
    if "label" in kinds and _is_passed(flow.reading, each, CHOOSING):
        return False
    local = kinds.get("rank")
    if local is None or local.name != "the local rank":
        return True
    return _is_passed(flow.reading, each, PLACES)


def _is_passed(reading: Training, each: Assignment, functions: Collection[str]) -> bool:
    """Whether the name is an argument of one of these."""
    last = each.target.rpartition(".")[2]
    calls = (reading.calls[n] for n in reading.methods(*functions))
    return any(
        name.rpartition(".")[2] == last
        for call in calls
        for value in (*call.args, *call.keywords.values())
        for name in value.all_names
    )


def _compared(
    flow: Flow, kinds: dict[str, Kind], value: Value, place: Place, span: Span, name: str
) -> Iterator[Clash]:
    found = flow.of(value, place)
    for dimension, kind in kinds.items():
        known = found.get(dimension)
        if known is None or known.kind is kind or {known.kind.name, kind.name} in LOOSE:
            continue
        enough = known.evidence == CALL or (
            known.evidence == DERIVED and dimension in STATED_BY_DERIVED
        )
        if enough:
            code = OLDER.get((dimension, known.evidence, known.kind.name), "")
            what = f"{name.rpartition('.')[2]} is by its name"
            yield clash(span, what, kind, known, code)
