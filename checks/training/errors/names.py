"""Names, keys and arguments: what is None, absent, or another than the call expects."""

from __future__ import annotations

import re
from collections.abc import Callable

from doctor.checks.training.errors.explanation import Explanation, module
from doctor.errors.tables import BY_ID
from doctor.facts.raised import Raised


def explain(raised: Raised) -> Explanation | None:
    return next(filter(None, (explainer(raised) for explainer in EXPLAINERS)), None)


def nothing(raised: Raised) -> Explanation | None:
    """A value that is None, and where it comes from."""
    observed = raised.observed
    if "NoneType" not in raised.message:
        return None
    names = observed.get("none", "")
    if (returned := observed.get("returned None")) and "." not in names:
        name, kind = returned.split(", ")[-1].rstrip(")").split(" (", 1)
        return Explanation(
            f"{returned} returned None",
            f"Return the result at the end of forward of {kind} ({name}): without a return it is "
            "None.",
        )
    if not names:
        return None
    if function := observed.get("argument of"):
        first = names.partition(",")[0]
        return Explanation(
            f"{first} is None in {function}",
            f"Pass {first} to {function}, or handle that it is None before that line "
            f"(if {first} is not None).",
        )
    return Explanation(
        f"None: {names}",
        f"Look at where {names} is assigned: a function without return, dict.get of an absent key, "
        "or a layer that __init__ left out.",
    )


def tuples(raised: Raised) -> Explanation | None:
    """A layer that returns more than its output."""
    kind = re.search(
        r"must be Tensor, not (tuple|list)|'(tuple|list)' object has no", raised.message
    )
    if not kind or not (layer := raised.observed.get(f"returned {kind[1] or kind[2]}")):
        return None
    name = kind[1] or kind[2]
    if not re.search(r"LSTM|GRU|RNN|MultiheadAttention", layer):
        return Explanation(
            f"{layer} returns a {name}",
            f"Return the tensor alone from that forward, or take it out of the {name}, output[0]; "
            "for a criterion that needs a function loss(module, batch).",
        )
    return Explanation(
        f"{layer} returns a {name}",
        f"Take the tensor out of the {name} that {layer.partition(' (')[0]} returns: nn.LSTM and "
        "nn.GRU return (output, state), nn.MultiheadAttention (output, weights). In nn.Sequential "
        "that needs a module of its own, whose forward returns x[0].",
    )


def model_as_output(raised: Raised) -> Explanation | None:
    """A criterion of the user's own, which got the module where it expects the output."""
    if not (name := raised.observed.get("is the model")) or raised.error != "TypeError":
        return None
    return Explanation(
        f"{name} is the model",
        "Call the model in the loss: a function is called as loss(module, batch). Only an instance "
        "of nn.Module or a function of torch.nn.functional gets (output, target).\n"
        "return model, batch, lambda model, batch: criterion(model(batch[0]), batch[1])",
    )


def undefined(raised: Raised) -> Explanation | None:
    observed = raised.observed
    if "undefined" not in observed:
        return None
    close = observed.get("similar", "").partition(",")[0]
    name = observed["undefined"]
    if close:
        return Explanation(
            f"there is {observed['similar']}", f"Write {close} for {name} in that line."
        )
    return Explanation("", f"Import {name}, or assign it before that line.")


def attribute(raised: Raised) -> Explanation | None:
    observed = raised.observed
    if "lacks" not in observed:
        return None
    name, owner, close = observed["lacks"], observed["owner"], observed.get("similar", "")
    if owner == "AttributeDict":
        return None
    if container := observed.get("dict"):
        return Explanation(
            f"{container} is a dict", f"Write {container}['{name}'] for {container}.{name}."
        )
    members = observed.get("members", "")
    if name == "module" and "members" in observed:
        return Explanation(
            f"{owner} is not wrapped",
            "Leave out .module in that line: DistributedDataParallel and DataParallel hold the "
            "model under this name, and nothing wraps it here. Code for both takes "
            "getattr(model, 'module', model).",
        )
    if "read by" in observed:
        return _read_by_library(raised)
    if close:
        best = close.partition(",")[0]
        return Explanation(
            f"{owner} has {close}",
            f"Write {best} for {name} in that line"
            + (f", or give {owner} a {name} in __init__." if "members" in observed else "."),
        )
    if not members:
        return None
    return Explanation(
        f"{owner} has {members}",
        f"Create {name} in __init__ of {owner}, or use one of these names.",
    )


def _read_by_library(raised: Raised) -> Explanation:
    """A library that reads an attribute of a layer that took the place of its own."""
    observed = raised.observed
    name, owner = observed["lacks"], observed["owner"]
    reason = ""
    if raised.module_type.startswith("MultiheadAttention"):
        reason = " nn.MultiheadAttention reads out_proj.weight and never calls out_proj, so an "
        reason += "adapter there has no effect: adapt another layer."
    return Explanation(
        f"{observed['read by']} of a library reads {name} of {owner}, which has "
        f"{observed['members']}",
        f"Give {owner} a property {name} that returns that of the layer which it replaces, or keep "
        f"that layer.{reason}",
    )


def key(raised: Raised) -> Explanation | None:
    observed = raised.observed
    by_position = "sample" in observed and re.match(rf"{observed['sample']}\b", raised.message)
    if raised.error != "KeyError" or "keys" not in observed or by_position:
        return None
    close = observed.get("similar", "").partition(",")[0]
    first = f"Write '{close}' for {raised.message}" if close else "Use one of these keys"
    return Explanation(
        f"{observed['container']} has the keys {observed['keys']}",
        f"{first}, or add the field where {observed['container']} is made.",
    )


def parts(raised: Raised) -> Explanation | None:
    observed = raised.observed
    if "rows" in observed:
        return Explanation(
            f"{observed['container']} is a tensor of the shape {observed['shape']}",
            f"Unpacking goes along the first dimension, {observed['rows']} rows: transpose it "
            f"first ({observed['container']}.t()), or unbind the dimension that is meant, "
            ".unbind(-1).",
        )
    if "parts" not in observed:
        return None
    name, count = observed["container"], observed["count"]
    cause = f"{name} has {count} parts: {observed['parts']}"
    if "indices must be" in raised.message:
        return Explanation(
            cause,
            f"Use positions, {name}[0], or let the loader return a dict: {name} is no dict.",
        )
    return Explanation(
        cause, f"Assign as many names as {name} has parts, {count}; _ takes one that is not needed."
    )


def arguments(raised: Raised) -> Explanation | None:
    """A call with wrong arguments: what the function accepts."""
    observed = raised.observed
    if "accepts" not in observed:
        return None
    if "of the model" in observed:
        return _arguments_of_model(raised)
    keyword, close = observed.get("keyword", ""), observed.get("similar", "")
    renamed = RENAMED.get(keyword, "")
    if keyword and (renamed in observed["accepts"].split(", ") or close):
        name = renamed or close.partition(",")[0]
        return Explanation(f"it accepts {observed['accepts']}", f"Write {name}= for {keyword}=.")
    if missing := re.findall(r"'(\w+)'", raised.message.partition("required")[2]):
        return Explanation(
            f"it needs {observed['needs']}", f"Pass {' and '.join(missing)} in that line."
        )
    cause = f"it accepts {observed['accepts']}" + (
        f", and needs {observed['needs']}" * bool(observed["needs"])
    )
    return Explanation(
        cause,
        "Pass these arguments in that line. If the code was written for another version of the "
        "library, compare with the one that is installed (pip show).",
    )


RENAMED = {
    "evaluation_strategy": "eval_strategy",
    "tokenizer": "processing_class",
    "torch_dtype": "dtype",
    "hidden_size": "dim_feedforward",
    "dim_model": "d_model",
    "num_heads": "nhead",
}
"""Keyword -> its other name in torch or transformers, where the function accepts that."""


def _arguments_of_model(raised: Raised) -> Explanation:
    observed = raised.observed
    accepts, needs = observed["accepts"], observed["needs"]
    cause = f"forward accepts {accepts}"
    if observed.get("keyword") and accepts and ", " not in accepts:
        return Explanation(
            cause,
            f"Return a loss as the third value, (module, batch, loss): forward takes the whole "
            f"batch as its one argument {accepts}, and a dict is passed as module(**batch).\n"
            "return model, batch, lambda model, batch: model(batch)",
        )
    if keyword := observed.get("keyword"):
        passed = observed.get("passed", keyword)
        free = [each for each in accepts.split(", ") if each not in passed.split(", ")]
        name = observed.get("similar") or ", ".join(free)
        first = f"Rename {keyword} in the batch to {name}" if name else f"Remove {keyword}"
        return Explanation(
            f"{cause}; the batch has {passed}",
            f"{first}, or return (module, batch, loss) with a loss that picks the fields: a dict "
            "is passed as module(**batch).",
        )
    return Explanation(
        f"{cause}, and needs {needs}" if needs else cause,
        BY_ID["arguments-of-forward"].fix,
    )


def forward(raised: Raised) -> Explanation | None:
    owner = raised.observed.get("owner")
    if raised.error != "NotImplementedError" or not owner:
        return None
    if owner in ("ModuleList", "ModuleDict"):
        loop = "for layer in self.layers: x = layer(x)"
        return Explanation(
            f"{module(raised)} only holds layers",
            f"Call the layers one by one ({loop}), or hold them in nn.Sequential: {owner} has no "
            "forward.",
        )
    if "of the base" in raised.observed:
        return Explanation(
            f"the base class of {owner} has no forward",
            "Leave out super().forward() in that line: nn.Module defines no forward.",
        )
    if close := raised.observed.get("similar"):
        return Explanation(f"{owner} has {close}", f"Rename {close} to forward in {owner}.")
    return Explanation("", f"Define forward in {owner}, at the indentation of its __init__.")


def created(raised: Raised) -> Explanation | None:
    """A criterion that gets prediction and target when it is created."""
    name = re.fullmatch(r"(\w*Loss)\.__init__", raised.observed.get("through", ""))
    if not name or "is ambiguous" not in raised.message:
        return None
    return Explanation(
        f"{name[1]} gets the tensors where it is created",
        f"Create the criterion first, then call it: nn.{name[1]}()(prediction, target).",
    )


def shadowed(raised: Raised) -> Explanation | None:
    if tuple_name := raised.observed.get("a tuple"):
        return Explanation(
            f"{tuple_name} is a tuple with one member",
            f"Remove the comma at the end of the line that assigns {tuple_name}: it makes a tuple.",
        )
    if not (name := raised.observed.get("shadows")):
        return None
    return Explanation(
        f"an attribute hides a method of torch.nn.Module: {name}",
        f"Give the attribute {name} another name: nn.Module has methods of that name.",
    )


EXPLAINERS: tuple[Callable[[Raised], Explanation | None], ...] = (
    nothing, tuples, model_as_output, undefined, attribute, key, parts, arguments, forward, created,
    shadowed,
)  # fmt: skip
