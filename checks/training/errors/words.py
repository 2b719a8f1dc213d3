"""What was observed where an error was raised, in words: one clause for each kind."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from doctor.facts import observations as seen

MOST = 12


def listed(names: Iterable[str], most: int = MOST) -> str:
    every = list(names)
    return ", ".join(every[:most]) + ", ..." * (len(every) > most)


def positions(at: Sequence[Sequence[int]], count: int) -> str:
    """ ", at [0, 1] and [2, 3], ..."; "" if there are none."""
    shown = " and ".join(str(list(each)) for each in at)
    return f", at {shown}{', ...' * (count > len(at))}" if at else ""


def missing(each: seen.Missing) -> str:
    if each.dict_of:
        return f"{each.dict_of} is a dict, whose field is {each.dict_of}['{each.name}']"
    there = list(dict.fromkeys((*each.similar, *each.members)))
    has = {"name": "there is", "key": f"{each.owner} has the keys"}.get(
        each.kind, f"{each.owner} has"
    )
    return f"{has} {listed(there)}" if there else ""


def signature(each: seen.Signature) -> str:
    needs = f", and needs {listed(each.needs)}" if each.needs else ""
    passed = f"; it got {listed(each.passed)}" if each.passed else ""
    return f"it accepts {listed(each.accepts)}{needs}{passed}"


def parts(each: seen.Parts) -> str:
    if each.shape is not None:
        return f"{each.name} is a tensor of the shape {list(each.shape)}"
    return f"{each.name} has {each.count} parts: {listed(each.parts)}"


def hook(each: seen.Hook) -> str:
    function = f"{each.function} in {each.place}" if each.place else each.function
    return f"a hook is registered on {each.on}: {function}"


def index_range(each: seen.IndexRange) -> str:
    some = f"{', '.join(map(str, each.some))}{', ...' * (each.distinct > len(each.some))}"
    origin = f" in {each.origin}" if each.origin else ""
    return (
        f"{each.outside} of {each.values} values are {some}{positions(each.at, each.outside)}"
        f"{origin}; allowed are {allowed(each)}"
    )


def allowed(each: seen.IndexRange) -> str:
    return f"{each.least} {'or more' if each.size is None else f'to {each.size - 1}'}"


def violation(each: seen.Violation) -> str:
    of = "" if each.parameter == "value" else f" of {each.parameter}"
    span = "" if each.low is None else f": {each.low:.3g} to {each.high:.3g}"
    return (
        f"{each.violations} of {each.checked} {each.unit}{of} violate {each.constraint} of "
        f"{each.distribution}{span}"
    )


def own_function(each: seen.OwnFunction) -> str:
    arguments = "; ".join(
        f"{name} {'' if sizes is None else list(sizes)}".strip()
        for name, sizes in zip(each.arguments, each.shapes, strict=False)
    )
    outputs = "" if each.outputs is None else f" and returns {each.outputs} output"
    outputs += "s" * (each.outputs not in (None, 1))
    return (
        f"forward of {each.name} ({each.place}) takes {listed(each.parameters)}{outputs}; apply() "
        f"in {each.applied} passes {len(each.arguments)} ({arguments}); its backward is in "
        f"{each.backward}"
    )


def unequal(each: seen.UnequalSamples) -> str:
    field = f"{each.field} of " if each.field else ""
    return f"{field}the samples: {listed(str(list(sizes)) for sizes in each.sizes)}"


def absent(each: seen.AbsentInSamples) -> str:
    samples = f"sample {listed(map(str, each.samples))}"
    fields = listed(each.fields)
    if each.none:
        return f"{fields and fields + ' of '}{samples} is None"
    return f"{samples} lacks {fields}"


def sample(each: seen.Sample) -> str:
    claims = "" if each.length is None else f" has {each.length} samples by its __len__ and"
    return f"{each.dataset}{claims} raises for sample {each.index}"


def inputs(each: seen.TransformerInputs) -> str:
    if not each.refused:
        return ""
    got = {0: "neither of input_ids and inputs_embeds", 1: "one of them", 2: "both"}
    who = "the decoder" if each.decoder else "the model"
    labels = ", and the Trainer with label_smoothing_factor takes the labels out"
    return (
        f"{who} gets {got[each.ids + each.embeddings]}; passed are "
        f"{listed(each.passed) or 'no tensors'}{labels * each.smooths_labels}"
    )


def saved(each: seen.Saved) -> str:
    changed = f" that {listed(map(str, each.changed), 3)} changes" if each.changed else ""
    names = f"; parameters that it changes: {listed(each.parameters, 3)}" if each.parameters else ""
    return (
        f"the backward pass of {each.operation} in {each.line} needs a value"
        f"{changed or ' that was changed since'}{names}"
    )


KEPT = {
    "training": "kept from step to step with its graph",
    "once": "computed once, with its graph, and kept for all steps",
    "batch": "computed once, with a graph, before the first step",
    "copied": "attributes with a graph",
}
KINDS = {
    "model": "is the model",
    "packed": "is a PackedSequence",
    "one-tuple": "is a tuple with one member: a comma at the end of a line makes it",
    "attribute": "is an attribute that hides the method of torch.nn.Module of that name",
}


def state_keys(each: seen.StateKeys) -> str:
    lacks = f"the file lacks {listed(each.missing, 4)}" if each.missing else ""
    more = f"the model has no {listed(each.unexpected, 4)}" if each.unexpected else ""
    return "; ".join(filter(None, (lacks, more)))


def groups(each: seen.OptimizerGroups) -> str:
    others = f" and have {listed(each.others)}" if each.others else ""
    return f"the groups of {each.optimizer} lack {listed(each.absent)}{others}"


WORDS: dict[type[Any], Callable[[Any], str]] = {
    seen.NoneValue: lambda each: (
        f"{each.name} is None{f' in {each.function}' if each.function else ''}"
    ),
    seen.Variable: lambda each: f"{each.name} {KINDS[each.kind]}",
    seen.Parts: parts,
    seen.IndexRange: index_range,
    seen.ZeroDivisor: lambda each: (
        f"{each.zeros} of {each.values} values of the divisor are 0{positions(each.at, each.zeros)}"
    ),
    seen.Violation: violation,
    seen.Missing: missing,
    seen.Signature: signature,
    seen.Hook: hook,
    seen.OwnFunction: own_function,
    seen.UnequalSamples: unequal,
    seen.AbsentInSamples: absent,
    seen.Sample: sample,
    seen.TransformerInputs: inputs,
    seen.Saved: saved,
    seen.Operation: lambda each: f"{each.name} is in {each.line}",
    seen.NoGradFunction: lambda each: f"{each.function} runs without gradients",
    seen.BackwardCall: lambda each: f"the code calls backward() in {each.line}",
    seen.KeptGraph: lambda each: f"{KEPT[each.where]}: {listed(each.names, 3)}",
    seen.StateKeys: state_keys,
    seen.OptimizerState: lambda each: (
        f"in the state of {each.optimizer}, {each.key} of {each.parameter} is {list(each.shape)}, "
        f"the parameter {list(each.required)}"
    ),
    seen.OptimizerGroups: groups,
    seen.SharedParameters: lambda each: f"in two groups: {listed(each.names)}",
    seen.ParameterCount: lambda each: (
        f"{each.model} has {each.parameters} parameters, {each.trainable} trainable"
        f"{': ' * bool(each.held)}{each.held}"
    ),
    seen.Schedule: lambda each: f"{each.kind} with " + ", ".join(
        f"{name}={value:g}" for name, value in each.numbers.items()
    ),
    seen.LinearModules: lambda each: f"linear modules of this model: {listed(each.names)}",
    seen.Unread: lambda each: f"not read: {each.kind}, {each.reason}",
}  # fmt: skip
"""Kind of an observation -> its clause. The others are read by proofs alone."""


def words(observation: object) -> str:
    """ "" if it is nothing by itself."""
    write = WORDS.get(type(observation))
    return write(observation) if write else ""
