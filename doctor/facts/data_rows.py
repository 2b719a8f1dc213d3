"""Records on rows and files of the data, counted, without thresholds."""

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
    beside: int = 0
    """Of those, rows whose equal one stands next to them, as one row of several labels gives."""
    pairs: RowPairs = ()
    short: int = 0
    """Rows that are too short to tell, or whose columns are few numbers."""
    short_repeated: int = 0
    """Of those, rows that occurred before."""
    usual: bool = False
    """Equal rows are usual: they are lines of a text, or few occur many times beside many that
    occur once, as oversampling makes."""
    even: bool = False
    """Nearly all contents occur equally often, and more than once."""


class Overlap(Section, frozen=True, kw_only=True):
    """Rows of the other split that train has, too."""

    train: int
    rows: int
    telling: int
    shared: int = 0
    pairs: RowPairs = ()
    copied: int = 0
    """Of the shared ones, rows of measured numbers that train has three times or more."""
    repeated: int = 0
    """Rows that train has three times or more, and that are not counted as shared: such texts and
    whole numbers may be equal by chance."""
    columns: tuple[str, ...] = ()
    """Those that both splits have, and that alone were compared; () if all were."""
    drawn_twice: bool = False
    """Both are subsets of one dataset, and have numbers of its rows in common."""


RelationKind = Literal[
    "answer ends prompt", "prompt begins answer", "one answer", "one class", "text empty",
    "transcript empty",
    "roles repeat", "roles swapped", "role unknown", "markers in text", "side empty",
    "prompts differ", "query is positive", "positive among negatives",
    "header in rows", "decimals mixed", "units mixed", "dates mixed",
    "class has one value", "column separates", "window holds target", "history ends with target",
    "equal inputs", "decoder sees target", "span reversed", "span beyond", "span lost",
    "start twice", "target padding", "target without stop", "tag on special", "length beyond",
    "length counts padding", "weights short", "background class", "code for missing",
    "whole waveform", "files unpaired", "one pass", "scale differs",
    "target scale differs", "padding is target",
    "class in eval alone", "windows shared", "eval random", "marker nowhere", "border nowhere",
    "mask against padding", "stop before answer", "start before answer", "seed in row",
    "map turned", "target broadcast", "column unscaled", "row not finite",
    "entities in text", "label in text", "special predicted", "borders wrong",
    "label ignored otherwise", "positive of another", "step changes nothing",
    "negative is positive", "code in column", "rows displaced", "sound rates mixed",
    "fitted on eval", "scaled apart", "group in both", "nearly in train",
    "weights inverted", "weights of other rows", "positive weight inverted",
    "eval of one class", "units differ", "edge beyond",
    "points not swapped", "parts share nodes",
    "boxes in a corner", "unit of a group", "scale of a group",
    "edges without features", "types mixed", "rows counted by batches", "noise equal",
    "eval before train", "time runs back", "document repeated", "tags in text",
    "mask predicted", "most is masked", "sides exchanged", "answer elsewhere",
    "span beyond text", "span cuts words", "tags of other tokens",
    "languages exchanged", "text not translated",
    "files in text order", "links in graph",
    "merge multiplies", "merge without partners", "columns beside others",
    "edges not moved", "edges between graphs", 
    "target is input", "end not marked", "end marked late",
    "targets no probabilities", "row beyond table",
    "answers displaced", "targets mixed otherwise", "condition empty", "column removed",
    "batch overwritten", "tags cross words", "boxes in padding", "next state of another episode",
    "dates in text order", "lines of other files", "answer of other tokens", "targets all equal",
    "text without end", "padding pooled", "direction kept", "window of two series",
    "points of other sides", "targets no shares", "targets in another order",
    "attention on padding", "padding in loss", "answers unmarked", "target cut",
    "targets end alike", "border within padding",
    "one class taught", "column holds target", "boxes of another form",
    "inputs tell targets", "targets of other rows", "targets of no row", "tags of another place",
    "places apart", "prepared apart", "of another kind", "targets numbered apart",
    "stated otherwise", "gives class away", "may give class away",
    "classes unread", "answer is error", "answer left open", "chat in quotes", "columns exchanged",
    "row empty", "cell missing", "prompt numbered",
    "names are a row", "first row is data",
    "nothing asked", "nothing asked in many", "user message empty", "answer empty",
    "input stands in", "tokens in answer", "class ends otherwise", "labels far apart",
    "answer begins late", "tags end early", "labels of another side", "eval unlabelled",
    "answer is prompt", "role spelled twice", "answer under another name", "answer absent",
    "answer in another form", "prompts trained",
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
    split: str = ""
    """The split of these rows; "" of train, or of no split alone."""
    lines: bool = False
    """The rows are lines of a file, from 1."""
    numbers: tuple[Number, ...] = ()
    """What the sentence of this kind gives, as ranges."""


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


class Spellings(Section, frozen=True, kw_only=True):
    """A column whose values differ in case or space alone."""

    column: str
    values: int
    classes: int
    minor: int = 0
    """Rows with another spelling than the most frequent one of their class."""
    short: int = 0
    """Spellings that are the beginning of another one, and are counted with its class."""
    pairs: RowPairs = ()


class Cut(Section, frozen=True, kw_only=True):
    """Answers of one length, the longest, that end within a sentence."""

    column: str
    length: int
    unit: Literal["characters", "words"] = "characters"
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
    lines: bool = False
    """Rows have the numbers of lines of a file, from 1."""
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
    replaced: int = 0
    """Rows with U+FFFD in place of letters of an answer or a document."""
    replaced_rows: tuple[int, ...] = ()
    replaced_beside: int = 0
    """Rows that have it in a prompt or another column alone."""
    replaced_beside_rows: tuple[int, ...] = ()
    spellings: tuple[Spellings, ...] = ()
    leaks: tuple[Leak, ...] = ()
    cuts: tuple[Cut, ...] = ()
    sentinels: tuple[Sentinel, ...] = ()


class Pairs(Section, frozen=True, kw_only=True):
    """Chosen and rejected answers."""

    pairs: int
    equal: int = 0
    rows: tuple[int, ...] = ()
    scored: int = 0
    """Pairs with a score of both."""
    swapped: int = 0
    """Pairs whose chosen answer has the lower one."""


class SplitFiles(Section, frozen=True, kw_only=True):
    """The files that were taken as a split, by their names."""

    split: str
    """ "" of those that were taken as none."""
    files: int
    names: tuple[str, ...] = ()
    """The first of them, below the directory."""


class Shards(Section, frozen=True, kw_only=True):
    """Files of rows, by name."""

    files: int
    empty: tuple[str, ...] = ()
    short: tuple[str, ...] = ()
    """Less than a tenth of the middle size, and not the last of their series."""
    equal: tuple[tuple[str, ...], ...] = ()
    missing: tuple[str, ...] = ()
    """Numbers of a series that no file has: "3 of 12"."""
    splits: tuple[SplitFiles, ...] = ()
    """What was taken as each split of a directory."""


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
    asking: int = 0
    """Of those, the ones in which the user's question is trained, and no answer is."""
    several: int = 0
    """Answers' documents in which the user says something twice or more."""
    later: int = 0
    """Of those, the ones that train all questions of the user but the first one."""
    first: int = 0
    """Of those, the ones that train the first answer and no later one."""
    unlike: int = 0
    """Answers behind the special tokens of the prompt, with other tokens between these."""
    instead: str = ""
    """What most of them have in its place."""
    questions: int = 0
    """Documents with what stands before a question of the user."""
    unanswered: int = 0
    """Of those, the ones without the prompt for an answer."""
    reopened: int = 0
    """Documents with an answer that end with the prompt for another one."""
    bos: str = ""
    without_bos: int = 0
    foreign: dict[str, int] = {}
    """Marker of another family -> documents that have it as plain text."""
    split: dict[str, int] = {}
    """Special token of the tokenizer -> documents that spell it in several tokens."""
    pieces: dict[str, int] = {}
    """Marker of the template that is no token -> documents that have it."""
    rows: tuple[int, ...] = ()
