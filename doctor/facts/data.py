"""The data that reach the model: what was delivered, counted, without thresholds.

Content is in `shown` alone, which --show fills. Everywhere else a place is a number of a row, a
batch or a line.
"""

from __future__ import annotations

from typing import Literal

from doctor._util.records import Ended, Number, Section, Unknown
from doctor.facts.data_batches import (
    Agreement,
    Boxes,
    Epochs,
    Inputs,
    LabelMaps,
    Mixing,
    Pace,
    Rereading,
    Seeds,
    Workers,
)
from doctor.facts.data_rows import (
    Markers,
    Numbering,
    Overlap,
    Pairs,
    Relation,
    Rendered,
    Repeats,
    RowTexts,
    Shards,
)

Objective = Literal["next token", "other tokens", "classes", "none"]
"""What the labels are: the tokens of the row itself, other tokens (masked or of a decoder), one
class per row or token, or absent."""


class Problem(Section, frozen=True, kw_only=True):
    """Where reading ended early. What libraries say is left out, because they quote rows."""

    error: str
    """The class of the exception, or what was delivered in place of a batch."""
    place: str = ""
    """File and line of the user's code that raised: "train.py:31"; or the file of several that has
    the row."""
    row: int | None = None
    """The row, or the line of a file from 1."""
    batch: int | None = None
    line: bool = False
    """`row` is a line of a file."""
    reason: Literal["", "package", "form", "pointer"] = ""
    """Why nothing is wrong with the data: package: the reader of this form is not installed. form:
    rows in a form that is not read. pointer: git-LFS has not fetched the file."""


class Lengths(Section, frozen=True, kw_only=True):
    """Tokens of the documents, without padding."""

    p50: int
    p95: int
    longest: int
    histogram: tuple[tuple[int, int], ...] = ()
    """The largest length of a bin, and the documents in it."""


class Labels(Section, frozen=True, kw_only=True):
    """The labels of the documents that were read; packed rows are split into documents first."""

    objective: Objective
    documents: int
    unlabelled: int = 0
    """Documents without a trained label."""
    rows: tuple[int, ...] = ()
    """The first of them, by the row of the loader."""
    full: int = 0
    """Those that are as long as the longest document: the limit left no room for the answer."""
    tokens: int = 0
    trained: int = 0
    compared: int = 0
    """Trained positions whose neighbouring tokens differ."""
    matches: dict[str, int] = {}
    """Offset -> positions where the label is the token that many places further right."""
    prompts: int = 0
    """Documents whose first tokens are not trained, and later ones are."""
    inverted: int = 0
    """Documents whose first tokens are trained, and whose last ones are not."""
    twice: int = 0
    """Documents whose trained part begins with the prompt."""
    ignored: int = -100
    learned: bool | None = None
    """Gradients that are not 0 were observed meanwhile; None: there was no training."""
    dropped: int = 0
    """Rows without a trained label that a filter or a selection left out of the dataset."""


class Stops(Section, frozen=True, kw_only=True):
    """How the answers end, of documents with a prompt that is not trained."""

    answers: int
    stopped: int
    """A trained label is a token at which generation stops."""
    at_limit: int = 0
    """As long as the longest document, and trained to their end without a stop."""
    cut: int = 0
    """As long as the longest document, and without a stop, while shorter ones have one."""
    generation: tuple[str, ...] = ()
    """The tokens at which generation stops."""
    source: str = ""
    """Where those are stated: "generation_config.json"."""
    stated: bool = True
    """A configuration of generation states them; else the tokenizer's eos_token stands for them."""
    untrained: int = 0
    """Chats without a masked prompt that have a stop, and of which no label is one."""
    chats: int = 0
    """Chats without a masked prompt that have a stop."""
    whole: int = 0
    """Of the documents that are trained as a whole, those that were read; none is a chat."""
    unended: int = 0
    """Of those, where they fill rows of one length, documents without any stop."""
    open: int = 0
    """Of those, documents without any stop that begin alike."""
    limit: int = 0
    """The greatest length, where all documents without a stop have it: they are cut there."""
    tokens: int = 0
    ends: dict[str, int] = {}
    """Special token -> answers whose last trained label it is."""
    masked_ends: int = 0
    """Answers followed by a stop that is not trained."""


class Starts(Section, frozen=True, kw_only=True):
    """The first tokens of documents."""

    documents: int
    token: str
    twice: int = 0
    without: int = 0
    """Documents that lack it, where the tokenizer adds it and none has it."""
    rows: tuple[int, ...] = ()


class Padding(Section, frozen=True, kw_only=True):
    """Positions that the attention mask excludes, and runs of the padding token."""

    rows: int
    excluded: int = 0
    trained: int = 0
    """Excluded positions with a label."""
    trained_rows: tuple[int, ...] = ()
    padded: int = 0
    """Rows that end or begin with a run of the padding token that is no part of the text."""
    attended: int = 0
    """Those in which the mask includes it."""
    labelled: int = 0
    """Those in which it has labels."""
    unmasked: int = 0
    """Those without any mask."""
    loss_known: bool = True
    """The target holds a loss, a model or a tokenizer; else the loss may ignore the padding."""


class Split(Section, frozen=True, kw_only=True):
    """One loader, dataset or file, as far as it was read."""

    name: str
    kind: Literal["loader", "dataset", "file"]
    total: int | None = None
    """Rows in all; None: not known, as of a stream."""
    rows: int = 0
    batches: int = 0
    seconds: float = 0.0
    ended: Literal["complete", "samples", "time", "error", "hang"] = "complete"
    problem: Problem | None = None
    lengths: Lengths | None = None
    uncut: Lengths | None = None
    """Of the dataset's own rows, where they are texts."""
    labels: Labels | None = None
    stops: Stops | Unknown | None = None
    starts: Starts | Unknown | None = None
    padding: Padding | Unknown | None = None
    markers: Markers | Unknown | None = None
    mixing: Mixing | None = None
    inputs: Inputs | None = None
    workers: Workers | None = None
    pace: Pace | Unknown | None = None
    """Measured where the step was measured on a GPU."""
    pairs: Pairs | None = None
    rendered: Rendered | None = None
    maps: LabelMaps | None = None
    texts: RowTexts | None = None
    epochs: Epochs | Unknown | None = None
    agreement: Agreement | None = None
    seeds: Seeds | None = None
    boxes: Boxes | None = None
    rereading: Rereading | None = None
    relations: tuple[Relation, ...] = ()
    """Those that hold for some rows; what was looked at and holds for none is absent."""

    @property
    def lines(self) -> bool:
        """Whether rows have the numbers of lines of a file."""
        return self.texts is not None and self.texts.lines


class Offset(Section, frozen=True, kw_only=True):
    """Where the loss reads its labels: the label at position t is predicted at t - `shift`.

    Measured by changing one label and reading which inputs its loss depends on.
    """

    positions: int
    shifts: dict[str, int] = {}
    """Shift -> positions; of a decoder that sees no later tokens there is one shift."""
    later: int = 0
    """Positions whose loss depends on the last input, which a decoder must not see."""
    crossing: int | None = None
    """Positions whose loss depends on an earlier document of the row; None: rows are not packed,
    or it was not measured."""
    mask: str = ""
    """The batch's own mask of attention, which was tried as it is; "": it has none."""
    seconds: float = 0.0


class Mark(Section, frozen=True, kw_only=True):
    """A piece of a sample that is shown."""

    text: str
    role: Literal["trained", "context", "padding", "cut"]


class Shown(Section, frozen=True, kw_only=True):
    """A sample as the model gets it."""

    split: str
    row: int
    lines: bool = False
    """The row is a line of a file, from 1."""
    marks: tuple[Mark, ...] = ()
    image: str = ""
    """A PNG in base64."""
    values: dict[str, Number] = {}
    """min, max and mean of its values."""


class Data(Section, frozen=True, kw_only=True):
    """What the model gets, and how it was obtained."""

    target: str
    opened: Ended
    problem: Problem | None = None
    """Why it could not be opened."""
    died: str = ""
    """How the process ended that looked at them, "" if it completed."""
    splits: tuple[Split, ...] = ()
    tokenizer: str = ""
    """Where the tokenizer comes from, "" for none."""
    offset: Offset | Unknown | None = None
    repeats: Repeats | Unknown | None = None
    overlap: Overlap | Unknown | None = None
    numbering: Numbering | None = None
    relations: tuple[Relation, ...] = ()
    """Of two splits."""
    shards: Shards | None = None
    broken: Problem | None = None
    """A row of the file further down that cannot be read."""
    shown: tuple[Shown, ...] = ()
    seconds: float = 0.0

    def split(self, name: str = "train") -> Split | None:
        return next((each for each in self.splits if each.name == name), None)

    @property
    def lacks_tokenizer(self) -> bool:
        """Whether files of chats or of prompts with answers were read as texts alone."""
        texts = [each.texts for each in self.splits if each.kind == "file" and each.texts]
        return not self.tokenizer and any(each.chats or each.answers for each in texts)

    @property
    def unlabelled(self) -> bool:
        """Whether no document of a split has a trained label, and nothing was learned: DAT001."""
        labels = [split.labels for split in self.splits if split.labels is not None]
        return any(each.unlabelled == each.documents and not each.learned for each in labels)
