"""Everything that a checkpoint must restore, as hashes: weights, buffers, optimizers, schedules."""

from __future__ import annotations

import gc
import os
from types import ModuleType
from typing import Any, Dict, Iterator, List, Tuple

from ..foreign import Foreign
from .attributes import attributes, is_own, names_of, stops_early, variables
from .hashes import Hashes
from .shadows import holds_average, shadows

MOST_TEXT = 40
MOST_LOOSE = 100
FSDP1 = "FullyShardedDataParallel"

Snapshot = Dict[str, Any]


def snapshot(torch: ModuleType) -> Snapshot:
    """The state of all models, optimizers, schedules and scalers in memory."""
    found = in_memory(torch)
    _make_shards(found["module"])
    optimizers = [o for o in found["optimizer"] if "param_groups" in o.__dict__]
    hashes = Hashes(torch)
    weights: Dict[str, Foreign] = {}
    buffers: Dict[str, Foreign] = {}
    names: Dict[int, str] = {}
    roots = _roots(found["module"], optimizers)
    with torch.no_grad():
        for prefix, root in roots:
            for name, parameter in root.named_parameters():
                names.setdefault(id(parameter), prefix + name)
                weights[prefix + name] = entry = hashes.add(parameter)
                entry.append(part_of(parameter, found["module"]))
            for owner, module in root.named_modules():
                held = getattr(module, "_non_persistent_buffers_set", ())
                for key, buffer in module.__dict__.get("_buffers", {}).items():
                    if buffer is not None:
                        entry = hashes.add(buffer)
                        entry.append(key not in held)
                        buffers[prefix + (f"{owner}.{key}" if owner else key)] = entry
        others = (*found["module"], *found["holder"])
        own = [*found["own"], *(each for each in others if is_own(type(each)))]
        named: Dict[str, Foreign] = {}
        for optimizer in optimizers:
            named[_unused(_name_of(optimizer, names), named)] = optimizer
        states = {name: _optimizer(torch, o, names, hashes) for name, o in named.items()}
        loose = _loose(named, names, own, hashes)
        for name, tensor in shadows(torch, found["holder"], optimizers):
            weights[name] = hashes.add(tensor)
        hashes.read()
        held = {**variables(torch), **attributes(torch, own)}
    return {
        "attributes": held,
        "weights": weights,
        "frozen": _frozen(roots),
        "buffers": buffers,
        "optimizers": states,
        "loose": loose,
        "schedules": _schedules(found["schedule"]),
        "scalers": _scalers(found["scaler"]),
        "unwrapped": _unwrapped(found["module"], optimizers, names),
        "replicated": any(type(o).__name__ == "DistributedDataParallel" for o in found["module"]),
        "data_parallel": any(map(_splits_data, found["module"])),
    }


def _make_shards(modules: List[Foreign]) -> None:
    """After an evaluation the outermost module of fully_shard() holds whole weights until the next
    backward pass; its state_dict() makes them shards in the same way."""
    for module in modules:
        if _is_sharded(module):
            module.reshard()


def _is_sharded(module: Foreign) -> bool:
    return "FSDPModule" in {kind.__name__ for kind in type(module).__mro__}


def _unwrapped(
    modules: List[Foreign], optimizers: List[Foreign], names: Dict[int, str]
) -> List[str]:
    """The trained weights that no DistributedDataParallel holds, where there is one."""
    replicas = [m for m in modules if type(m).__name__ == "DistributedDataParallel"]
    inside = {id(parameter) for each in replicas for parameter in each.parameters()}
    trained = [p for o in optimizers for group in o.param_groups for p in group["params"]]
    found = [names[id(p)] for p in trained if id(p) in names and id(p) not in inside]
    return found if replicas else []


def gradients(torch: ModuleType) -> Tuple[Dict[str, Foreign], List[str]]:
    """The hashes of all gradients, by the names of their weights, and the weights without one."""
    found = in_memory(torch)
    hashes, entries, lacking = Hashes(torch), {}, []
    with torch.no_grad():
        for prefix, root in _roots(found["module"], found["optimizer"]):
            for name, parameter in root.named_parameters():
                if parameter.grad is not None and not parameter.grad.is_sparse:
                    entries[prefix + name] = hashes.add(parameter.grad)
                elif parameter.grad is None and parameter.requires_grad:
                    lacking.append(prefix + name)
        hashes.read()
    return entries, [name for name in lacking if not name.startswith("(")]


def frozen_weights(torch: ModuleType) -> List[str]:
    """The names of the weights that require no gradient."""
    found = in_memory(torch)
    return _frozen(_roots(found["module"], found["optimizer"]))


def _frozen(roots: List[Tuple[str, Foreign]]) -> List[str]:
    return [
        prefix + name
        for prefix, root in roots
        for name, parameter in root.named_parameters()
        if not parameter.requires_grad
    ]


def part_of(parameter: Foreign, modules: List[Foreign]) -> str:
    """Which part of it this rank holds, by its place in the mesh; "" for all of it."""
    mesh = getattr(parameter, "device_mesh", None)
    if mesh is not None:
        places = zip(mesh.get_coordinate() or (), parameter.placements)
        parts = [(n, at) for n, (at, how) in enumerate(places) if not how.is_replicate()]
        return " ".join("%d:%d" % part for part in parts)
    zero = hasattr(parameter, "ds_id")  # DeepSpeed's third stage
    if zero or any(type(module).__name__ == FSDP1 for module in modules):
        return "not known"
    return ""


def _splits_data(module: Foreign) -> bool:
    """Whether all ranks train this module on data of their own: DDP, or FSDP over all of them."""
    names = {kind.__name__ for kind in type(module).__mro__}
    if names & {"DistributedDataParallel", FSDP1}:
        return True
    if not _is_sharded(module):
        return False
    meshes = [getattr(each, "device_mesh", None) for each in module.parameters()]
    world = int(os.environ.get("WORLD_SIZE", "0"))
    return bool(meshes) and all(m is not None and m.ndim == 1 and m.size() == world for m in meshes)


def in_memory(torch: ModuleType) -> Dict[str, List[Foreign]]:
    """The objects of the kinds that matter, in one pass over everything in memory."""
    kinds = {
        "module": torch.nn.Module,
        "optimizer": torch.optim.Optimizer,
        "schedule": torch.optim.lr_scheduler.LRScheduler,
        "scaler": getattr(torch.amp, "GradScaler", ()),
    }
    found: Dict[str, List[Foreign]] = {name: [] for name in (*kinds, "holder", "own")}
    of_type: Dict[type, Foreign] = {}
    for each in _oldest_first():
        kind = type(each)
        held: Foreign = of_type.get(kind)
        if held is None:
            names = [name for name, base in kinds.items() if issubclass(kind, base)]
            names += ["holder"] * holds_average(kind)
            names += ["own"] * (is_own(kind) or stops_early(kind))
            held = of_type[kind] = found[names[0]] if names else False
        if held is not False:
            held.append(each)
    return found


def _oldest_first() -> Iterator[Foreign]:
    """Everything in memory. gc.get_objects() alone begins with the youngest generation, so that the
    order of two models would depend on the last collection; one between two of these calls would
    move objects into a generation that was read before."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        generations = [gc.get_objects(number) for number in (2, 1, 0)]
    finally:
        if enabled:
            gc.enable()
    for objects in generations:
        yield from objects
        objects.clear()  # the youngest has the list of all three: a cycle would keep everything


def _roots(modules: List[Foreign], optimizers: List[Foreign]) -> List[Tuple[str, Foreign]]:
    """The outermost modules that hold tensors, each with the prefix of its names.

    The trained ones have none or a number; copies, such as averages, are named by their class.
    """
    inside = {id(c) for m in modules for c in m.__dict__.get("_modules", {}).values()}
    trained = {id(p) for o in optimizers for g in o.param_groups for p in g["params"]}
    found: Dict[str, Foreign] = {}
    for module in modules:
        if id(module) in inside or "_parameters" not in module.__dict__:
            continue
        tensors = [*module.parameters(), *module.buffers()]
        if tensors:
            trains = any(id(tensor) in trained for tensor in tensors)
            name = "" if trains else f"({type(module).__name__}) "
            found[_unused(name, found)] = module
    return list(found.items())


def _unused(name: str, taken: Dict[str, Foreign]) -> str:
    """The name, with a number where it is taken."""
    number, free = 1, name
    while free in taken:
        number += 1
        free = f"{name}{number}: "
    return free


def _name_of(optimizer: Foreign, names: Dict[int, str]) -> str:
    first = next((p for g in optimizer.param_groups for p in g["params"]), None)
    return f"{type(optimizer).__name__} of {names.get(id(first), 'parameters')}"


def _loose(
    optimizers: Dict[str, Foreign], names: Dict[int, str], own: List[Foreign], hashes: Hashes
) -> Dict[str, Foreign]:
    """The parameters of optimizers that are in no module, by the variable or the attribute that
    has them, or by their place; with the optimizer's name and that place."""
    found: List[Tuple[Foreign, str, str]] = []
    for name, optimizer in optimizers.items():
        for number, group in enumerate(optimizer.param_groups):
            found += [
                (each, name, f"group {number}, {at}")
                for at, each in enumerate(group["params"]) if id(each) not in names
            ]  # fmt: skip
    if len(found) > MOST_LOOSE:
        return {}
    called = names_of({id(each) for each, _, _ in found}, own)
    entries: Dict[str, Foreign] = {}
    for each, name, place in found:
        entries[called.get(id(each), f"{place} of {name}")] = entry = hashes.add(each)
        entry += [name, place]
    return entries


def _optimizer(
    torch: ModuleType, optimizer: Foreign, names: Dict[int, str], hashes: Hashes
) -> Snapshot:
    groups, state = [], {}
    for number, group in enumerate(optimizer.param_groups):
        parameters = group["params"]
        keys = [names.get(id(p), f"group {number}, {i}") for i, p in enumerate(parameters)]
        options = {key: plain(torch, value) for key, value in group.items() if key != "params"}
        groups.append({"parameters": keys, "options": options})
        for key, parameter in zip(keys, parameters):
            held = optimizer.state.get(parameter)
            if held:
                state[key] = _held(torch, held, hashes)
    return {"groups": groups, "state": state}


def _held(torch: ModuleType, held: Foreign, hashes: Hashes) -> Foreign:
    """The state of one parameter: numbers as they are, tensors of more elements as hashes."""
    values: Dict[str, Foreign] = {}
    for key, value in held.items():
        if isinstance(value, torch.Tensor):
            number = value.numel() == 1 and value.is_cpu and not hasattr(value, "_local_tensor")
            values[str(key)] = float(value) if number else hashes.add(value)
        elif isinstance(value, (bool, int, float)) or value is None:
            values[str(key)] = value
    return values


def plain(torch: ModuleType, value: Foreign) -> Foreign:
    """A value for JSON."""
    if isinstance(value, torch.Tensor):
        return float(value) if value.numel() == 1 else "tensor"
    if isinstance(value, (bool, int, float)) or value is None:
        return value
    if isinstance(value, (list, tuple)):
        return [plain(torch, each) for each in value]
    return str(value)[:MOST_TEXT]


def _schedules(schedules: List[Foreign]) -> Dict[str, Foreign]:
    """The steps that each has counted; of ReduceLROnPlateau, whose rate does not follow from them,
    its best result and the epochs without a better one as well."""
    found: Dict[str, Foreign] = {}
    for each in schedules:
        held = each.__dict__
        if "last_epoch" in held:
            plateau = [float(held["best"]), held["num_bad_epochs"]] if _is_plateau(held) else []
            counted = held["last_epoch"]
            found[_unused(type(each).__name__, found)] = [counted, *plateau] if plateau else counted
    return found


def _is_plateau(held: Dict[str, Any]) -> bool:
    return "num_bad_epochs" in held and held.get("best") is not None


def _scalers(scalers: List[Foreign]) -> Dict[str, Foreign]:
    """Scale and the steps since it last grew."""
    found: Dict[str, Foreign] = {}
    for each in scalers:
        if each.__dict__.get("_enabled"):
            growth = each.__dict__.get("_growth_tracker")
            steps = each.__dict__.get("_init_growth_tracker", 0) if growth is None else int(growth)
            found[_unused(type(each).__name__, found)] = [float(each.get_scale()), steps]
    return found
