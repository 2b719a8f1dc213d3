"""Rules on the part of the data that each process reads."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.checks.script import evaluate
from doctor.checks.script.loop.order import calls_reached
from doctor.checks.script.naming import is_held_out, is_training
from doctor.checks.script.ranks import OTHERS, depends_on_rank, wrapping_calls
from doctor.checks.script.reading import exclusive
from doctor.checks.script.rule import Match, Rule
from doctor.checks.script.training import Training
from doctor.facts.script import Call


def set_epoch_missing(reading: Training) -> Iterator[Match]:
    calls = reading.named("set_epoch")
    fixed = [each for each in calls if each.receiver and [v.kind for v in each.args] == ["literal"]]
    epochs = {reading.calls[n].scope for n in reading.backwards if len(reading.calls[n].loops) > 1}
    if fixed and len(fixed) == len(calls) and (fixed[0].loops or fixed[0].scope in epochs):
        message = (
            f"the sampler shuffles alike in every epoch: set_epoch({fixed[0].args[0].literal})"
        )
        yield Match(fixed[0].span, message)
    others = calls and all(is_held_out(each.receiver) for each in calls)
    if (reading.mentions("set_epoch") and not others) or reading.imports_from(*OTHERS):
        return
    for number, call in reading.numbered(reading.methods("DistributedSampler")):
        known = call.name == "DistributedSampler" or call.name.startswith("torch.")
        loader = _loader_of(reading, call, number) if known and _shuffles(reading, call) else None
        if loader is None or any(is_held_out(name) for name in (*call.targets, *loader.targets)):
            continue
        if _trains_in_epochs(reading) or _read_in_epochs(reading, loader, call):
            yield Match(call.span, "the sampler shuffles alike in every epoch: no set_epoch()")


def _shuffles(reading: Training, call: Call) -> bool:
    """By default, by what is given, or for training where a function makes both parts."""
    shuffle = evaluate.argument(reading, call, "shuffle", 3)
    if shuffle is None or evaluate.truth(reading, shuffle, call) is True:
        return True
    return shuffle.kind == "test" and bool(TRAINS.search(shuffle.text))


def _loader_of(reading: Training, sampler: Call, number: int) -> Call | None:
    """The DataLoader that gets the sampler."""
    for call in reading.named("DataLoader"):
        value = call.keywords.get("sampler")
        if value is not None and (value.call == number or value.name in sampler.targets):
            return call
    return None


TRAINS = re.compile(r"== *['\"]train|^(?:\w+\.)*(?:is_)?train(?:ing)?$")


def _trains_in_epochs(reading: Training) -> bool:
    """In a loop over numbers, also by way of functions, a loop over something else trains."""
    return any(
        _counts(reading, outer)
        and any(
            not _counts(reading, inner)
            and not reading.backward_numbers.isdisjoint(calls_reached(reading, [n]))
            for n in calls_reached(reading, reading.by_loop.get(outer, []))
            for inner in reading.calls[n].loops
        )
        for outer in range(len(reading.loops))
    )


def _read_in_epochs(reading: Training, loader: Call, sampler: Call) -> bool:
    """Another file does the steps: a loop over numbers holds the loop over this loader, with
    gradients, and nothing gets the number and the loader."""
    inner = {n for target in loader.targets for n in reading.loops_over(loader.scope, target)}
    around = {call.loops[:-1] for n in inner for m in reading.by_loop[n]
              if (call := reading.calls[m]).loops[-1:] == (n,)}  # fmt: skip
    quiet = all(reading.under_no_grad(reading.calls[m].contexts) for n in inner
                for m in reading.by_loop[n])  # fmt: skip
    names = {*loader.targets, *sampler.targets}
    epochs = any(_counts(reading, outer) and not quiet and not _is_told(reading, outer, names)
                 for loops in around for outer in loops)  # fmt: skip
    return epochs and not reading.backwards and is_training("".join(loader.targets))


def _is_told(reading: Training, loop: int, names: set[str]) -> bool:
    """begin(train_loader, epoch)."""
    numbers = set(reading.loops[loop].targets)
    given = ({v.name for v in reading.calls[n].values} for n in reading.by_loop[loop])
    return any(each & names and each & numbers for each in given)


def _counts(reading: Training, loop: int) -> bool:
    """`while`, or `for` over a range: epochs or steps, and no data."""
    value = reading.loops[loop].iterable
    made = reading.calls[value.call].method if value and value.kind == "call" else ""
    over = made in ("range", "trange", "count") or (made in ("tqdm", "track") and value and any(
        call.method == "range" for call in reading.inside(value)))  # fmt: skip
    return value is None or bool(over)


def sampler_and_shuffle(reading: Training) -> Iterator[Match]:
    for call in reading.named("DataLoader"):
        if not call.name.startswith("torch.") or evaluate.unpacks_unknown(reading, call):
            continue
        shuffle = evaluate.argument(reading, call, "shuffle", 2)
        shuffled = shuffle is not None and evaluate.truth(reading, shuffle, call) is True
        for position, name in ((3, "sampler"), (4, "batch_sampler")):
            sampler = evaluate.argument(reading, call, name, position)
            if sampler is None or sampler.kind == "choice":
                continue
            made = evaluate.options(reading, sampler, call)
            if not made or any(each.kind != "call" for each in made):
                continue
            size = evaluate.argument(reading, call, "batch_size", 1) if position == 4 else None
            if shuffled:
                yield Match(call.span, f"DataLoader({name}=..., shuffle=True) raises a ValueError")
            elif size is not None and evaluate.literals(reading, size, call) - {1, "?"}:
                yield Match(call.span, "DataLoader(batch_sampler=..., batch_size=...) raises")


RANDOM = {"RandomSampler", "WeightedRandomSampler", "SubsetRandomSampler"}


WORLD = re.compile(r"world|replicas|num_processes|process_count|n_?ranks|num_nodes", re.IGNORECASE)
PARTS = {"DistributedSampler": ("num_replicas", "rank"), "shard": ("num_shards", "index"),
         "split_dataset_by_node": ("world_size", "rank")}  # fmt: skip
"""How a part of the data is asked for: the number of parts, and which one."""


def one_part_for_all(reading: Training) -> Iterator[Match]:
    """A rank that is written as a number, beside a number of processes that is not."""
    for method, (count, place) in PARTS.items():
        for call in reading.named(method):
            parts, rank = call.keywords.get(count), call.keywords.get(place)
            if parts is None or rank is None or rank.kind != "literal" or call.loops:
                continue
            if parts.kind != "literal" and WORLD.search(",".join(parts.all_names)):
                text = f"{method}({place}={rank.literal}) gives every process the same part"
                yield Match(call.span, f"{text} of the data")


def ddp_without_sampler(reading: Training) -> Iterator[Match]:
    yield from one_part_for_all(reading)
    if not wrapping_calls(reading) or reading.imports_from(*OTHERS, "webdataset"):
        return
    left = list(_left_out(reading))
    yield from left or _without_sampler(reading)


def _without_sampler(reading: Training) -> Iterator[Match]:
    if reading.mentions("shard_", "split_dataset_by_node", "iterabledataset", "num_replicas"):
        return
    if any(_shares(reading, number) for number in reading.calls_where(_is_sampler)):
        return
    for call in reading.named("DataLoader"):
        if call.unpacked or "batch_sampler" in call.keywords or not reading.trains_on(call):
            continue
        data = call.given("dataset", 0)
        if data is None or depends_on_rank(reading, data, call):
            continue
        shuffle, sampler = call.keywords.get("shuffle"), call.keywords.get("sampler")
        shuffled = shuffle is not None and evaluate.truth(reading, shuffle, call) is True
        made = evaluate.options(reading, sampler, call)
        drawn = made and all(
            v.kind == "call" and reading.calls[v.call].method in RANDOM for v in made
        )
        if (shuffled and sampler is None) or drawn:
            yield Match(call.span, "every process reads the whole data: no DistributedSampler")


def _left_out(reading: Training) -> Iterator[Match]:
    """A sampler that only set_epoch() gets, and a loader that shuffles the same data itself."""
    for number, call in reading.numbered(reading.methods("DistributedSampler")):
        data = call.given("dataset", 0)
        if data is None or data.kind != "name" or _shares(reading, number):
            continue
        name = call.targets[0]
        for loader in reading.named("DataLoader") if "." not in name else ():
            own, shuffle = loader.given("dataset", 0), loader.keywords.get("shuffle")
            samples = loader.unpacked or {"sampler", "batch_sampler"} & loader.keywords.keys()
            same = own is not None and own.name == data.name and loader.scope == call.scope
            shuffled = shuffle is not None and shuffle.literal is True and len(loader.args) < 4
            if same and shuffled and not samples and not exclusive(loader.arms, call.arms):
                message = f"{name} is given to no loader: every process reads the whole data"
                yield Match(loader.span, message, fix=f"Pass sampler={name}, and omit shuffle.")
                break


def _is_sampler(name: str) -> bool:
    return "sampler" in name.casefold() and name not in RANDOM


def _shares(reading: Training, number: int) -> bool:
    """A sampler that something uses, beyond the start of its epochs."""
    call = reading.calls[number]
    if call.method != "DistributedSampler" or len(call.targets) != 1:
        return True
    return reading.key(call.targets[0], call.scope) in reading.cached(_read)


def _read(reading: Training) -> set[tuple[object, str]]:
    """Keys of all names that an expression or a loop reads."""
    values = [(value, scope) for value, _, scope in reading.expressions]
    values += [(each.iterable, each.scope) for each in reading.loops if each.iterable is not None]
    names = {(name, scope) for value, scope in values for name in value.all_names if name}
    return {reading.key(name, scope) for name, scope in names}


NOT_TRAINING = re.compile(
    r"not\s+(?:\w+\.)?(?:is_?|for_)?train(?:ing)?|(?:\w+\.)?\w+\s*!=\s*['\"]train(?:ing)?['\"]|"
    r"['\"]train(?:ing)?['\"]\s*!=\s*(?:\w+\.)?\w+|(?:\w+\.)?\w+\s*==\s*['\"](?:val|valid|test|"
    r"eval)['\"]|(?:\w+\.)?\w+\s+in\s+[(\[{]\s*['\"](?:val|valid|test|eval)['\"].*"
)
FOR_TRAINING = re.compile(
    r"(?:\w+\.)?(?:is_?|for_)?train(?:ing)?|(?:\w+\.)?\w+\s*==\s*['\"]train(?:ing)?['\"]"
)


def is_inverted(call: Call) -> bool:
    """shuffle=not train, shuffle=split != "train", shuffle=False if train else True."""
    shuffle = call.keywords.get("shuffle") or (call.args[2] if len(call.args) > 2 else None)
    if shuffle is None or {"sampler", "batch_sampler"} & call.keywords.keys() or call.unpacked:
        return False
    if shuffle.kind == "choice":
        given = tuple(each.literal for each in shuffle.items)
        asked = NOT_TRAINING if given == (True, False) else FOR_TRAINING
        return given in ((True, False), (False, True)) and bool(asked.fullmatch(shuffle.text))
    return shuffle.kind == "test" and bool(NOT_TRAINING.fullmatch(shuffle.text))


RULES = (
    Rule(
        code="SCR251",
        slug="set-epoch-missing",
        title="A DistributedSampler shuffles anew in every epoch",
        severity="warn",
        find=set_epoch_missing,
        why="The order of a DistributedSampler depends on seed + epoch. Without set_epoch() every "
        "epoch has the same order, and every process the same part of the data.",
        fires=(
            "a shuffling DistributedSampler, a loop over epochs, and no set_epoch in the file",
            "set_epoch() in a loop, always with the same number",
        ),
        fix="Call sampler.set_epoch(epoch) at the start of every epoch.",
        needs=("DistributedSampler", "set_epoch"),
        sources=("torch-distributed-sampler",),
    ),
    Rule(
        code="SCR252",
        slug="ddp-without-sampler",
        title="Each process of DDP reads its own part of the data",
        severity="warn",
        find=ddp_without_sampler,
        why="Without a sampler every process reads all of the data: an epoch costs as much as on "
        "one GPU, and processes with equal seeds see equal batches.",
        fires=(
            "DDP or FSDP, and a shuffling DataLoader whose data know nothing of the rank",
            "a DistributedSampler that no loader gets, and a loader of its data that shuffles",
            "DistributedSampler(num_replicas=world_size, rank=0), and the like",
        ),
        fix="Pass sampler=DistributedSampler(dataset), without a rank of your own, and omit "
        "shuffle.",
        needs=(
            "DistributedSampler",
            "shard",
            "split_dataset_by_node",
            "DistributedDataParallel",
            "DDP",
            "FullyShardedDataParallel",
            "fully_shard",
        ),
        sources=("torch-distributed-sampler",),
    ),
    Rule(
        code="SCR257",
        slug="sampler-with-shuffle",
        title="A sampler decides the order alone",
        severity="fail",
        find=sampler_and_shuffle,
        why="DataLoader raises 'sampler option is mutually exclusive with shuffle'.",
        fires=("DataLoader(sampler=a sampler, shuffle=True), or batch_sampler beside batch_size",),
        fix="Omit shuffle; DistributedSampler shuffles by default.",
        needs=("DataLoader",),
        sources=("torch-dataloader",),
        words=(r"sampler\s*=",),
    ),
)
