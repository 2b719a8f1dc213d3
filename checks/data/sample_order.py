"""Which samples come, and in which order: batches, workers, epochs."""

from __future__ import annotations

from doctor.checks.data.agreement_meanings import MEANINGS
from doctor.checks.data.relations import Meanings, verdicts
from doctor.checks.data.seen import no_training, observed, passed, rows, share
from doctor.facts.data import Data, Split
from doctor.facts.data_batches import Mixing
from doctor.facts.data_rows import RelationKind
from doctor.judge.check import Check, Owner, Status, Verdict, fail, note, ok, skip, unknown, warn

MANY = 16
"""Samples of a class on average, below which a number is one of the sample. Our own number."""
RARE = 1.5
"""Batches for one that a permutation would give one class: else most samples are of one class.
Our own number."""
SORTED = 0.75
"""Share of batches of one class; where a class ends, a batch has two. Our own number."""


def mixed(data: Data) -> Verdict:
    split = data.split()
    if split is None or not split.rows:
        return no_training(data)
    mixing = split.mixing
    if mixing is None or not mixing.samples:
        return skip("the training loader gives neither tokens nor tensors, or too long rows")
    if split.labels is not None and split.labels.unlabelled == split.labels.documents:
        return skip("no row has a trained label, see DAT001")
    found = (
        _impossible(mixing, split)
        or _shares(mixing, split)
        or _one_class(mixing, split)
        or _order(mixing, split)
    )
    if found.status is not Status.PASS and verdicts(split.relations, EXPLAINING):
        return skip("which samples come, or their order, has a cause of its own, see DAT022")
    return found


LOADING = ("torch-data-loading",)
EMPTY, CONSTANT = 0.01, 0.05
"""Shares of samples from which on it is a warning; a few images may be blank as they were taken.
Our own numbers."""
MOST_BARE = 0.3
"""Share of samples without an object and of one value, as slices and tiles beside it are black, up
to which nothing is said of them: what cannot be read may give neither, too. Our own number."""
BARE = (
    "Look at the rows that are named: drop what could not be read or decoded, and draw from the "
    "part of a buffer that is filled."
)
FLOORED = (
    "Divide as floats: array.astype('float32') / 255, not // 255, and no division before the "
    "conversion."
)
OF_ORDER: tuple[RelationKind, ...] = (
    "weights short", "weights of other rows", "rows counted by batches", "batch overwritten",
    "files in text order", "dates in text order", "lines of other files", "time runs back",
    "end not marked", "end marked late", "next state of another episode",
    "positive of another", "negative is positive",
)  # fmt: skip
EXPLAINING: Meanings = {kind: MEANINGS[kind] for kind in OF_ORDER}
"""Relations that say which samples are drawn, or that their order is meant."""


def _seen(mixing: Mixing, split: Split) -> int:
    """Samples that count: an endless loader may give the same few again and again."""
    return mixing.samples if split.total is not None else mixing.distinct


def _impossible(mixing: Mixing, split: Split) -> Verdict | None:
    if mixing.constant == mixing.samples and mixing.samples > 1:
        return fail(f"every one of {mixing.samples:,} samples has one value at all its places")
    if mixing.empty == mixing.samples:
        return fail(f"every one of {mixing.samples:,} samples is empty")
    pairs = split.pairs
    if pairs is not None and pairs.equal == pairs.pairs:
        return None  # see DAT016
    if mixing.distinct == 1 and mixing.samples > 3:
        if split.total is None and split.rows == split.batches:
            return note(f"the loader gives one batch again and again, {split.batches:,} times")
        return fail(f"all {mixing.samples:,} samples are the same")
    return None


def _shares(mixing: Mixing, split: Split) -> Verdict | None:
    beside = mixing.bare * (mixing.bare <= MOST_BARE * mixing.samples)
    constant = mixing.constant - beside
    for count, least, text in (
        (mixing.empty, EMPTY, "samples are empty"),
        (constant, CONSTANT, "samples have one value at all their places"),
    ):
        at = f": {rows(mixing.rows)}" if mixing.rows else ""
        whole = f"{share(count, mixing.samples, text)}{at}"
        if count >= max(1, least * mixing.samples):
            floored = count == constant and _is_floored(split)
            cause = "; all values are 0 and 1, as whole-number division leaves them" * floored
            fix = FLOORED if floored else BARE
            return observed(f"{whole}{cause}", _seen(mixing, split), fix=fix, sources=LOADING)
        if count >= max(1, EMPTY * mixing.samples):
            return note(whole, fix=BARE)
    return None


def _is_floored(split: Split) -> bool:
    """Whether images of three colours have no values between 0 and 1."""
    inputs = split.inputs
    if inputs is None or len(inputs.shape) != 4 or 3 not in (inputs.shape[1], inputs.shape[3]):
        return False
    return inputs.whole and float(inputs.low) == 0 and float(inputs.high) == 1


def _one_class(mixing: Mixing, split: Split) -> Verdict | None:
    if mixing.classes != 1 or mixing.class_is_trained is False or mixing.samples < 2:
        return None
    text = f"all {mixing.samples:,} samples have the same class"
    if mixing.class_is_trained is None and not mixing.named:
        return note(f"{text}, if the last tensor or label of the batch is one", fix=ONE_CLASS)
    return observed(text, _seen(mixing, split), fix=ONE_CLASS)


ONE_CLASS = (
    "Look at how the labels are read, as bool() of the text 'False' is true: compare with 'True'. "
    "Or shuffle before the data are cut to a part. A constant class teaches nothing."
)


STREAM = (
    "Shuffle within the IterableDataset, for which DataLoader refuses shuffle=True: mix the files "
    "before they are read, and draw from a buffer that is larger than a class, as "
    "dataset.shuffle(buffer_size=...) of datasets and WebDataset do."
)


def _order(mixing: Mixing, split: Split) -> Verdict:
    enough = mixing.batches >= 8 and mixing.samples >= 64
    sorted_by_class = mixing.classes > 1 and mixing.single >= SORTED * mixing.batches
    if enough and sorted_by_class and mixing.drawn < 0.5 * mixing.single:
        text = (
            f"{mixing.single:,} of {mixing.batches:,} batches have one class, of "
            f"{mixing.classes:,} in all; "
            f"shuffled, {mixing.drawn:.1f} would"
        )
        if mixing.own_order:
            return note(f"{text}; a sampler of its own chooses them")
        return warn(text, fix=STREAM if mixing.streamed else None)
    one_each = mixing.runs == mixing.classes > 1 and mixing.samples >= MANY * mixing.classes
    mostly = mixing.drawn * RARE >= mixing.batches
    if enough and one_each and not mixing.own_order and not mostly:
        text = f"{mixing.samples:,} samples come in {mixing.runs} stretches of one class each"
        return warn(
            f"{text}: the rows are sorted by their class, and nothing shuffles them",
            fix=STREAM if mixing.streamed else None,
        )
    if mixing.kinds > 1:
        return note(f"batches have {mixing.kinds} different structures")
    return passed(f"{mixing.distinct:,} of {mixing.samples:,} samples are different", split)


MIXED = Check(
    code="DAT009",
    slug="batches-mixed",
    title="Samples are neither empty, constant nor all equal, and batches mix classes",
    why="A loader that does not shuffle data sorted by class gives each step one class. Samples "
    "that are empty or constant teach nothing.",
    passes=("samples differ, and some batch has two classes where the data have",),
    notes=(
        "batches have several structures",
        "at least 1 % of the samples have one value everywhere",
        "a sampler of the user's puts one class in a batch",
        "an endless loader gives one batch again and again",
    ),
    warns=(
        "three quarters of 8 or more batches have one class, and all together several",
        "64 or more samples come in one stretch for each class",
        "at least 1 % of 32 or more samples are empty, or 5 % have one value everywhere",
        "32 or more samples have one class",
    ),
    fails=("all samples are the same, empty, or have one value everywhere",),
    fix="Set shuffle=True in the training loader.",
    owner=Owner.JOB,
    judge=mixed,
    limits="that batches later in the epoch are mixed.",
    sources=("normface-4", "matconvnet-393"),
)

TWINS = 0.5
"""Share of samples that two workers deliver. Our own number."""


def different(data: Data) -> Verdict:
    split = data.split()
    seeded = _seeded(split) if split is not None else None
    if seeded is not None:
        return seeded
    workers = split.workers if split is not None else None
    if workers is None:
        return skip("the training loader has fewer than two workers")
    text = share(workers.twins, workers.samples, "samples come from two workers")
    if workers.twins >= TWINS * workers.samples and workers.twins:
        if workers.alone is None:
            return unknown(f"{text}; whether they are equal without workers could not be read")
        if not workers.alone:
            fix = None
            if workers.drawn:
                text = f"{text}, from copies of a generator that the dataset has itself"
                fix = OWN_STREAM
            what = f"{text}, and without workers all are different"
            return observed(what, workers.samples, fix=fix)
    return ok(f"{text}; {workers.workers} workers")


def _seeded(split: Split) -> Verdict | None:
    """What worker_init_fn does to the random numbers of the rows."""
    seeds = split.seeds
    if seeds is None:
        return None
    if seeds.equal_workers:
        epochs = ", in every epoch" if seeds.equal_epochs and not seeds.persistent else ""
        if seeds.copied:
            text = "each worker gets a copy of the dataset's own generator: they draw the same"
            return warn(f"{text} random numbers{epochs}", fix=OWN_GENERATOR)
        text = "worker_init_fn gives all workers one seed: they draw the same random numbers"
        return warn(f"{text}{epochs}", fix=SEEDS)
    if seeds.equal_epochs and not seeds.persistent and not seeds.copied:
        text = "worker_init_fn gives a worker the same seed in every epoch: the same random changes"
        return note(f"{text} come again", fix=SEEDS)
    return None


OWN_GENERATOR = (
    "Draw from torch, random or numpy.random, which torch seeds in each worker; or make the "
    "generator in the worker: np.random.default_rng(torch.initial_seed()) in worker_init_fn or at "
    "the first row."
)
OWN_STREAM = (
    "Make the generator in __iter__, from the seed that torch gives each worker: "
    "np.random.default_rng(torch.initial_seed()). Rows that are read and not made are divided by "
    "torch.utils.data.get_worker_info(), too."
)
SEEDS = (
    "Leave out worker_init_fn: torch seeds its own numbers, Python's and numpy's for each worker "
    "and epoch. Or seed from torch.initial_seed() % 2**32 in it."
)

DIFFERENT = Check(
    code="DAT011",
    slug="workers-differ",
    title="Workers of the loader deliver different samples",
    why="Every worker has a copy of an IterableDataset. One that does not divide its rows by "
    "get_worker_info() delivers each sample as often as there are workers.",
    passes=("fewer than half of the first samples come from two workers",),
    notes=("worker_init_fn seeds a worker alike in every epoch, and rows are random",),
    warns=(
        "at least half of 32 or more do, and without workers all are different",
        "worker_init_fn seeds all workers alike, or they copy a generator of the dataset, and rows "
        "are random",
    ),
    fix="Divide the rows in __iter__: worker = torch.utils.data.get_worker_info(), and yield "
    "itertools.islice(rows, worker.id, None, worker.num_workers).",
    owner=Owner.JOB,
    judge=different,
    limits="that the ranks of a job read different samples.",
    sources=("torch-dataloader",),
)


CHECKS = (MIXED, DIFFERENT)
