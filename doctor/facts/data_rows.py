"""Records on rows, batches and files of the data, counted, without thresholds."""

from __future__ import annotations

from typing import Literal

from doctor._util.records import Number, Section

RowPairs = tuple[tuple[int, int], ...]
"""Rows of two splits, or of one, that are the same sample."""


class Repeats(Section, frozen=True, kw_only=True):
    """Equal rows within a split, by a 128-bit hash of the whole sample."""

    rows: int
    telling: int
    """Rows that are long enough, so that an equal one is no chance."""
    repeated: int = 0
    """Of those, rows that occurred before."""
    labelled: int = 0
    conflicting: int = 0
    """Rows that occurred before with another class."""
    pairs: RowPairs = ()


class Overlap(Section, frozen=True, kw_only=True):
    """Rows of the other split that train has, too."""

    train: int
    rows: int
    telling: int
    shared: int = 0
    pairs: RowPairs = ()


RelationKind = Literal[
    "answer ends prompt", "prompt begins answer", "one answer", "one class", "text empty",
    "roles repeat", "roles swapped", "role unknown", "markers in text", "side empty",
    "prompts differ", "query is positive", "positive among negatives",
    "header in rows", "decimals mixed", "units mixed", "dates mixed",
    "class has one value", "column separates", "window holds target", "history ends with target",
    "equal inputs", "decoder sees target", "span reversed", "span beyond", "span lost",
    "start twice", "target padding", "target without stop", "tag on special", "length beyond",
    "length counts padding", "weights short", "background class", "code for missing",
    "whole waveform", "files unpaired", "one pass", "scale differs", "layout differs",
    "class in eval alone", "windows shared", "eval random", "marker nowhere", "border nowhere",
    "mask against padding", "stop before answer", "start before answer", "seed in row",
    "map turned", "target broadcast", "column unscaled", "row not finite",
    "entities in text", "label in text", "special predicted", "borders wrong",
    "label ignored otherwise", "positive of another", "step changes nothing",
    "negative is positive", "code in column", "rows displaced", "sound rates mixed",
    "fitted on eval", "scaled apart", "group in both", "nearly in train",
    "weights inverted", "weights of other rows", "positive weight inverted",
    "columns reordered", "eval of one class", "units differ", "edge beyond",
    "points not swapped", "parts share nodes",
    "boxes in a corner", "unit of a group", "scale of a group",
    "edges without features", "types mixed", "rows counted by batches", "noise equal",
    "eval before train", "time runs back", "document repeated", "tags in text",
    "mask predicted", "answer elsewhere",
    "span beyond text", "span cuts words", "tags of other tokens",
    "languages exchanged", "text not translated",
    "files in text order", "links in graph",
    "merge multiplies", "merge without partners", "columns beside others",
    "edges not moved", "edges between graphs", 
    "target is input", "end not marked", "end marked late",
    "targets no probabilities", "row beyond table",
]  # fmt: skip
"""What holds between fields of a row, between rows, two passes or two splits."""


class Relation(Section, frozen=True, kw_only=True):
    """How often something holds."""

    kind: RelationKind
    part: int
    whole: int
    fields: tuple[str, ...] = ()
    """Names of the fields or columns."""
    rows: tuple[int, ...] = ()
    numbers: tuple[Number, ...] = ()
    """What the sentence of this kind gives, as ranges."""


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


class Numbering(Section, frozen=True, kw_only=True):
    """Names that the datasets of train and eval number in an attribute of one name."""

    name: str
    """The attribute, such as class_to_idx."""
    shared: int
    moved: int = 0
    """Of these, with another number in eval."""
    example: str = ""
    numbers: tuple[int, int] = (0, 0)
    """Of the example, in train and in eval."""


class Mixing(Section, frozen=True, kw_only=True):
    """The samples of batches."""

    samples: int
    distinct: int = 0
    empty: int = 0
    constant: int = 0
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


class Spellings(Section, frozen=True, kw_only=True):
    """A column whose values differ in case or space alone."""

    column: str
    values: int
    classes: int
    minor: int = 0
    """Rows with another spelling than the most frequent one of their class."""
    pairs: RowPairs = ()


class Cut(Section, frozen=True, kw_only=True):
    """Answers of one length, the longest, that end within a sentence."""

    column: str
    length: int
    """Characters."""
    rows: int
    of: int


class Sentinel(Section, frozen=True, kw_only=True):
    """A number far from all others of its column, such as -999."""

    column: str
    value: Number
    rows: int
    of: int


class Leak(Section, frozen=True, kw_only=True):
    """A column that has a value in all rows of some classes, and in none of the others."""

    column: str
    label: str
    rows: int
    filled: int
    """Rows with a value."""


class RowTexts(Section, frozen=True, kw_only=True):
    """The rows of files and tables as they are written."""

    rows: int
    answers: int = 0
    empty: int = 0
    empty_rows: tuple[int, ...] = ()
    marked_by: str = ""
    """A column that has one value where the answer is empty, and another one elsewhere."""
    contexts: int = 0
    """Of the answers, those to a question about a text of the row."""
    escaped: int = 0
    """Rows whose line breaks are a backslash and a letter."""
    escaped_rows: tuple[int, ...] = ()
    chats: int = 0
    """Chats whose answer stands nowhere else."""
    asked: int = 0
    """Of those, the ones whose last message is the user's."""
    asked_rows: tuple[int, ...] = ()
    documents: int = 0
    """Rows of text without a class, a question or an answer."""
    pages: int = 0
    """Of those, pages of an error or a block."""
    page_rows: tuple[int, ...] = ()
    garbled: int = 0
    garbled_rows: tuple[int, ...] = ()
    spellings: tuple[Spellings, ...] = ()
    leaks: tuple[Leak, ...] = ()
    cuts: tuple[Cut, ...] = ()
    sentinels: tuple[Sentinel, ...] = ()


class Epochs(Section, frozen=True, kw_only=True):
    """The order of the samples in two epochs of a loader that trains, under a DistributedSampler
    that shuffles."""

    sampler: str
    epochs: int = 0
    compared: int = 0
    """Different samples at the beginning of two epochs in a row."""
    same: bool = False


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


class Pairs(Section, frozen=True, kw_only=True):
    """Chosen and rejected answers."""

    pairs: int
    equal: int = 0
    rows: tuple[int, ...] = ()
    scored: int = 0
    """Pairs with a score of both."""
    swapped: int = 0
    """Pairs whose chosen answer has the lower one."""


class Shards(Section, frozen=True, kw_only=True):
    """Files of rows, by name."""

    files: int
    empty: tuple[str, ...] = ()
    short: tuple[str, ...] = ()
    """Less than a tenth of the middle size, and not the last of their series."""
    equal: tuple[tuple[str, ...], ...] = ()
    missing: tuple[str, ...] = ()
    """Numbers of a series that no file has: "3 of 12"."""


class Rendered(Section, frozen=True, kw_only=True):
    """Rows of a file as the tokenizer and its chat template render them."""

    rows: int
    failed: int = 0
    errors: dict[str, int] = {}
    """Class of the exception -> rows."""
    failed_rows: tuple[int, ...] = ()
    unlike: int = 0
    """Chats whose beginning is not the prompt that generation gets."""
    lost: int = 0
    """Chats of which the template leaves the last question or answer out."""
    lost_rows: tuple[int, ...] = ()
    calls: int = 0
    """Of the rows, those with a call of a tool and no text, which the template refuses; they are
    rendered with an empty text."""


class Markers(Section, frozen=True, kw_only=True):
    """What stands before answers, and markers that are plain text."""

    documents: int
    template: bool = False
    answers: int = 0
    """Documents with a prompt that is not trained."""
    prompt: str = ""
    """What the template adds for generation."""
    marked: int = 0
    """Answers' documents in which that occurs."""
    prompted: int = 0
    """Training begins behind it."""
    late: int = 0
    """The first token behind it is not trained."""
    early: int = 0
    elsewhere: int = 0
    questions: int = 0
    """Documents with what stands before a question of the user."""
    unanswered: int = 0
    """Of those, the ones without the prompt for an answer."""
    bos: str = ""
    without_bos: int = 0
    foreign: dict[str, int] = {}
    """Marker of another family -> documents that have it as plain text."""
    split: dict[str, int] = {}
    """Special token of the tokenizer -> documents that spell it in several tokens."""
    pieces: dict[str, int] = {}
    """Marker of the template that is no token -> documents that have it."""
    rows: tuple[int, ...] = ()
