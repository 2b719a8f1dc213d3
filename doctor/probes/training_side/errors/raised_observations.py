"""What explains an error besides the call that raised it: a name that is None, keys, fields.

Each function of `OBSERVERS` looks at one kind of error and returns texts by their kind, {} if it
has nothing to say.
"""

from __future__ import annotations

import builtins
import difflib
import inspect
import re
from typing import Any, Callable, Dict, List, Optional

import torch

from ..foreign import descriptions, stack_frames
from . import nonfinite_values, raised_getters
from . import raised_objects as objects
from .raised_objects import listed

Observed = Dict[str, str]
MOST_VALUES = 5
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
    if user is None:
        return {}
    shown = [
        "%s is %s" % (name, descriptions.described(name, value))
        for name, value in stack_frames.values_in(user, user.expression)
        if not callable(value) or isinstance(value, torch.nn.Module)
    ]
    return {"values": ", ".join(shown[:MOST_VALUES])} if shown else {}


def model_as_value(error: Any, frames: List[Any], user: Any, model: Any) -> Observed:
    """The name of the model, where its class is named as the wrong type of an argument."""
    if user is None or model is None or "not %s" % type(model).__name__ not in str(error):
        return {}
    names = [
        name for name, value in stack_frames.values_in(user, user.expression) if value is model
    ]
    return {"is the model": names[0]} if names else {}


def shadowed(error: Any, frames: List[Any], user: Any, model: Any) -> Observed:
    """Attributes of a module that hide a method of torch.nn.Module."""
    if "object is not callable" not in str(error):
        return {}
    held = [each for frame in stack_frames.all_frames(error) for each in frame.f_locals.values()]
    modules = held + [member for each in held if isinstance(each, tuple) for member in each]
    if user is not None and "'tuple' object" in str(error):
        values = stack_frames.values_in(user, user.expression)
        return {"a tuple": ", ".join(n for n, v in values if isinstance(v, tuple) and len(v) == 1)}
    names = {
        name
        for each in modules
        if isinstance(each, torch.nn.Module)
        for name, value in vars(each).items()
        if callable(getattr(torch.nn.Module, name, None)) and not callable(value)
    }
    return {"shadows": ", ".join(sorted(names))} if names else {}


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
    none = [name for name, value in stack_frames.values_in(user, user.expression) if value is None]
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
    if hidden := raised_getters.observe(error, owner, name, model, OF_GETTERS):
        return hidden
    if isinstance(owner, torch.nn.Module):
        own = [each for store in stack_frames.STORES for each in vars(owner).get(store, {})]
        library = {"read by": frames[-1].place} if frames and reads_itself(frames) else {}
        return {"owner": type(owner).__name__, "lacks": name, "members": listed(own),
                "similar": others(name, [*own, *dir(type(owner))]), **library}  # fmt: skip
    if isinstance(owner, dict) and name in owner:
        names = [each for each, value in stack_frames.values_in(user, user.code) if value is owner]
        return {"dict": names[0] if names else "it", "lacks": name, "owner": "dict"}
    close = others(name, dir(owner))
    kind = getattr(owner, "__name__", "") if inspect.ismodule(owner) else type(owner).__name__
    return {"owner": kind, "lacks": name, "similar": close} if close else {}


def reads_itself(frames: List[Any]) -> bool:
    """Whether a library reads the attribute, which nn.Module looks up in its __getattr__."""
    others = [frame for frame in frames if frame.name != "__getattr__"]
    return bool(others) and others[-1].library


def keys(error: Any, frames: List[Any], user: Any, model: Any) -> Observed:
    """The keys that the dict of a KeyError has."""
    if not isinstance(error, KeyError) or user is None:
        return {}
    key = error.args[0] if error.args else None
    for name, value in stack_frames.values_in(user, user.code):
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
    for name, value in reversed(list(stack_frames.values_in(user, user.code))):
        if isinstance(value, torch.Tensor) and value.dim() and UNPACKING.search(text):
            return {"container": name, "rows": str(len(value)), "shape": str(list(value.shape))}
    for name, value in reversed(list(stack_frames.values_in(user, user.code))):
        if isinstance(value, (list, tuple, dict)):
            members = list(value) if isinstance(value, dict) else value
            shown = ["a text" if isinstance(each, (str, bytes)) and not isinstance(value, dict)
                     else descriptions.short(each) for each in members]  # fmt: skip
            return {"container": name, "count": str(len(members)), "parts": listed(shown)}
    return {}


def signatures(error: Any, frames: List[Any], user: Any, model: Any) -> Observed:
    """What the function accepts that got wrong arguments."""
    match = SIGNATURE.match(str(error))
    of_function = bool(frames) and frames[-1].name == "apply"  # see own_functions.py
    if not isinstance(error, TypeError) or not match or of_function:
        return {}
    name = match["name"].rpartition(".")[2]
    modules = stack_frames.running_modules(frames)
    function: Any = None
    if frames and frames[-1].name in ("_call_impl", "inner") and modules and name != "forward":
        return {"hook of": type(modules[-1]).__name__, "hook": name}
    if frames and frames[-1].name == "_call_impl" and modules and name == "forward":
        function = modules[-1].forward
    elif user is not None:
        function = called(user, match["name"])
    if function is None:
        return {}
    observed = accepted_by(function, match["keyword"])
    if isinstance(passed := frames[-1].locals.get("kwargs"), dict) and name == "forward":
        observed["passed"] = listed(list(passed))
    if name == "forward" and function == getattr(model, "forward", None):
        observed["of the model"] = "yes"
    return observed


def accepted_by(function: Any, keyword: Optional[str]) -> Observed:
    """The parameters of a function, and those that are named like the wrong keyword."""
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
    if keyword:
        related = [each for each in names if set(each.split("_")) & set(words(keyword))]
        observed["keyword"] = keyword
        observed["similar"] = similar(keyword, names) or ", ".join(related[:3])
    return observed


def words(name: str) -> List[str]:
    return [each for each in name.split("_") if len(each) > 2]


def called(user: Any, qualified: str) -> Any:
    """The class or function that the user's expression calls, by its name; None if unknown."""
    last = [part for part in qualified.split(".") if part not in ("__init__", "__new__")][-1]
    scope = {**user.frame.f_globals, **user.locals}
    for match in stack_frames.NAME.finditer(user.expression):
        path = match[0].split(".")
        if path[-1] != last and last != "forward":
            continue
        value = scope.get(path[0])
        for part in path[1:]:
            value = getattr(value, part, None)
        if callable(value):
            return value.forward if isinstance(value, torch.nn.Module) else value
    return None


def transforms(error: Any, frames: List[Any], user: Any, model: Any) -> Observed:
    """Whether the code was running under torch.func.vmap."""
    files = [frame.file.replace("\\", "/") for frame in frames]
    mapped = any(file.endswith("torch/_functorch/vmap.py") for file in files)
    return {"inside": "torch.func.vmap"} if mapped else {}


def forwards(error: Any, frames: List[Any], user: Any, model: Any) -> Observed:
    """Methods of a module without forward whose names are close to it."""
    modules = stack_frames.running_modules(frames)
    absent = isinstance(error, NotImplementedError) and "forward" in str(error)
    if not absent or not modules:
        return {}
    own = [name for name, value in vars(type(modules[-1])).items() if callable(value)]
    if "forward" in own:
        return {"owner": type(modules[-1]).__name__, "of the base": "yes"}
    return {"owner": type(modules[-1]).__name__, "similar": similar("forward", own)}


def similar(name: str, names: List[str]) -> str:
    """The names that are spelled like this one, the most similar first."""
    close = difflib.get_close_matches(name.lower(), [each.lower() for each in names], 3, 0.7)
    close.sort(key=lambda each: not each.startswith(name.lower()))
    return ", ".join(dict.fromkeys(n for each in close for n in names if n.lower() == each))


def others(name: str, names: List[str]) -> str:
    """The same without the name itself."""
    return similar(name, [each for each in names if each != name])


OF_GETTERS = (values, names_that_are_none, attributes)
"""Those that also look at the error inside of a getter."""
OBSERVERS: List[Callable[..., Observed]] = [
    values, undefined, model_as_value, shadowed, names_that_are_none, attributes, keys, parts,
    signatures, transforms, forwards, objects.samples, objects.fetched, objects.groups,
    objects.inside_backward, objects.packed, objects.copied, objects.targets, objects.layout,
    objects.embeddings, objects.embedded, objects.distributions,
    nonfinite_values.observe,
]  # fmt: skip
