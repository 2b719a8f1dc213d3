"""Rules on how data are read: order, seeds, what is dropped, and what workers do."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.checks.script import evaluate, objects
from doctor.checks.script.data.moved_in_workers import moved_in_workers
from doctor.checks.script.data.samplers import is_inverted
from doctor.checks.script.data.worker_copies import (
    PER_WORKER,
    changed_later,
    has_workers,
    one_generator,
)
from doctor.checks.script.loop.order import calls_reached
from doctor.checks.script.naming import is_held_out
from doctor.checks.script.rule import Match, Rule
from doctor.checks.script.training import Training
from doctor.facts.script import Assignment, Call, Value

OF_TORCHVISION = "torchvision.datasets."
SEEDS = {
    "torch.manual_seed", "numpy.random.seed", "random.seed", "transformers.set_seed",
    "accelerate.utils.set_seed",
}  # fmt: skip

IN_BATCH = ("contrastive", "infonce", "info_nce", "nt_xent", "ntxent", "simclr", "logits_per_",
            "clip_loss", "cliploss")  # fmt: skip
"""Names of losses over all pairs of a batch, which grow with its size."""


def loader_settings(reading: Training) -> Iterator[Match]:
    for call in reading.named("DataLoader"):
        target = call.target
        dropped = evaluate.argument(reading, call, "drop_last", 8)
        hook = reading.function(call.scope).name if not call.targets else ""
        target = target or (hook if hook.endswith(("_loader", "_dataloader")) else "")
        if dropped is not None and dropped.literal is True and is_held_out(target) and (
            not _is_endless(reading, target) and not reading.mentions(*IN_BATCH)
        ):  # fmt: skip
            message = f"{target} drops the samples of its last batch"
            yield Match(call.span, message, fix="drop_last=False for evaluation.")
        if dropped is not None and (place := _dropped_for_test(reading, dropped, call)):
            message = "the last batch of the data for evaluation is dropped"
            yield Match(place.span, message, fix="drop_last=False for evaluation.")
        if is_inverted(call):
            message = "data for training stay in their order: shuffle is inverted"
            yield Match(call.span, message, fix="shuffle=True for training.")
        loops = [reading.loops[n] for n in reading.loops_of(call)]
        labelled = any("_" not in loop.targets for loop in loops)
        if labelled and _is_unshuffled(reading, call) and reading.trains_on(call):
            message = "the images are read in the order of their files, by class"
            yield Match(call.span, message, fix="shuffle=True for training.")
    for call in reading.named("DistributedSampler"):
        seed = call.keywords.get("seed")
        parts = [*seed.all_names, *(other.name for other in reading.inside(seed))] if seed else []
        if any("rank" in name.casefold() for name in parts):
            message = "the seed depends on the rank: ranks read some samples twice, others never"
            yield Match(call.span, message, "fail", fix="Give all ranks one seed.")
    yield from moved_in_workers(reading)
    yield from _normalized_first(reading)
    yield from _one_seed(reading)
    yield from one_generator(reading)
    yield from changed_later(reading)


HELD_OUT = re.compile(r"\w+\s*==\s*['\"](?:val|valid|test|eval)\w*['\"]")


def _dropped_for_test(reading: Training, dropped: Value, call: Call) -> Assignment | None:
    """drop_last = True under `if flag == "test"`."""
    for each in evaluate.definitions_at(reading, dropped.name, call) if dropped.name else ():
        tests = [reading.test_of(branch) for branch, arm in each.arms if arm == 0]
        asked = any(test is not None and HELD_OUT.fullmatch(test.text) for test in tests)
        single = any(a.target == "batch_size" and a.value.literal == 1 and a.arms == each.arms
                     for a in reading.assigned_to("batch_size", each.scope))  # fmt: skip
        if each.value.literal is True and asked and not single:
            return each
    return None


def _is_endless(reading: Training, target: str) -> bool:
    """cycle(loader): batches are drawn without an end, and the last one comes around again."""
    return any(value.name == target for call in reading.named("cycle") for value in call.args)


def _is_unshuffled(reading: Training, call: Call) -> bool:
    """No shuffle, no sampler, and a dataset of torchvision for training."""
    shuffle = call.keywords.get("shuffle") or (call.args[2] if len(call.args) > 2 else None)
    if shuffle is not None and evaluate.truth(reading, shuffle, call) is not False:
        return False
    if {"sampler", "batch_sampler"} & call.keywords.keys() or call.unpacked:
        return False
    data = call.given("dataset", 0)
    options = evaluate.options(reading, data, call)
    made = reading.calls_of(options)
    return bool(made) and len(made) == len(options) and all(
        each.name.startswith(OF_TORCHVISION)
        and (train := each.keywords.get("train", Value("literal", literal=True))).literal is True
        and train.kind == "literal"
        for each in made
    )  # fmt: skip


def _normalized_first(reading: Training) -> Iterator[Match]:
    for call in reading.named("Compose"):
        given = evaluate.options(reading, call.args[0], call) if call.args else []
        items = given[0].items if len(given) == 1 and given[0].kind == "list" else ()
        names = [reading.calls[v.call].name for v in items if v.kind == "call"]
        for wanted in ("torchvision.transforms.Normalize", "torchvision.transforms.RandomErasing"):
            after = "torchvision.transforms.ToTensor"
            if wanted in names and after in names and names.index(wanted) < names.index(after):
                short = wanted.rpartition(".")[2]
                message = f"{short} comes before ToTensor: it raises"
                yield Match(call.span, message, "fail", fix=f"Put ToTensor before {short}.")


def stream_repeated(reading: Training) -> Iterator[Match]:
    """An IterableDataset whose workers all read the same files."""
    if reading.mentions(
        "get_worker_info", "worker_init_fn", "split_by_worker", "worker_id", "initial_seed"
    ):
        return
    if reading.imports_from("datasets", "webdataset", "litdata", "streaming"):  # these split
        return
    streams = {c.name for c in reading.script.classes
               if any(b.endswith("IterableDataset") for b in c.bases)}  # fmt: skip
    for call in reading.named("DataLoader") if streams else ():
        data = call.given("dataset", 0)
        made = [reading.calls[v.call].name for v in evaluate.options(reading, data, call)
                if v.kind == "call"] if data is not None else []  # fmt: skip
        if len(made) != 1 or made[0] not in streams or not has_workers(reading, call):
            continue
        if _reads_all(reading, made[0]):
            yield Match(call.span, f"every worker reads all of {made[0]}: samples repeat")


OF_WORKERS = ("random.", "torch.rand", "numpy.random.")
"""What draws from a state that each worker has of its own."""


def _reads_all(reading: Training, name: str) -> bool:
    """What __iter__ of a class runs loops over something, and draws nothing."""
    start = objects.method_of(reading, name, "__iter__")
    numbers = calls_reached(reading, reading.scope_calls(start)) if start is not None else []
    calls = [reading.calls[n] for n in numbers]
    scopes = {start, *(call.scope for call in calls)}
    over = [loop.iterable for loop in reading.loops if loop.scope in scopes]
    drawn = any(c.name.startswith(OF_WORKERS) and c.method not in ("shuffle", "Random",
                "default_rng", "RandomState", "Generator") for c in calls)  # fmt: skip
    return any(v is not None and (v.name or v.names) for v in over) and not drawn


def _one_seed(reading: Training) -> Iterator[Match]:
    """worker_init_fn sets one constant seed in all workers."""
    for call in reading.named("DataLoader"):
        value = call.keywords.get("worker_init_fn")
        if value is None:
            continue
        scopes = reading.functions_by_name.get(value.name, ()) if value.name else ()
        inside = [n for scope in scopes for n in reading.scope_calls(scope)]
        inside += value.calls
        seeds = [reading.calls[n] for n in inside if reading.calls[n].name in SEEDS]
        if seeds and all(
            each.args and not each.args[0].calls and each.args[0].kind == "literal"
            for each in seeds
        ):
            message = "each worker gets the same seed: equal numbers in all"
            yield Match(seeds[0].span, message, fix=PER_WORKER)


def seed_in_loop(reading: Training) -> Iterator[Match]:
    for number, call in reading.numbered(reading.methods("manual_seed", "seed", "set_seed")):
        fixed = call.args and not call.arms and _is_constant(reading, call.args[0], call)
        if call.name not in SEEDS or not call.loops or not fixed:
            continue
        inside = reading.by_loop[call.loops[0]]
        made = any(
            n in reading.optimizers or reading.calls[n].name in reading.modules for n in inside
        )
        later = [n for n in inside if n > number and reading.calls[n].loops[:1] == call.loops]
        made |= any(
            (reading.calls[n].method in ("seed", "set_rng_state") and not reading.calls[n].args[:1])
            or reading.calls[n].method == "set_rng_state"
            for n in later
        )  # fmt: skip
        if len(call.loops) == 1 and not made and any(n in reading.backward_numbers for n in inside):
            yield Match(call.span, f"{call.name}() in the loop: every epoch draws the same numbers")


def _is_constant(reading: Training, value: Value, call: Call) -> bool:
    """Nothing that the loop changes."""
    targets = {t for n in call.loops for t in reading.loops[n].targets}
    if targets.intersection(value.all_names) or value.calls:
        return False
    return value.kind in ("literal", "name")


RULES = (
    Rule(
        code="SCR332",
        slug="stream-repeated",
        title="Workers share the samples of a stream",
        severity="warn",
        find=stream_repeated,
        why="Every worker of a loader has its own copy of an IterableDataset. Without a split by "
        "get_worker_info() each sample is read as often as there are workers.",
        fires=("an IterableDataset over files or rows, num_workers, and no get_worker_info",),
        fix="In __iter__, keep every num_workers-th file, by torch.utils.data.get_worker_info().",
        sources=("torch-iterable-dataset",),
        needs=("IterableDataset",),
    ),
    Rule(
        code="SCR286",
        slug="loader-settings",
        title="Loaders read all samples, and training samples in random order",
        severity="warn",
        find=loader_settings,
        why="Images in the order of their classes teach the last class of a batch; a dropped last "
        "batch changes the metric; workers that touch CUDA raise.",
        fires=(
            "a loader over a training set of torchvision without shuffle; shuffle=not train",
            "drop_last=True of a loader for validation or test, also under a test of the part",
            "a random generator that a dataset makes in __init__, or the file at its start, and "
            "uses in __getitem__, and workers; the same of a transform's __init__ and __call__",
            "worker_init_fn with a constant seed",
            "an attribute that items read, set between the epochs of persistent workers",
        ),
        errors=(
            "the seed of a DistributedSampler depends on the rank",
            "cuda() in __getitem__ or in collate_fn, and num_workers above 0",
            "Normalize before ToTensor",
        ),
        fix="shuffle=True for training, drop_last=False for evaluation, one seed for all ranks; a "
        "generator per worker, made in __getitem__ or in worker_init_fn; move batches to "
        "the GPU in the loop.",
        sources=("nni-4692", "longlive-71", "attention-is-all-you-need-pytorch-14", "torchsig-343"),
    ),
    Rule(
        code="SCR301",
        slug="seed-set-in-loop",
        title="The seed is set once",
        severity="warn",
        find=seed_in_loop,
        training=True,
        why="A seed that is set again in every epoch repeats its shuffling, dropout and "
        "augmentation: the model sees the same epoch each time.",
        fires=("a constant seed in the loop over epochs",),
        fix="Set the seed before the loop.",
        sources=("torch-randomness",),
    ),
)
