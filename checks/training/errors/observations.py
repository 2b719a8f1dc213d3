"""Errors that a name, a key, a sample or a place explains which was observed beside them."""

from __future__ import annotations

import re
from collections.abc import Callable

from doctor.checks.training import own_cuts
from doctor.checks.training.errors.explanation import Explanation, module
from doctor.checks.training.errors.fixes import FORWARD_FIX
from doctor.facts.raised import Raised


def explain(raised: Raised) -> Explanation | None:
    return next(filter(None, (explainer(raised) for explainer in EXPLAINERS)), None)


def nothing(raised: Raised) -> Explanation | None:
    """A value that is None, and where it comes from."""
    seen = raised.observed
    if "NoneType" not in raised.message:
        return None
    if returned := seen.get("returned None"):
        name, kind = returned.split(", ")[-1].rstrip(")").split(" (", 1)
        return Explanation(
            f"{returned} returned None",
            f"Return the result at the end of forward of {kind} ({name}): without a return it is "
            "None.",
        )
    names = seen.get("none")
    if not names:
        return None
    if function := seen.get("argument of"):
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
    return Explanation(
        f"{layer} returns a {name}",
        f"Take the tensor out of the {name} that {layer.partition(' (')[0]} returns: nn.LSTM and "
        "nn.GRU return (output, state), nn.MultiheadAttention (output, weights). In nn.Sequential "
        "that needs a module of its own, whose forward returns x[0].",
    )


def twice(raised: Raised) -> Explanation | None:
    """A graph that was freed: by the code's own backward(), or by the step before."""
    seen = raised.observed
    if "a second time" not in raised.message:
        return None
    if place := seen.get("calls backward"):
        return Explanation(
            f"the code calls backward() in {place}",
            f"Return the loss before backward() is called: leave out {place.partition(' (')[0]}, the "
            "doctor calls it. If the code needs a gradient there on purpose, pass "
            "retain_graph=True, or compute the loss that it returns with a new forward pass.",
        )
    if kept := seen.get("kept"):
        first = kept.partition(",")[0]
        return Explanation(
            f"kept from step to step with its graph: {kept}",
            f"Detach {first} where it is kept, {first} = {first}.detach(): backward() of the step "
            "that made it has freed its graph. What is computed once from parameters belongs into "
            "forward.",
        )
    return None


def used_up(raised: Raised) -> Explanation | None:
    """A generator of parameters that is empty although the model has some."""
    models = raised.observed.get("models", "")
    if "empty parameter list" not in raised.message or not re.search(r"has [1-9]", models):
        return None
    return Explanation(
        f"{models} parameters",
        "Call model.parameters() again for the optimizer, or keep list(model.parameters()): it is "
        "a generator, which is empty after a loop or a sum over it. A filter may also leave "
        "nothing (requires_grad).",
    )


def undefined(raised: Raised) -> Explanation | None:
    seen = raised.observed
    if "undefined" not in seen:
        return None
    close = seen.get("similar", "").partition(",")[0]
    name = seen["undefined"]
    if close:
        return Explanation(f"there is {seen['similar']}", f"Write {close} for {name} in that line.")
    return Explanation("", f"Import {name}, or assign it before that line.")


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


def recurrent(raised: Raised) -> Explanation | None:
    """The size of the features or of the state that nn.RNN, nn.LSTM or nn.GRU got."""
    layer = re.match(r"(LSTM|GRU|RNN)\((\d+), (\d+)", raised.module_type)
    if not layer:
        return None
    sizes = dict(re.findall(r"(\w+) \[([\d, ]*)\]", raised.observed.get("inputs", "")))
    x = [int(each) for each in sizes.get("input", "").split(",") if each.strip()]
    where = module(raised)
    if "input_size" in raised.message and x:
        return Explanation(
            f"{where} takes {layer[2]} features, the last dimension of its input has {x[-1]}",
            f"Set input_size={x[-1]} in {where}, or give it an input with {layer[2]} in the last "
            "dimension.",
        )
    state = re.search(r"Expected hidden(?:\[\d\])? size \((\d+), (\d+), (\d+)\), got \[(\d+), (\d+)",
                      raised.message)  # fmt: skip
    if not state or len(x) != 3:
        return None
    expected, got = int(state[2]), int(state[5])
    if raised.observed.get("batch_first") == "False" and got == x[0] != x[1]:
        return Explanation(
            f"{where} takes the input {x} as [time, batch, features], the state is for {got} samples",
            f"Pass batch_first=True to {where}: the batch is the first dimension of its input.",
        )
    return Explanation(
        f"the state is for {got} samples, the batch has {expected}",
        f"Create the state for the batch at hand, with {expected} in its second dimension "
        "(x.size(0) with batch_first=True), or pass none: it is zeros then. The last batch of a "
        "DataLoader is smaller.",
    )


def attribute(raised: Raised) -> Explanation | None:
    seen = raised.observed
    if "lacks" not in seen:
        return None
    name, owner, close = seen["lacks"], seen["owner"], seen.get("similar", "")
    if owner == "AttributeDict":
        return None
    members = seen.get("members", "")
    if close:
        best = close.partition(",")[0]
        return Explanation(
            f"{owner} has {close}",
            f"Write {best} for {name} in that line, or give {owner} a {name} in __init__.",
        )
    if not members:
        return None
    return Explanation(
        f"{owner} has {members}",
        f"Create {name} in __init__ of {owner}, or use one of these names.",
    )


def key(raised: Raised) -> Explanation | None:
    seen = raised.observed
    if raised.error != "KeyError" or "keys" not in seen or "sample" in seen:
        return None
    close = seen.get("similar", "").partition(",")[0]
    first = f"Write '{close}' for {raised.message}" if close else "Use one of these keys"
    return Explanation(
        f"{seen['container']} has the keys {seen['keys']}",
        f"{first}, or add the field where {seen['container']} is made.",
    )


def parts(raised: Raised) -> Explanation | None:
    seen = raised.observed
    if "parts" not in seen:
        return None
    name, count = seen["container"], seen["count"]
    cause = f"{name} has {count} parts: {seen['parts']}"
    if "indices must be" in raised.message:
        return Explanation(
            cause, f"Use positions, {name}[0], or let the loader return a dict: {name} is a list or "
            "tuple."
        )  # fmt: skip
    return Explanation(
        cause, f"Assign as many names as {name} has parts, {count}; _ takes one that is not needed."
    )


def arguments(raised: Raised) -> Explanation | None:
    """A call with wrong arguments: what the function accepts."""
    seen = raised.observed
    if "accepts" not in seen:
        return None
    if "of the model" in seen:
        return _arguments_of_model(raised)
    keyword, close = seen.get("keyword", ""), seen.get("similar", "")
    renamed = RENAMED.get(keyword, "")
    if keyword and (renamed in seen["accepts"].split(", ") or close):
        name = renamed or close.partition(",")[0]
        return Explanation(f"it accepts {seen['accepts']}", f"Write {name}= for {keyword}=.")
    cause = f"it accepts {seen['accepts']}" + (f", and needs {seen['needs']}" * bool(seen["needs"]))
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
    seen = raised.observed
    accepts, needs = seen["accepts"], seen["needs"]
    cause = f"forward accepts {accepts}"
    if seen.get("keyword") and accepts and ", " not in accepts:
        return Explanation(
            cause,
            f"Return a loss as the third value, (module, batch, loss): forward takes the whole batch "
            f"as its one argument {accepts}, and a dict is passed as module(**batch).\n"
            "return model, batch, lambda model, batch: model(batch)",
        )
    if keyword := seen.get("keyword"):
        passed = seen.get("passed", keyword)
        free = [each for each in accepts.split(", ") if each not in passed.split(", ")]
        name = seen.get("similar") or ", ".join(free)
        first = f"Rename {keyword} in the batch to {name}" if name else f"Remove {keyword}"
        return Explanation(
            f"{cause}; the batch has {passed}",
            f"{first}, or return (module, batch, loss) with a loss that picks the fields: a dict "
            "is passed as module(**batch).",
        )
    return Explanation(
        f"{cause}, and needs {needs}" if needs else cause,
        FORWARD_FIX,
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
    if close := raised.observed.get("similar"):
        return Explanation(f"{owner} has {close}", f"Rename {close} to forward in {owner}.")
    return Explanation("", f"Define forward in {owner}, at the indentation of its __init__.")


def sample(raised: Raised) -> Explanation | None:
    """What differs between the samples of a batch, or the sample that does not exist."""
    seen = raised.observed
    if incomplete := seen.get("incomplete"):
        return Explanation(
            incomplete,
            "Return the same keys from __getitem__ for every sample, with a default where there is "
            "no value: torch's collate function takes the keys of the first sample.",
        )
    if none := seen.get("none in"):
        return Explanation(
            f"{none} is None",
            "Let __getitem__ return a value for every sample, or leave such samples out in "
            "collate_fn.",
        )
    if unequal := seen.get("unequal"):
        return Explanation(
            unequal,
            "Pad or resize the samples of a batch to one size in collate_fn "
            "(torch.nn.utils.rnn.pad_sequence for sequences, a transform for images, a data "
            "collator of transformers for texts).",
        )
    if "sample" not in seen or raised.error not in ("IndexError", "KeyError"):
        return None
    number, dataset, length = seen["sample"], seen["dataset"], seen.get("length")
    claims = f" has {length} samples by its __len__, and" if length else ":"
    cause = f"{dataset}{claims} sample {number} raises {raised.error}"
    if raised.error == "KeyError":
        return Explanation(
            cause,
            "Read the rows by position in __getitem__: numbers from 0 to len - 1 are asked for. A "
            "DataFrame gives rows by .iloc[index], or reset_index(drop=True) after a filter; of a "
            "dict, list(rows)[index] is a key.",
        )
    return Explanation(
        cause,
        f"Let __len__ of {dataset} return the number of samples that __getitem__ can read: sample "
        f"{number} fails, so it is at most {number}.",
    )


def overwritten(raised: Raised) -> Explanation | None:
    """A value that autograd needs and that was changed after it was saved."""
    seen = raised.observed
    if "saved" not in seen:
        return None
    operation = re.sub(r"Backward\d*$", "", seen["operation"])
    saved, changed = seen["saved"], seen.get("changed")
    if not changed:
        return Explanation(
            f"the backward pass of {operation} in {saved} needs a value that was changed since",
            "Look for what changes a value of that line in place after it (x += y, x[i] = y, relu_, "
            "an embedding with max_norm, optimizer.step()), and make it return a new tensor.",
        )
    cause = f"the backward pass of {operation} in {saved} needs a value that {changed} changes"
    if names := seen.get("parameters"):
        stepped = "Do not change parameters between a forward pass and its backward pass: call "
        stepped += "backward() for every loss first and step the optimizers then, or compute the "
        stepped += "second loss with a new forward pass."
        renewed = f"Do not change {names} between a forward pass and its backward pass. An "
        renewed += "nn.Embedding with max_norm renormalizes its table at each call: use "
        renewed += "weight.clone() where the table itself is used."
        return Explanation(
            f"{cause}; parameters that it changes: {names}",
            stepped if ".step(" in changed else renewed,
        )
    return Explanation(
        cause,
        f"Write {changed.partition(' (')[0]} without an in-place change: "
        "x = x + y for x += y, torch.cat, torch.stack or torch.where for x[i] = y, or work on "
        "x.clone().",
    )


def no_graph(raised: Raised) -> Explanation | None:
    if not raised.cuts or "does not require grad" not in raised.message:
        return None
    fix = own_cuts.fix(raised.cuts)
    if function := raised.observed.get("decorated"):
        fix = f"Remove the decorator that runs {function} without gradients (torch.no_grad(), or "
        fix += "torch.inference_mode()): the loss is computed there."
    return Explanation(own_cuts.clause(raised.cuts), fix)


def hook(raised: Raised) -> Explanation | None:
    if not (hooks := raised.observed.get("hooks")):
        return None
    return Explanation(
        f"a hook is registered on {hooks}",
        "Return a gradient of the same shape from the hook, or None to leave it as it is.",
    )


def layout(raised: Raised) -> Explanation | None:
    """A layer that takes the first dimension for time although the batch comes first."""
    seen = raised.observed
    if seen.get("batch_first") != "False":
        return None
    shapes = {
        name: [int(each) for each in sizes.split(",") if each.strip()]
        for name, sizes in re.findall(r"(\w+) \[([\d, ]*)\]", seen.get("inputs", ""))
    }
    x = next((sizes for name, sizes in shapes.items() if len(sizes) == 3), None)
    mask = next((sizes for name, sizes in shapes.items() if "padding_mask" in name), None)
    if x is None or mask != x[:2] or mask == [x[1], x[0]]:
        return None
    where = raised.module or "the layer"
    return Explanation(
        f"{where} takes {x} as [time, batch, features], and the mask {mask} as [batch, time]",
        "Pass batch_first=True to the layer (nn.MultiheadAttention, nn.TransformerEncoderLayer): the "
        "batch is the first dimension of the input.",
    )


def copied(raised: Raised) -> Explanation | None:
    if not (names := raised.observed.get("with graph")):
        return None
    return Explanation(
        f"attributes with a graph: {names}",
        f"Detach what the model keeps ({names} = value.detach()), or copy it before its first "
        "forward pass.",
    )


def adapters(raised: Raised) -> Explanation | None:
    if not (names := raised.observed.get("linear")):
        return None
    return Explanation(
        f"linear modules of this model: {names}",
        f"Choose target_modules among {names}, or pass target_modules='all-linear'.",
    )


def created(raised: Raised) -> Explanation | None:
    """A criterion that gets prediction and target when it is created."""
    name = re.fullmatch(r"(\w*Loss)\.__init__", raised.observed.get("through", ""))
    if not name or "is ambiguous" not in raised.message:
        return None
    return Explanation(
        f"{name[1]} gets the tensors where it is created",
        f"Create the criterion first, then call it: nn.{name[1]}()(prediction, target).",
    )


def leaf(raised: Raised) -> Explanation | None:
    """A parameter that the forward pass changes in place."""
    if "leaf Variable that requires grad" not in raised.message:
        return None
    if "a view of a leaf" in raised.message:
        return Explanation(
            "the tensor that is written to is a view of a parameter (expand, a slice, view)",
            "Call clone() on the view before it is written to, as in x = parameter.expand(n, -1)"
            ".clone(): a new tensor passes the gradient on.",
        )
    name = next((each.parameter for each in raised.operands if each.parameter), "the parameter")
    return Explanation(
        f"{raised.function} changes {name} in place" if raised.function else "",
        f"Change {name} under torch.no_grad() (with torch.no_grad(): ...), after optimizer.step() "
        f"rather than in forward. To compute with changed values, make a new tensor: clamp for "
        "clamp_, x + y for x += y.",
    )


def length(raised: Raised) -> Explanation | None:
    match = re.search(r"object of type '(\w+)' has no len\(\)", raised.message)
    if not match or not re.match("DataLoader|random_split|.*Sampler", raised.function):
        return None
    return Explanation(
        "",
        f"Define __len__ in {match[1]}, the number of samples, which shuffling needs; a stream "
        "without a length is an IterableDataset.",
    )


EXPLAINERS: tuple[Callable[[Raised], Explanation | None], ...] = (
    nothing, tuples, twice, used_up, model_as_output, undefined, attribute, key, parts, arguments, forward, sample,
    overwritten, no_graph, hook, layout, recurrent, copied, adapters, created, leaf, length,
)  # fmt: skip
