"""Samples: equal ones in two splits and in one, preference pairs, files."""

from __future__ import annotations

from doctor._util.records import Unknown
from doctor._util.units import counted, listed, shown
from doctor.checks.data.seen import FEW, each_split, no_training, observed, passed, rows, share
from doctor.facts.data import Data, Split
from doctor.facts.data_rows import Overlap, Repeats, RowPairs
from doctor.judge.check import Check, Owner, Remedy, Verdict, fail, note, ok, skip, unknown, warn

SHARED = 0.01
"""Share of evaluation rows that train has, too, from which on it is a warning. Our own number."""
CONFLICTING = 0.005
REPEATED = 0.1
"""Shares of rows with another class than an equal one, and of equal ones. Our own numbers."""
COMMON = 0.1
"""Share of the evaluation that train has three times or more, for a note. Our own number."""
MOSTLY, HALF = 0.8, 0.5
"""Share of rows that occurred before which no oversampling makes, and of rows without a class and
without another reason to occur again. Our own numbers."""
FEW_OF_ALL = 8
"""Rows of a whole evaluation from which on it is no chance that train has at least half of them.
Our own number."""
AGAIN = (
    "Compare the equal rows with their source: remove what it holds more than once, as a text that "
    "was joined to itself or a join of tables; if it holds each once, look at how a row is chosen "
    "by its number."
)
SEVERAL = (
    "Where a sample has several labels, keep it as one row with all of them, and a loss of several "
    "labels (a target of 0 and 1 for each class, BCEWithLogitsLoss); else decide on one."
)
TWICE = (
    "Look at the equal rows: a source that is listed twice, or a file that was read twice, is to "
    "be read once; rows that are repeated to balance classes or sources may stay."
)
EVEN = (
    "Where they are groups of samples for one prompt, or epochs that were written out, nothing is "
    "wrong. Else look for a source that is read twice, and at how a row is chosen by its number."
)
SWAPPED = "Swap the columns chosen and rejected, or the order in which answers are sorted."
COPIED = (
    "Split first, and oversample or copy rows of train alone: a row that was copied before the "
    "split is in both."
)
PERHAPS_COPIED = (
    "Look at the equal rows: frequent short texts and values may stay; if rows were oversampled or "
    "copied, split first and do that in train alone."
)
DRAWN = (
    "Draw the split once, with a generator that has a seed, keep both parts, and build both "
    "loaders from them."
)


def disjoint(data: Data) -> Verdict:
    overlap = data.overlap
    if overlap is None:
        return skip("there is no second split to compare with")
    if isinstance(overlap, Unknown):
        return unknown(overlap.reason)
    if not overlap.telling:
        return skip("the rows are too short to be distinguished from chance")
    text = share(overlap.shared, overlap.telling, "rows of eval are in train, too")
    read = f"{overlap.rows:,} rows of eval compared with {overlap.train:,} of train"
    if overlap.columns:
        read += f" by what both have: {listed([shown(each) for each in overlap.columns], 4)}"
    if overlap.shared >= max(1, SHARED * overlap.telling):
        pairs = _pairs(overlap.pairs, *(_place(data, each) for each in ("train", "eval")))
        whole = _is_whole(data.split("eval"), overlap.rows)
        of = f"eval has {overlap.rows:,} rows in all" if whole else ""
        cause, typed = _cause(overlap)
        if whole and overlap.telling >= FEW_OF_ALL and overlap.shared >= HALF * overlap.telling:
            return warn(f"{text}{cause}: {pairs}; {read}", **typed)
        return observed(f"{text}{cause}: {pairs}; {read}", overlap.rows, of=of, **typed)
    if overlap.repeated:
        both = overlap.shared + overlap.repeated
        text = share(both, overlap.telling, "rows of eval are in train, too")
        known = f"{overlap.repeated:,} of them three times or more, which may be chance"
        noted = overlap.repeated >= COMMON * overlap.telling
        return note(f"{text}, {known}; {read}", fix=PERHAPS_COPIED) if noted else ok(
            f"{text}, {known}; {read}")  # fmt: skip
    return ok(f"{text}; {read}")


def _is_whole(split: Split | None, compared: int) -> bool:
    """Whether all rows of a split were compared."""
    ended = split is not None and split.ended == "complete" and split.rows == compared
    return ended or (split is not None and split.total == compared)


def _cause(overlap: Overlap) -> tuple[str, Remedy]:
    """Why rows are in both splits, where that was observed, and its fix."""
    if overlap.drawn_twice:
        return ", by their number in the dataset that both are subsets of", {"fix": DRAWN}
    if overlap.copied >= MOSTLY * overlap.shared:
        return ", nearly all of them three times or more", {"fix": COPIED}
    return "", {}


def _place(data: Data, name: str) -> str:
    split = data.split(name)
    return f"{name} line" if split is not None and split.lines else name


def _pairs(pairs: RowPairs, one: str, other: str) -> str:
    """ "train 3 = eval 17"."""
    return ", ".join(f"{one} {a:,} = {other} {b:,}" for a, b in pairs)


DISJOINT = Check(
    code="DAT007",
    slug="splits-disjoint",
    title="Training and evaluation share no sample",
    why="A sample that was trained on says nothing about new ones: the evaluation looks better "
    "than the model is.",
    passes=(
        "fewer than 1 % of the evaluation's samples are in train, by a hash of the whole sample, "
        "or of the columns that both splits have",
    ),
    notes=("at least 10 % are in train three times or more, and may be equal by chance",),
    warns=(
        "at least 1 % of 32 or more are",
        "at least half of an evaluation of 8 or more samples are, and all of it was read",
    ),
    fix="Remove the shared samples from one of the splits, or split by what they have in common "
    "(document, person, source) before anything else.",
    owner=Owner.JOB,
    judge=disjoint,
    limits="that no sample is nearly the same as one of train.",
    sources=("datasets-4261", "mteb-1036"),
)


def distinct(data: Data) -> Verdict:
    repeats = data.repeats
    if repeats is None:
        return no_training(data)
    if isinstance(repeats, Unknown):
        return unknown(repeats.reason)
    if not repeats.telling:
        return _too_short(repeats)
    compared = f"{repeats.rows:,} rows compared"
    compared += f", {repeats.short:,} are too short to tell" * bool(repeats.short)
    train = data.split() or data.split("eval")
    word = "line" if train is not None and train.lines else "row"
    pairs = _pairs(repeats.pairs, word, word)
    if repeats.conflicting >= max(1, CONFLICTING * repeats.labelled) and repeats.labelled:
        text = share(
            repeats.conflicting, repeats.labelled, "rows have another class than an equal one"
        )
        whole = train is not None and train.total == repeats.rows
        of = f"train has {repeats.rows:,} rows, {repeats.labelled:,} with a class" if whole else ""
        several = repeats.beside >= MOSTLY * repeats.conflicting
        where = ", which stands next to it" if several else ""
        remedy: Remedy = {"fix": SEVERAL} if several else {}
        return observed(f"{text}{where}: {pairs}", repeats.labelled, of=of, **remedy)
    text = share(repeats.repeated, repeats.telling, "rows occurred before")
    of_class = f", {repeats.conflicting:,} of them with another class: {pairs}"
    text += of_class * bool(repeats.conflicting)
    one = train is not None and train.mixing is not None and train.mixing.distinct == 1
    border = MOSTLY if repeats.labelled or repeats.usual else HALF
    if repeats.repeated >= border * repeats.telling >= border * FEW and not one:  # see DAT009
        return _often(repeats, text, compared)
    if repeats.repeated >= REPEATED * repeats.telling and repeats.telling >= FEW:
        return note(f"{text}; {compared}", fix=TWICE)
    return ok(f"{text}; {compared}")


def _often(repeats: Repeats, text: str, compared: str) -> Verdict:
    if repeats.even:
        return note(f"{text}, nearly all equally often; {compared}", fix=EVEN)
    return warn(f"{text}; {compared}", fix=AGAIN)


def _too_short(repeats: Repeats) -> Verdict:
    """Of rows of which equal ones may be chance: not judged, and how many occurred before."""
    text = "the rows are too short to be distinguished from chance"
    if not repeats.short_repeated:
        return skip(text)
    before = share(repeats.short_repeated, repeats.short, "occurred before")
    return skip(f"{text}: {before}, not judged")


DISTINCT = Check(
    code="DAT008",
    slug="labels-agree",
    title="Equal samples have the same class",
    why="Equal inputs with different classes set a bound to the accuracy, and usually come from a "
    "join or an export that went wrong.",
    passes=("fewer than 0.5 % of the rows have another class than an equal row",),
    notes=(
        "at least 10 % of the rows are equal to an earlier one, of 32 or more",
        "nearly all rows occur equally often, as groups of samples or epochs",
    ),
    warns=(
        "at least 0.5 % of 32 or more rows with a class do",
        "at least 80 % of 32 or more rows are equal to an earlier one, or half of them where they "
        "have no class, are no lines of a text, and are not few that occur many times",
    ),
    fix="Look at the rows that are named, and decide on one class for each input, or drop them.",
    owner=Owner.JOB,
    judge=distinct,
    limits="that the classes are right.",
    sources=("torch-dataloader",),
)


def preferred(data: Data) -> Verdict:
    return each_split(data, _preferred)


def _preferred(split: Split) -> Verdict:
    pairs = split.pairs
    if pairs is None:
        return skip("the rows have no chosen and rejected answers")
    if pairs.equal == pairs.pairs:
        return fail(f"chosen and rejected are the same in all {pairs.pairs:,} pairs", fix=ALL_EQUAL)
    text = share(
        pairs.equal,
        pairs.pairs,
        "pairs have the same text as chosen and rejected, or positive and negative",
    )
    if pairs.equal >= 0.05 * pairs.pairs:
        return observed(f"{text}: {rows(pairs.rows, split.lines)}", pairs.pairs)
    if pairs.scored and pairs.swapped >= 0.95 * pairs.scored:
        swapped = share(pairs.swapped, pairs.scored, "chosen answers have the lower score")
        return observed(swapped, pairs.scored, fix=SWAPPED)
    unscored = "" if pairs.scored else "; which answer is the better one no score says"
    return passed(f"{text}{unscored}", split)


ALL_EQUAL = (
    "Look at how the two columns are made; where both are cut at one length, as behind a long "
    "prompt, raise it or cut the prompt from the left."
)
PREFERRED = Check(
    code="DAT016",
    slug="preference-pairs",
    title="Chosen and rejected answers differ, and are not swapped",
    why="Equal answers give no gradient; swapped columns train the model towards the worse answer.",
    passes=("fewer than 5 % of the pairs are equal, and chosen answers have the higher score",),
    warns=(
        "at least 5 % of 32 or more pairs are equal",
        "at least 95 % of 32 or more chosen answers have the lower score",
    ),
    fails=("chosen and rejected are equal in all pairs",),
    fix="Look at how the two columns are made; drop pairs whose answers are equal.",
    owner=Owner.JOB,
    judge=preferred,
    limits="that chosen answers are better, where the rows have no scores.",
)


def whole(data: Data) -> Verdict:
    shards = data.shards
    if shards is None:
        return skip("TARGET names no files of rows")
    faults = [
        f"{len(shards.empty)} empty: {_names(shards.empty)}" if shards.empty else "",
        f"equal: {'; '.join(' = '.join(map(shown, pair)) for pair in shards.equal)}"
        if shards.equal
        else "",
        f"missing: {_names(shards.missing)}" if shards.missing else "",
        f"much shorter than the others: {_names(shards.short)}" if shards.short else "",
    ]
    found = [each for each in faults if each]
    files = f"{counted(shards.files, 'file')}"
    if not found:
        return ok(f"{files}, none empty or twice")
    fixes = [SAME] * bool(shards.equal) + [AGAIN_WRITTEN] * (len(found) > bool(shards.equal))
    return warn(f"{files}, {', '.join(found)}", fix=" ".join(fixes))


AGAIN_WRITTEN = "Download or write these files again, and compare their sizes with the source."
SAME = (
    "Of equal files, look at which one was to hold other rows: the same rows in train and eval say "
    "nothing about new ones, and twice in train they count double. Make the split anew, or name "
    "each file once."
)


def _names(names: tuple[str, ...]) -> str:
    return listed([shown(each) for each in names], 3)


WHOLE = Check(
    code="DAT017",
    slug="shards-complete",
    title="No file of rows is empty, short, missing or there twice",
    why="A download that broke off leaves empty or short files, and a copy that went wrong leaves "
    "one twice; readers accept them silently.",
    passes=(
        "no file is empty, equal to another one, or below a tenth of the middle size of its series",
    ),
    warns=(
        "a file is empty, equal to another, much shorter than the others of its numbered series "
        "and not the last, or a number of the series is missing",
    ),
    fix=AGAIN_WRITTEN,
    owner=Owner.JOB,
    judge=whole,
    limits="that the rows in the files are complete.",
    sources=("parameter-golf-82",),
)

CHECKS = (DISJOINT, DISTINCT, PREFERRED, WHOLE)
