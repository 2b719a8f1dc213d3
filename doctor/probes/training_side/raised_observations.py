"""What explains an error besides the call that raised it: a name that is None, keys, fields.

Imported by raised.py; standard library and torch only, Python 3.9. Each function of `OBSERVERS`
looks at one kind of error and returns texts by their kind, {} if it has nothing to say.
"""

from __future__ import annotations

import builtins
import difflib
import inspect
import re
from typing import Any, Callable, Dict, List, Optional

import torch
import wire

raised = wire.sibling("raised")

Observed = Dict[str, str]
MOST, MOST_VALUES = 12, 5
COLLATE = ("torch/utils/data/_utils/collate.py", "transformers/data/data_collator.py")
FETCH = "torch/utils/data/_utils/fetch.py"
NONE = re.compile(r"NoneType")
UNPACKING = re.compile(r"values to unpack|cannot unpack")
INDEXING = re.compile(r"(list|tuple) indices must be integers or slices, not str")
SIGNATURE = re.compile(
    r"^(?P<name>[\w.<>]+)\(\) (?:got an unexpected keyword argument '(?P<keyword>\w+)'"
    r"|missing \d+ required|takes |got multiple values)"
)


def observe(error: BaseException, frames: List[Any], user: Optional[Any], model: Any) -> Observed:
    """Everything that the observers see; an observer that fails itself sees nothing."""
    observed: Observed = {}
    for observer in OBSERVERS:
        try:
            observed.update(observer(error, frames, user, model))
        except Exception as failure:  # the user's objects may do anything
            observed["failed"] = type(failure).__name__
    return observed


def values(error: Any, frames: List[Any], user: Any, model: Any) -> Observed:
    """The variables of the user's expression, where the user's line itself raised."""
    if user is None or frames[-1] is not user:
        return {}
    shown = [
        "%s is %s" % (name, raised.short(value))
        for name, value in raised.values_in(user, user.expression)
        if not callable(value) or isinstance(value, torch.nn.Module)
    ]
    observed = {"values": ", ".join(shown[:MOST_VALUES])} if shown else {}
    for name, value in raised.values_in(user, user.expression):
        if value is model and model is not None and type(model).__name__ in str(error):
            observed["is the model"] = name
    return observed


def undefined(error: Any, frames: List[Any], user: Any, model: Any) -> Observed:
    """The names that are spelled like one that is not defined."""
    name = re.search(r"name '(\w+)' is not defined", str(error))
    if not isinstance(error, NameError) or not name or user is None:
        return {}
    known = [*user.locals, *user.frame.f_globals, *dir(builtins)]
    return {"undefined": name[1], "similar": similar(name[1], known)}


def names_that_are_none(error: Any, frames: List[Any], user: Any, model: Any) -> Observed:
    """The variables of the user's expression that are None, where None was not expected."""
    if user is None or not NONE.search(str(error)):
        return {}
    none = [name for name, value in raised.values_in(user, user.expression) if value is None]
    if not none:
        return {}
    observed = {"none": ", ".join(none)}
    if none[0] in user.arguments():
        observed["argument of"] = user.name
    return observed


def attributes(error: Any, frames: List[Any], user: Any, model: Any) -> Observed:
    """What the object has that is spelled like the attribute that it lacks."""
    owner, name = getattr(error, "obj", None), getattr(error, "name", None)
    if not isinstance(error, AttributeError) or owner is None or not name:
        return {}
    if isinstance(owner, torch.nn.Module):
        own = [each for store in raised.STORES for each in vars(owner).get(store, {})]
        return {"owner": type(owner).__name__, "lacks": name, "members": listed(own),
                "similar": similar(name, [*own, *dir(type(owner))])}  # fmt: skip
    close = similar(name, dir(owner))
    return {"owner": type(owner).__name__, "lacks": name, "similar": close} if close else {}


def keys(error: Any, frames: List[Any], user: Any, model: Any) -> Observed:
    """The keys that the dict of a KeyError has."""
    if not isinstance(error, KeyError) or user is None or frames[-1].library:
        return {}
    key = error.args[0] if error.args else None
    for name, value in raised.values_in(user, user.code):
        if hasattr(value, "keys") and key not in value:
            present = [str(each) for each in value.keys()]  # noqa: SIM118 - of a mapping
            return {"container": name, "keys": listed(present),
                    "similar": similar(str(key), present)}  # fmt: skip
    return {}


def parts(error: Any, frames: List[Any], user: Any, model: Any) -> Observed:
    """The parts of what was unpacked, or indexed by a name."""
    text = str(error)
    if user is None or not (UNPACKING.search(text) or INDEXING.search(text)):
        return {}
    for name, value in reversed(list(raised.values_in(user, user.code))):
        if isinstance(value, (list, tuple, dict)):
            members = list(value) if isinstance(value, dict) else value
            return {"container": name, "count": str(len(members)),
                    "parts": listed([raised.short(each) for each in members])}  # fmt: skip
    return {}


def signatures(error: Any, frames: List[Any], user: Any, model: Any) -> Observed:
    """What the function accepts that got wrong arguments."""
    match = SIGNATURE.match(str(error))
    if not isinstance(error, TypeError) or not match:
        return {}
    name = match["name"].rpartition(".")[2]
    modules = raised.running_modules(frames)
    function: Any = None
    if frames and frames[-1].name == "_call_impl" and modules and name == "forward":
        function = modules[-1].forward
    elif user is not None:
        function = called(user, match["name"])
    if function is None:
        return {}
    accepted = [
        each
        for each in inspect.signature(function).parameters.values()
        if each.name not in ("self", "cls")
    ]
    names = [each.name for each in accepted]
    needed = [
        each.name
        for each in accepted
        if each.default is each.empty and each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)
    ]
    observed = {"accepts": listed(names), "needs": ", ".join(needed)}
    if isinstance(passed := frames[-1].locals.get("kwargs"), dict) and name == "forward":
        observed["passed"] = listed(list(passed))
    if name == "forward" and function == getattr(model, "forward", None):
        observed["of the model"] = "yes"
    if match["keyword"]:
        observed["keyword"] = match["keyword"]
        observed["similar"] = similar(match["keyword"], names)
        related = [each for each in names if set(each.split("_")) & set(words(match["keyword"]))]
        observed["similar"] = observed["similar"] or ", ".join(related[:3])
    return observed


def words(name: str) -> List[str]:
    return [each for each in name.split("_") if len(each) > 2]


def called(user: Any, qualified: str) -> Any:
    """The class or function that the user's expression calls, by its name; None if unknown."""
    last = [part for part in qualified.split(".") if part not in ("__init__", "__new__")][-1]
    scope = {**user.frame.f_globals, **user.locals}
    for match in raised.NAME.finditer(user.expression):
        path = match[0].split(".")
        if path[-1] != last and last != "forward":
            continue
        value = scope.get(path[0])
        for part in path[1:]:
            value = getattr(value, part, None)
        if callable(value):
            return value.forward if isinstance(value, torch.nn.Module) else value
    return None


def forwards(error: Any, frames: List[Any], user: Any, model: Any) -> Observed:
    """Methods of a module without forward whose names are close to it."""
    modules = raised.running_modules(frames)
    if not isinstance(error, NotImplementedError) or not modules:
        return {}
    own = [name for name, value in vars(type(modules[-1])).items() if callable(value)]
    return {"owner": type(modules[-1]).__name__, "similar": similar("forward", own)}


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
        counts = {
            name: len(list(value.parameters()))
            for name, value in user.locals.items()
            if isinstance(value, torch.nn.Module)
        }
        return {"models": ", ".join("%s has %d" % each for each in counts.items())}
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
    found = [names[each] for each in shared if each in names]
    return {"shared": listed(sorted(found))} if found else {}


def copied(error: Any, frames: List[Any], user: Any, model: Any) -> Observed:
    """Attributes of a copied module that are tensors with a graph."""
    if "support the deepcopy protocol" not in str(error):
        return {}
    first = next((frame for frame in frames if frame.name == "deepcopy"), None)
    module = first.locals.get("x") if first else None
    if not isinstance(module, torch.nn.Module):
        return {}
    return {"with graph": listed(wire.sibling("unregistered").with_graph(module))}


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


def similar(name: str, names: List[str]) -> str:
    """The names that are spelled like this one, the most similar first."""
    close = difflib.get_close_matches(name.lower(), [each.lower() for each in names], 3, 0.7)
    return ", ".join(dict.fromkeys(n for each in close for n in names if n.lower() == each))


def listed(names: List[str]) -> str:
    return ", ".join(names[:MOST]) + (", ..." if len(names) > MOST else "")


OBSERVERS: List[Callable[..., Observed]] = [
    values, undefined, names_that_are_none, attributes, keys, parts, signatures, forwards,
    samples, fetched, groups, copied, targets, layout,
]  # fmt: skip
