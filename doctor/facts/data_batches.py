"""Records on batches of the data, and on the loader, counted, without thresholds."""

from __future__ import annotations

from typing import Literal

from doctor._util.records import Number, Section


class Indices(Section, frozen=True, kw_only=True):
    """Whole numbers, and the table that they index."""

    kind: Literal["ids", "classes", "positions", "types", "numbers"]
    entries: int
    table: str
    """Whose it is: "the model's embedding"."""
    highest: int
    lowest: int = 0
    beyond: int = 0
    """Rows, or numbers of a step, that it does not have."""
    alone: bool = False
    """The highest is the only number that it does not have, and others lie between."""
    rows: tuple[int, ...] = ()


class Column(Section, frozen=True, kw_only=True):
    """A column of the features that is the target, but for a factor and a difference, or the order
    of
    its values."""

    name: str
    column: int
    rows: int
    with_columns: tuple[int, ...] = ()
    """Others, the weighted sum of which with this one is the target."""
    times: bool = False
    """It is their product or quotient instead."""


class Agreement(Section, frozen=True, kw_only=True):
    """Whether the fields of the batches agree."""

    rows: int
    indices: tuple[Indices, ...] = ()
    lowest_id: int = 0
    negative: int = 0
    """Rows that begin or end with a token id below 0."""
    negative_rows: tuple[int, ...] = ()
    tokens: int = 0
    unknown: int = 0
    """Of the tokens, those for unknown words."""
    blank: int | None = None
    """The class that a CTC loss reserves for no letter."""
    targets: int = 0
    """Of such a loss."""
    blanks: int = 0
    """Of those, the ones that hold the blank."""
    filled: int = 0
    """Of those, the ones that hold it behind their letters alone."""
    longer: int = 0
    """Of those, the ones that are longer than their input."""
    empty: int = 0
    """Of those, the ones without a letter."""
    target_rows: tuple[int, ...] = ()
    nonfinite: str = ""
    """A field with NaN or Inf that no mask excludes, and its rows."""
    nonfinite_count: int = 0
    nonfinite_rows: tuple[int, ...] = ()
    columns: tuple[Column, ...] = ()
    turned: int = 0
    """Draws of samples whose image is a flip of that of the draw before."""
    followed: int = 0
    """Of those, where the mask or the boxes have changed."""


class Boxes(Section, frozen=True, kw_only=True):
    """Boxes of the first samples."""

    boxes: int
    corners: str = ""
    """Who expects two corners: "the model", "their format"; "": not known."""
    likely: bool = False
    """They stand beside "labels" and are no shares of the image, as in torchvision's targets."""
    turned: int = 0
    """Boxes that are no two corners in this order."""
    outside: int = 0
    """Boxes that leave the image, however they are read."""
    swapped: int = 0
    """Of those, shares of the image that lie within it where width and height are exchanged."""
    flat: int = 0
    """Boxes without a width or a height, also where they are corners."""


class Seeds(Section, frozen=True, kw_only=True):
    """Rows that workers read after the user's worker_init_fn, or by generators of the dataset,
    where rows are random."""

    workers: int
    equal_workers: bool
    """Two workers draw the same."""
    equal_epochs: bool
    """A worker draws the same in two epochs."""
    persistent: bool = False
    copied: bool = False
    """The rows are random by generators of the dataset, which each worker gets a copy of."""


class Rereading(Section, frozen=True, kw_only=True):
    """Rows that were read four times each, with the same random numbers."""

    rows: int
    how: Literal["same", "scaled", "longer", "raised", "other"]
    """scaled: each reading has `factor` times the values of the last, plus `difference`; longer:
    `difference` values more. Other: the rows have random numbers of their own."""
    row: int = 0
    """The one that changes."""
    field: str = ""
    factor: float = 1.0
    difference: float = 0.0
    error: str = ""


class Mixing(Section, frozen=True, kw_only=True):
    """The samples of batches."""

    samples: int
    distinct: int = 0
    empty: int = 0
    constant: int = 0
    bare: int = 0
    """Of the constant ones, those whose map has one class, or that have no box."""
    """All values, or all tokens, are equal."""
    rows: tuple[int, ...] = ()
    batches: int = 0
    """Batches whose samples have a class each."""
    classes: int = 0
    counts: dict[str, int] = {}
    """Class -> samples, the most frequent ones, with --show alone."""
    named: bool = False
    """The classes have a name in the batch, such as "labels"; else they are its last tensor."""
    class_is_trained: bool | None = None
    """Where all samples have one class: whether the loss changes with it; None: not measured."""
    single: int = 0
    """Batches of one class."""
    runs: int = 0
    """Stretches of samples of one class, as they come."""
    drawn: float = 0.0
    """The mean number of those where the same samples are permuted."""
    own_order: bool = False
    """A sampler of the user chooses the batches."""
    streamed: bool = False
    """The dataset is an IterableDataset, whose loader takes no sampler."""
    kinds: int = 1
    """Different structures among the batches."""


class LabelMaps(Section, frozen=True, kw_only=True):
    """Whole numbers for each pixel."""

    maps: int
    values: int
    flat: float = 0.0
    """Share of the pixels that are equal to the ones before and behind them."""
    borders: int = 0
    """Pixels whose neighbours differ by 2 or more."""
    between: int = 0
    """Of those, pixels strictly between their neighbours."""
    invented: int = 0
    """Values that stand at borders alone, between the values on both sides."""
    kinds: int = 0
    """Different combinations of such a pixel's value and its neighbours'."""
    unit_steps: int = 0
    """Places where two areas meet whose values differ by 1."""
    levels: int = 0
    """Values that divide 0 to 255 evenly, both among them: 0 and 255, or 0, 85, 170 and 255; 0:
    others."""
    as_stored: bool = False
    """The maps are bytes, as in their files."""
    broken: Literal["", "divided", "interpolated"] = ""
    """What was done to numbers of classes that are fractions: a division by 255, or an average at
    the borders of areas."""


class Epochs(Section, frozen=True, kw_only=True):
    """The order of the samples in two epochs of a loader that trains, under a DistributedSampler
    that shuffles."""

    sampler: str
    epochs: int = 0
    compared: int = 0
    """Different samples at the beginning of two epochs in a row."""
    same: bool = False
    told: bool = False
    """set_epoch() had told it of each epoch, outside of a training."""


class Inputs(Section, frozen=True, kw_only=True):
    """Values of images."""

    unscaled: str = ""
    """The normalization for 0 to 1 that was applied to 0 to 255, "" for none."""

    twice: str = ""
    """Images that were divided by 255 twice: "plain", or the normalization that followed."""
    again: str = ""
    """"twice: " and the normalization that was applied twice; "bytes: " and the one for 0 to 255
    that
    was applied to 0 to 1."""
    apart: bool = False
    """Values three places apart are alike along both sides, and neighbours are not."""
    name: str
    samples: int
    shape: tuple[int, ...]
    low: Number
    high: Number
    whole: bool = False
    """Every value is a whole number."""
    first: str = ""
    """Class of the layer where they were measured, "" where they are those of the batch."""
    stated: str = ""
    """Where the range is stated that the weights expect, "" if nowhere."""
    expected_low: float | None = None
    expected_high: float | None = None


class Workers(Section, frozen=True, kw_only=True):
    """Samples of the first batches of each worker."""

    workers: int
    samples: int
    twins: int = 0
    """Samples that a batch of another worker has, too."""
    alone: int | None = None
    """Samples that occur again without workers; None: not read."""
    drawn: bool = False
    """Samples are made by a generator that the dataset has itself."""


class Pace(Section, frozen=True, kw_only=True):
    """Batches of a loader that is asked for nothing else, after its workers have started."""

    batches: int
    seconds: float
    """From one batch to the next."""
    halves: tuple[float, float]
    """The same of the first and the second half."""
    delayed: float | None = None
    """Share of the time in which its processes could run that they waited for a core; None: the
    kernel does not count it."""
    workers: int = 0
