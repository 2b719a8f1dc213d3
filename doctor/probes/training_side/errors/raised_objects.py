"""What explains an error in the objects that the frames hold: samples, optimizers, modules."""

from __future__ import annotations

import re
from typing import Any, Dict, List

import torch

from ..foreign import stack_frames
from ..subject import unregistered

Observed = Dict[str, str]
MOST = 12
COLLATE = ("torch/utils/data/_utils/collate.py", "transformers/data/data_collator.py")
FETCH = "torch/utils/data/_utils/fetch.py"


def samples(error: Any, frames: List[Any], user: Any, model: Any) -> Observed:
    """What differs between the samples that torch's collate function was joining."""
    files = [frame.file.replace("\\", "/") for frame in frames]
    joining = [frame for frame, file in zip(frames, files) if file.endswith(COLLATE)]
    batch = joining[0].locals.get("batch", joining[0].locals.get("features")) if joining else None
    if not isinstance(batch, (list, tuple)) or not batch:
        return {}
    if all(isinstance(each, dict) for each in batch):
        every = {key for each in batch for key in each}
        for number, each in enumerate(batch):
            if missing := [str(key) for key in every if key not in each]:
                return {"incomplete": "sample %d lacks %s" % (number, listed(sorted(missing)))}
        return unequal([(repr(key) + " of ", [each[key] for each in batch]) for key in batch[0]])
    if not all(isinstance(each, (list, tuple)) for each in batch):
        return unequal([("", list(batch))])
    if len({len(each) for each in batch}) > 1:
        return {"unequal": "samples of %s parts" % listed([str(len(each)) for each in batch])}
    parts = enumerate(zip(*batch))
    return unequal([("part %d of " % number, list(values)) for number, values in parts])


def unequal(fields: List[Any]) -> Observed:
    """Fields of the samples that are None or of different sizes."""
    observed = {}
    for name, values in fields:
        if any(each is None for each in values):
            nones = [str(n) for n, each in enumerate(values) if each is None]
            observed["none in"] = "%ssample %s" % (name, listed(nones))
        sizes = [size_of(each) for each in values]
        if any(size != sizes[0] for size in sizes):
            observed["unequal"] = "%sthe samples: %s" % (
                name,
                listed([str(size) for size in sizes]),
            )
    return observed


def size_of(value: Any) -> List[int]:
    """The shape of a tensor or an array, the length of a list."""
    if isinstance(value, (list, tuple)):
        return [len(value)]
    return list(getattr(value, "shape", ()))


def fetched(error: Any, frames: List[Any], user: Any, model: Any) -> Observed:
    """The sample that a dataset was asked for, and the length that it claims."""
    places = [n for n, frame in enumerate(frames) if frame.file.replace("\\", "/").endswith(FETCH)]
    if not places or places[-1] + 1 >= len(frames):
        return {}
    reading = frames[places[-1] + 1]
    dataset = reading.locals.get("self")
    index = next((v for n, v in reading.arguments().items() if n != "self"), None)
    if dataset is None or not isinstance(index, int):
        return {}
    observed = {"sample": str(index), "dataset": type(dataset).__name__}
    if hasattr(type(dataset), "__len__"):
        observed["length"] = str(len(dataset))
    return observed


def groups(error: Any, frames: List[Any], user: Any, model: Any) -> Observed:
    """Parameters that two groups of an optimizer share, by their names."""
    if "empty parameter list" in str(error) and user is not None:
        modules = [each for each in user.locals.items() if isinstance(each[1], torch.nn.Module)]
        flags = {name: [p.requires_grad for p in module.parameters()] for name, module in modules}
        texts = ["%s has %d, %d trainable" % (n, len(f), sum(f)) for n, f in flags.items()]
        return {"models": "; ".join(texts)}
    adding = [frame for frame in frames if frame.name == "add_param_group"]
    if not adding or "more than one parameter group" not in str(error) or user is None:
        return {}
    known = adding[-1].locals.get("param_set") or set()
    group = adding[-1].locals.get("param_group") or {}
    shared = {id(each) for each in group.get("params", ()) if each in known}
    names: Dict[int, str] = {}
    for value in user.locals.values():
        if isinstance(value, torch.nn.Module):
            names.update((id(weight), name) for name, weight in value.named_parameters())
    shared_names = [names[each] for each in shared if each in names]
    return {"shared": listed(sorted(shared_names))} if shared_names else {}


def copied(error: Any, frames: List[Any], user: Any, model: Any) -> Observed:
    """Attributes of a copied module that are tensors with a graph."""
    if "support the deepcopy protocol" not in str(error):
        return {}
    first = next((frame for frame in frames if frame.name == "deepcopy"), None)
    module = first.locals.get("x") if first else None
    if not isinstance(module, torch.nn.Module):
        return {}
    return {"with graph": listed(unregistered.with_graph(module))}


def targets(error: Any, frames: List[Any], user: Any, model: Any) -> Observed:
    """The last names of the linear modules of the model that adapters were to be put into."""
    if "arget modules" not in str(error):
        return {}
    of_frames = (value for frame in frames for value in frame.arguments().values())
    module = next((each for each in of_frames if isinstance(each, torch.nn.Module)), None)
    if module is None:
        return {}
    linear = [n for n, each in module.named_modules() if "Linear" in type(each).__name__]
    return {"linear": listed(list(dict.fromkeys(name.rpartition(".")[2] for name in linear)))}


IDS = re.compile("(exactly one of|both|either) input_ids (or|and) inputs_embeds")


def embeddings(error: Any, frames: List[Any], user: Any, model: Any) -> Observed:
    """Whether a model of transformers got input_ids and inputs_embeds, or neither; what was passed
    to the model, and whether a Trainer smooths its labels, for which it takes them out."""
    if not IDS.search(str(error)):
        return {}
    inner = frames[-1].locals
    count = sum(inner.get(name) is not None for name in ("input_ids", "inputs_embeds"))
    observed = {"ids passed": ("neither", "one", "both")[count]}
    config = getattr(inner.get("self"), "config", None)
    if getattr(config, "is_encoder_decoder", False) and getattr(config, "is_decoder", False):
        observed["of the decoder"] = "yes"
    forward = next((each for each in frames if each.name == "forward"), None)
    if forward is not None:
        passed = forward.passed()
        given = {**passed, **passed.get("kwargs", {})}
        observed["passed"] = listed([n for n, v in given.items() if isinstance(v, torch.Tensor)])
    smoothers = (getattr(each.locals.get("self"), "label_smoother", None) for each in frames)
    if any(each is not None for each in smoothers):
        observed["smooths labels"] = "yes"
    return observed


def embedded(error: Any, frames: List[Any], user: Any, model: Any) -> Observed:
    """The length of the sequences that a module got as inputs_embeds."""
    passed = (each.locals.get("inputs_embeds") for each in frames if each.name == "forward")
    first = next((each for each in passed if isinstance(each, torch.Tensor)), None)
    return {} if first is None or first.dim() < 2 else {"embedded": str(first.shape[1])}


def distributions(error: Any, frames: List[Any], user: Any, model: Any) -> Observed:
    """How many values of a distribution's parameter violate its constraint, and their range; of a
    "value" the support of the distribution."""
    inner = frames[-1].locals if frames else {}
    value: Any = inner.get("value")
    constraint: Any = inner.get("constraint", inner.get("support"))
    if "found invalid values" not in str(error) or constraint is None:
        return {}
    held = constraint.check(value)
    unit = "values" if held.shape == value.shape else "rows"
    observed = {
        "parameter": str(inner.get("param", "value")),
        "constraint": str(constraint),
        "violations": "%d of %d %s" % (int((~held).sum()), held.numel(), unit),
    }
    if held.shape == value.shape:
        broken = value[~held].detach().float()
        observed["range"] = "%.3g to %.3g" % (float(broken.min()), float(broken.max()))
    return observed


def layout(error: Any, frames: List[Any], user: Any, model: Any) -> Observed:
    """batch_first of the innermost module that has it, and the shapes of its inputs."""
    for frame in reversed(frames):
        module = frame.locals.get("self")
        if frame.name == "forward" and hasattr(module, "batch_first"):
            shapes = {
                name: list(value.shape)
                for name, value in frame.arguments().items()
                if isinstance(value, torch.Tensor)
            }
            text = ", ".join("%s %s" % each for each in shapes.items())
            return {"batch_first": str(module.batch_first), "inputs": text}
    return {}


def inside_backward(error: Any, frames: List[Any], user: Any, model: Any) -> Observed:
    """The backward() of an autograd function in which the user's line raised."""
    context = user.locals.get("ctx") if user is not None and user.name == "backward" else None
    if not isinstance(context, torch.autograd.function.BackwardCFunction):
        return {}
    return {"own backward": type(context).__name__.partition("Backward")[0]}


def packed(error: Any, frames: List[Any], user: Any, model: Any) -> Observed:
    """A PackedSequence in the user's line, where a tensor is needed."""
    if user is None or not isinstance(error, (TypeError, AttributeError)):
        return {}
    values = stack_frames.values_in(user, user.expression)
    kind = torch.nn.utils.rnn.PackedSequence
    names = [name for name, value in values if isinstance(value, kind)]
    return {"packed": names[0]} if names else {}


def listed(names: List[str]) -> str:
    return ", ".join(names[:MOST]) + (", ..." if len(names) > MOST else "")
