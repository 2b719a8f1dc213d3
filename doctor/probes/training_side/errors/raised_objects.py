"""What explains an error in the objects that the frames hold: samples, modules, distributions,
parameters of optimizers."""

from __future__ import annotations

import re
from typing import Any, Callable, Dict, List, Sequence

import torch

from ..foreign import observing
from ..subject import frozen, unregistered

Records = List[Dict[str, Any]]
MOST = 12
COLLATE = ("torch/utils/data/_utils/collate.py", "transformers/data/data_collator.py")
FETCH = "torch/utils/data/_utils/fetch.py"


NAMED_FIELD = re.compile(r"Perhaps your features \(`([^`]+)` in this case\)")
"""A collator of transformers pads what goes into the model, and fails at another field."""


def samples(error: Any, frames: List[Any], user: Any, model: Any) -> Records:
    """What differs between the samples that torch's collate function was joining."""
    joining = [frame for frame in frames if frame.file.replace("\\", "/").endswith(COLLATE)]
    batch = joining[0].locals.get("batch", joining[0].locals.get("features")) if joining else None
    if not isinstance(batch, (list, tuple)) or not batch:
        return []
    if all(isinstance(each, dict) for each in batch):
        every = {key for each in batch for key in each}
        for number, each in enumerate(batch):
            if missing := sorted(str(key) for key in every if key not in each):
                return [{"type": "AbsentInSamples", "fields": missing, "samples": [number]}]
        named = NAMED_FIELD.search(str(error))
        keys = [key for key in batch[0] if named is None or key == named[1]]
        return [r for key in keys for r in differing(repr(key), [each[key] for each in batch])]
    if not all(isinstance(each, (list, tuple)) for each in batch):
        return differing("", batch)
    if len({len(each) for each in batch}) > 1:
        sizes = [[len(each)] for each in batch[:MOST]]
        return [{"type": "UnequalSamples", "field": "number of parts", "sizes": sizes}]
    return [r for n, part in enumerate(zip(*batch)) for r in differing("part %d" % n, part)]


def differing(field: str, values: Sequence[Any]) -> Records:
    """A field of the samples that is None, or of different sizes."""
    absent = [number for number, each in enumerate(values) if each is None]
    if absent:
        fields = [field] if field else []
        return [{"type": "AbsentInSamples", "fields": fields, "samples": absent, "none": True}]
    sizes = [size_of(each) for each in values]
    if all(size == sizes[0] for size in sizes):
        return []
    return [{"type": "UnequalSamples", "field": field, "sizes": sizes[:MOST]}]


def size_of(value: Any) -> List[int]:
    """The shape of a tensor or an array, the length of a list."""
    if isinstance(value, (list, tuple)):
        return [len(value)]
    return list(getattr(value, "shape", ()))


def fetched(error: Any, frames: List[Any], user: Any, model: Any) -> Records:
    """The sample that a dataset was asked for, and the length that it claims."""
    places = [n for n, frame in enumerate(frames) if frame.file.replace("\\", "/").endswith(FETCH)]
    if not places or places[-1] + 1 >= len(frames):
        return []
    reading = frames[places[-1] + 1]
    dataset = reading.locals.get("self")
    index = next((v for n, v in reading.arguments().items() if n != "self"), None)
    if dataset is None or not isinstance(index, int):
        return []
    length = len(dataset) if hasattr(type(dataset), "__len__") else None
    name = type(dataset).__name__
    return [{"type": "Sample", "index": index, "dataset": name, "length": length}]


def copied(error: Any, frames: List[Any], user: Any, model: Any) -> Records:
    """Attributes of a copied module that are tensors with a graph."""
    if "support the deepcopy protocol" not in str(error):
        return []
    first = next((frame for frame in frames if frame.name == "deepcopy"), None)
    module = first.locals.get("x") if first else None
    names = list(unregistered.graphs_in(module)) if isinstance(module, torch.nn.Module) else []
    return [{"type": "KeptGraph", "names": names[:MOST], "where": "copied"}] if names else []


def targets(error: Any, frames: List[Any], user: Any, model: Any) -> Records:
    """The last names of the linear modules of the model that adapters were to be put into."""
    of_frames = (value for frame in frames for value in frame.arguments().values())
    module = next((each for each in of_frames if isinstance(each, torch.nn.Module)), None)
    if "arget modules" not in str(error) or module is None:
        return []
    linear = [n for n, each in module.named_modules() if re.search(LINEAR, type(each).__name__)]
    names = list(dict.fromkeys(name.rpartition(".")[2] for name in linear))
    return [{"type": "LinearModules", "names": names[:MOST]}]


LINEAR = "Linear|^Conv1D$"
"""Classes that adapters are put into; Conv1D is the linear module of GPT-2."""
IDS = re.compile("(exactly one of|both|either) input_ids (or|and) inputs_embeds")


def transformer_inputs(error: Any, frames: List[Any], user: Any, model: Any) -> Records:
    """What a model of transformers got, and whether a Trainer takes its labels out."""
    forwards = [frame for frame in frames if frame.name == "forward"]
    given = [each.locals.get("inputs_embeds") for each in forwards]
    embedded = next((each for each in given if isinstance(each, torch.Tensor)), None)
    refused = bool(IDS.search(str(error)))
    if not forwards or not (refused or (embedded is not None and embedded.dim() > 1)):
        return []
    inner, passed = frames[-1].locals, forwards[0].passed()
    config = observing.stated(inner.get("self"), "config")
    every = {**passed, **passed.get("kwargs", {})}
    smoothers = (observing.stated(each.locals.get("self"), "label_smoother") for each in frames)
    decoder = all(observing.stated(config, each) for each in ("is_encoder_decoder", "is_decoder"))
    return [
        {
            "type": "TransformerInputs",
            "ids": inner.get("input_ids") is not None,
            "embeddings": inner.get("inputs_embeds") is not None,
            "positions": None if embedded is None else int(embedded.shape[1]),
            "passed": [n for n, v in every.items() if isinstance(v, torch.Tensor)][:MOST],
            "refused": refused,
            "decoder": decoder,
            "smooths_labels": any(each is not None for each in smoothers),
        }
    ]


def distributions(error: Any, frames: List[Any], user: Any, model: Any) -> Records:
    """How many values of a distribution's parameter violate its constraint, and their range; of a
    "value" the support of the distribution."""
    inner = frames[-1].locals if frames else {}
    value: Any = inner.get("value")
    constraint: Any = inner.get("constraint", inner.get("support"))
    if "found invalid values" not in str(error) or constraint is None:
        return []
    held = constraint.check(value)
    elements = held.shape == value.shape
    broken = value[~held].detach().float() if elements else None
    return [
        {
            "type": "Violation",
            "distribution": type(inner.get("self")).__name__,
            "parameter": str(inner.get("param", "value")),
            "constraint": str(constraint),
            "violations": int((~held).sum()),
            "checked": held.numel(),
            "unit": "values" if elements else "rows",
            **({} if broken is None else range_of(broken)),
        }
    ]


def range_of(broken: torch.Tensor) -> Dict[str, Any]:
    """NaN would be the smallest and the largest of all."""
    if bool(broken.isnan().any()) or bool(broken.isinf().any()):
        return {"nan": bool(broken.isnan().any())}
    return {"low": float(broken.min()), "high": float(broken.max())}


def layout(error: Any, frames: List[Any], user: Any, model: Any) -> Records:
    """The innermost module with batch_first, and the shapes of its inputs."""
    for frame in reversed(frames):
        module = frame.locals.get("self")
        if frame.name != "forward" or not isinstance(getattr(module, "batch_first", None), bool):
            continue
        inputs: Dict[str, Any] = {}
        for name, value in frame.arguments().items():
            members = value if isinstance(value, tuple) else ()
            inputs.update(("%s[%d]" % (name, n), each) for n, each in enumerate(members))
            inputs[name] = value
        tensors = {n: list(v.shape) for n, v in inputs.items() if isinstance(v, torch.Tensor)}
        own = vars(module).items()
        options = {n: int(v) for n, v in own if isinstance(v, int) and not n.startswith("_")}
        fields = {"batch_first": module.batch_first, "inputs": tensors, "options": options}
        return [{"type": "Layout", **fields}]
    return []


# Optimizers and state dicts

KEYS = 100
"""Names in a record."""


def modules_of(user: Any) -> Dict[str, torch.nn.Module]:
    """The modules among the variables of the user's function."""
    held = user.locals.items() if user is not None else ()
    return {name: value for name, value in held if isinstance(value, torch.nn.Module)}


def counts(error: Any, frames: List[Any], user: Any, model: Any) -> Records:
    if "empty parameter list" not in str(error):
        return []
    records = []
    for name, module in modules_of(user).items():
        flags = [each.requires_grad for each in module.parameters()]
        fields = {"model": name, "parameters": len(flags), "trainable": sum(flags)}
        held = "" if flags else frozen.without_parameters(module).lstrip(": ")
        records.append({"type": "ParameterCount", **fields, "held": held})
    # A loss has no parameters by itself.
    return sorted(records, key=lambda each: (not each["held"], not each["parameters"]))


def shared(error: Any, frames: List[Any], user: Any, model: Any) -> Records:
    """Parameters that two groups of an optimizer share, by their names."""
    adding = [frame for frame in frames if frame.name == "add_param_group"]
    if not adding or "more than one parameter group" not in str(error):
        return []
    known = adding[-1].locals.get("param_set") or set()
    group = adding[-1].locals.get("param_group") or {}
    both = {id(each) for each in group.get("params", ()) if each in known}
    weights = (pair for each in modules_of(user).values() for pair in each.named_parameters())
    names = sorted({name for name, weight in weights if id(weight) in both})
    return [{"type": "SharedParameters", "names": names[:KEYS]}] if names else []


def state_keys(error: Any, frames: List[Any], user: Any, model: Any) -> Records:
    """Keys of a state dict that the model lacks, and that only the model has."""
    loading = [frame for frame in frames if frame.name == "load_state_dict"]
    if not loading or "loading state_dict" not in str(error):
        return []
    keys = {
        kind: [str(each) for each in loading[-1].locals.get(kind + "_keys") or ()][:KEYS]
        for kind in ("missing", "unexpected")
    }
    return [{"type": "StateKeys", **keys}] if any(keys.values()) else []


OBSERVERS: List[Callable[..., Records]] = [
    samples, fetched, copied, targets, layout, transformer_inputs, distributions, counts, shared,
    state_keys,
]  # fmt: skip
