"""A directory of DeepSpeed's engine: weights of the module, and fp32 masters out of flat groups.

ZeRO 1 and 2 lay the parameters of a group end to end and give every rank a slice of the whole,
padded to a multiple of 2 * ranks elements. ZeRO 3 divides every parameter over the ranks, each
slice rounded up. param_shapes in the model's file has the names in that order.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import replace

import msgspec

from doctor._util.units import shown
from doctor.checkpoint.errors import CheckpointError
from doctor.checkpoint.formats.optimizer_state import read_state
from doctor.checkpoint.formats.safetensors import WIDEST, unreadable
from doctor.checkpoint.formats.scalars import read_scalar
from doctor.checkpoint.formats.torch_files import Tree, read_tree, with_inventory
from doctor.checkpoint.io.files import Directory, Source, prefetch_files
from doctor.checkpoint.io.stages import Stage
from doctor.checkpoint.layouts.universal import UNDER, read_universal
from doctor.checkpoint.layouts.zero import Engine, Rank, assembled, rate
from doctor.checkpoint.layouts.zero_flat import Shapes
from doctor.checkpoint.pickle.nodes import mapping, members
from doctor.checkpoint.tensors import OptimizerState, Shard, Tensor, join_states

_MODEL = re.compile(r"(?:zero_pp_rank_(?P<rank>\d+)_)?mp_rank_(?P<mp>\d+)_model_states\.pt")
_PART = re.compile(r"layer_.*model_states\.pt")
_OPTIM = re.compile(
    r"(?:bf16_|fp16_)?zero_pp_rank_(?P<rank>\d+)_mp_rank_(?P<mp>\d+)_optim_states\.pt"
)

_LAYER = re.compile(r"layer_(?P<layer>\d+)-model_(?P<mp>\d+)-model_states\.pt")


def read_engine(directory: Directory, under: str, stage: Stage) -> tuple[list[Shard], list[Shard]]:
    """The files of the directory `under`: those of the module, and those of the optimizer."""
    try:
        names = sorted(
            directory.inside(under).names() if under else directory.names(), key=_natural
        )
    except CheckpointError as error:
        return [unreadable(under or ".", 0, error)], []
    models = [name for name in names if _MODEL.fullmatch(name) or _PART.fullmatch(name)]
    optims = [name for name in names if _OPTIM.fullmatch(name)]
    prefetch_files(directory, [under + name for name in (*models, *optims)])
    engines: dict[str, Engine] = {}
    weights = [_file(directory, under + name, stage, engines, _weights) for name in models]
    states = [_file(directory, under + name, stage, engines, _optimizer) for name in optims]
    if UNDER in names and not optims:
        states.append(read_universal(directory, under, stage))
    weights = [_prefixed(shard, len(engines)) for shard in weights]
    for mp, engine in engines.items():
        lead = f"mp_rank.{mp}." if len(engines) > 1 else ""
        _assemble(under, lead, engine, weights, states)
    return weights, states


def _natural(name: str) -> list[object]:
    return [int(part) if part.isdecimal() else part for part in re.split(r"(\d+)", name)]


Take = Callable[[Tree, Source, str, "Engine"], list[Tensor]]


def _file(
    directory: Directory, file: str, stage: Stage, engines: dict[str, Engine], take: Take
) -> Shard:
    base = file.rpartition("/")[2]
    match = _MODEL.fullmatch(base) or _OPTIM.fullmatch(base)
    engine = engines.setdefault(match["mp"], Engine()) if match else Engine()
    with stage(f"read {shown(file)}"):
        try:
            with directory.open(file) as source:
                try:
                    tree = read_tree(source, file)
                    tensors = take(tree, source, file, engine)
                    state = _without_zero(tree, source, file) if take is _weights else None
                except CheckpointError as error:
                    return with_inventory(unreadable(file, 0, error), source)
                size = source.size
        except CheckpointError as error:
            return unreadable(file, 0, error)
    return Shard(
        file,
        size,
        tuple(sorted(tensors, key=lambda tensor: tensor.begin)),
        problems=tuple(tree.problems),
        imports=tuple(tree.imports),
        refused=tuple(tree.refused),
        actions=tree.actions,
        protocol=tree.pickled.protocol,
        unread=tree.nested_unread,
        step=engine.step,
        optimizer=state,
    )


def _without_zero(tree: Tree, source: Source, file: str) -> OptimizerState | None:
    """The optimizer of stage 0, in the file of the module, with fp32 copies by its numbers.

    fp32_groups has a tensor for each parameter, fp32_groups_flat one for each group.
    """
    wrapper = mapping(mapping(tree.value).get("optimizer"))
    state = read_state(tree, file, source) if wrapper else None
    if state is None:
        return None
    masters: list[Tensor] = []
    held = members(wrapper.get("fp32_groups")) or members(wrapper.get("fp32_groups_flat"))
    for group, copies in zip(state.groups, held, strict=False):
        for key, node in zip(group.keys, members(copies) or [copies], strict=False):
            if master := tree.tensor(node, key):
                masters.append(master)
    return replace(state, masters=tuple(masters))


def _weights(tree: Tree, source: Source, file: str, engine: Engine) -> list[Tensor]:
    """The module's tensors; ZeRO 3 leaves empty ones where a parameter is divided."""
    top = mapping(tree.value)
    shapes = top.get("param_shapes")
    groups = members(shapes) if not mapping(shapes) else [shapes]
    if groups and not engine.shapes:
        engine.shapes = [_shapes(group) for group in groups]
        engine.frozen = _shapes(top.get("frozen_param_shapes"))
    for name, node in mapping(top.get("frozen_param_fragments")).items():
        if type(name) is str and (fragment := tree.tensor(node, name)):
            engine.fragments.setdefault(name, []).append(fragment)
    steps = top.get("global_steps")
    engine.step = steps if type(steps) is int and 0 <= steps < 2**53 else engine.step
    engine.low = engine.low or _low(top.get("ds_config"))
    rank = _MODEL.fullmatch(file.rpartition("/")[2])
    if rank and rank["rank"] and int(rank["rank"]):
        return []  # the buffers in it are those of rank 0
    tensors = tree.tensors(top.get("module", tree.value), "")
    return [tensor for tensor in tensors if tensor.elements or not groups]


def _low(config: object) -> bool:
    """DeepSpeed's bf16_master_weights_and_grads."""
    section = mapping(mapping(config).get("bf16"))
    return section.get("bf16_master_weights_and_grads") is True


def _shapes(value: object) -> Shapes:
    """Names and shapes in order. Raises CheckpointError."""
    shapes: Shapes = {}
    for name, size in mapping(value).items():
        shape = tuple(members(size))
        fine = all(type(length) is int and 0 <= length < WIDEST for length in shape)
        if type(name) is not str or not fine or math.prod(shape) >= WIDEST:
            raise CheckpointError("damaged", "has param_shapes that do not map names to shapes")
        shapes[name] = shape
    return shapes


def _optimizer(tree: Tree, source: Source, file: str, engine: Engine) -> list[Tensor]:
    top = mapping(tree.value)
    state = mapping(top.get("optimizer_state_dict"))
    engine.low = engine.low or _low(top.get("ds_config"))
    stage = state.get("zero_stage")
    three = "fp32_flat_groups" in state
    flats = state.get("fp32_flat_groups" if three else "single_partition_of_fp32_groups")
    if not state or flats is None:
        raise CheckpointError(
            "not-inspectable", "is no file of ZeRO's optimizer states that is known"
        )
    tensors = [tree.tensor(node, "master") for node in members(flats)]
    base = mapping(state.get("optimizer_state_dict" if three else "base_optimizer_state"))
    slots, steps = _slots(tree, source, mapping(base.get("state")), len(tensors))
    counts = state.get("partition_count")
    count = max((each for each in members(counts) if type(each) is int), default=0)
    engine.ranks.append(
        Rank(
            stage if type(stage) is int else 3 if three else 2,
            counts if type(counts) is int else count,
            [tensor for tensor in tensors if tensor],
            slots,
            steps,
            [mapping(group) for group in members(base.get("param_groups"))],
            _begin(source, [tensor for tensor in tensors if tensor]),
        )
    )
    return []


BEGIN = 4096


def _begin(source: Source, flats: list[Tensor]) -> bytes:
    """The first bytes of the longest."""
    longest = max(flats, key=lambda each: each.elements, default=None)
    if longest is None:
        return b""
    return source.read(min(BEGIN, longest.end - longest.begin), longest.begin)


def _slots(
    tree: Tree, source: Source, state: dict[object, object], groups: int
) -> tuple[dict[str, list[Tensor]], list[float | None]]:
    """Slot -> the tensors of all groups in order, where every group has one; and the steps."""
    by_slot: dict[str, list[Tensor]] = {}
    steps: list[float | None] = []
    for index in range(groups):
        entry = mapping(state.get(index))
        step = entry.get("step")
        steps.append(rate(step))
        for slot, node in entry.items():
            tensor = tree.tensor(node, slot) if type(slot) is str else None
            if tensor is None:
                continue
            if slot == "step":
                steps[-1] = read_scalar(source, tensor)
            else:
                by_slot.setdefault(slot, []).append(tensor)
    return {slot: tensors for slot, tensors in by_slot.items() if len(tensors) == groups}, steps


def _prefixed(shard: Shard, engines: int) -> Shard:
    """The shard with names that distinguish ranks and a pipeline's layers."""
    base = shard.file.rpartition("/")[2]
    rank, layer = _MODEL.fullmatch(base), _LAYER.fullmatch(base)
    if layer:
        lead = f"model.{layer['mp']}.layer.{int(layer['layer'])}."
    elif rank and engines > 1:
        lead = f"mp_rank.{rank['mp']}."
    else:
        return shard
    tensors = tuple(
        msgspec.structs.replace(tensor, name=lead + tensor.name) for tensor in shard.tensors
    )
    return replace(shard, tensors=tensors)


def _assemble(
    under: str, lead: str, engine: Engine, weights: list[Shard], states: list[Shard]
) -> None:
    """Put what the ranks' files give together into the last of the files."""
    try:
        if engine.ranks and not weights:
            raise CheckpointError("missing", "has no file of model states")
        whole, state = assembled(under, lead, engine)
    except CheckpointError as error:
        problem = error.problem(under or ".")
        last = (states or weights)[-1]
        (states or weights)[-1] = replace(last, problems=(*last.problems, problem))
        return
    if whole and weights:
        weights[-1] = replace(weights[-1], tensors=(*weights[-1].tensors, *whole))
    if state and states:
        states[-1] = replace(states[-1], optimizer=join_states((states[-1].optimizer, state)))
