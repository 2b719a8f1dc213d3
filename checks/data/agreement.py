"""The fields of batches agree with each other and with what they index."""

from __future__ import annotations

from doctor._util.units import shown
from doctor.checks.data.agreement_meanings import FINITE, MEANINGS, TABLE
from doctor.checks.data.relations import verdicts
from doctor.checks.data.seen import FEW, each_split, observed, passed, rows, share
from doctor.facts.data import Data, Split
from doctor.facts.data_batches import Agreement, Indices
from doctor.judge.check import Check, Owner, Verdict, fail, note, skip, warn
from doctor.judge.combine import worst

UNKNOWN, MOST_UNKNOWN, BLANKS, FILLED = 0.2, 0.5, 0.01, 0.9
"""Shares of tokens from which on it is noted, and of tokens and of targets from which on it is a
warning. Our own numbers."""
EMPTY = 0.02
"""Share of targets of a CTC loss; some recordings may be silent. Our own number."""
OF_CTC = ("torch-ctc-loss",)
LEAST_LONGER = 4
"""Targets, at least half of those that were read, that no loss can teach. Our own number."""
LEAST_COMPARED = 64
"""Rows of features. Our own number."""


def agreed(data: Data) -> Verdict:
    rows_agree, numbering = each_split(data, _agreed), data.numbering
    if not any(each.agreement and each.agreement.nonfinite_count for each in data.splits):
        rows_agree = worst(rows_agree, *verdicts(data.relations, MEANINGS))
    if numbering is None or not numbering.moved:
        return rows_agree
    train, other = numbering.numbers
    moved = warn(
        f"{numbering.moved:,} of {numbering.shared:,} names have another number in eval than in "
        f"train: {shown(numbering.example)} is {train} and {other} in {shown(numbering.name)}",
        fix=NUMBERED,
    )
    return worst(rows_agree, moved)


def _agreed(split: Split) -> Verdict:
    agreement, related = split.agreement, verdicts(split.relations, MEANINGS)
    if agreement is None:
        return worst(*related) if related else skip("the batches have no tensors")
    found = _beyond(agreement) or _targets(agreement) or _columns(agreement) or _values(agreement)
    if found or related:
        return worst(*([found] if found else []), *related)
    return passed("ids, targets and values agree", split)


def _beyond(agreement: Agreement) -> Verdict | None:
    found = []
    if agreement.negative:
        text = share(agreement.negative, agreement.rows, "rows begin or end with token ids below 0")
        below = f"{text}, down to {agreement.lowest_id}: {rows(agreement.negative_rows)}"
        found.append(warn(f"{below}; required: ids that the embedding has", fix=NEGATIVE))
    for each in agreement.indices:
        if each.beyond:
            word = WORDS_OF[each.kind]
            where = f": {rows(each.rows)}" if each.rows else ""
            text = (
                f"{word} go {_range(each)}, and {each.table} has {each.entries:,} entries, 0 "
                f"to {each.entries - 1:,}{where}"
            )
            fix = ENTRIES_FIXES[each.kind]
            if each.kind == "classes" and each.alone:
                fix = VOID.format(each.highest, fix[0].lower() + fix[1:])
            broken = fail(text, fix=fix, sources=ENTRIES_SOURCES[each.kind])
            found.append(broken if "model" in each.table else note(text, fix=fix))
    return worst(*found) if found else None


def _range(each: Indices) -> str:
    """ "to 904", "from 1 to 200": where the lowest number is told, it may explain the highest."""
    if each.kind != "numbers" and each.lowest >= 0:
        return f"to {each.highest:,}"
    return f"from {each.lowest:,} to {each.highest:,}"


def _targets(agreement: Agreement) -> Verdict | None:
    targets = agreement.targets
    if targets and agreement.blanks >= BLANKS * targets:
        what = f"targets hold {agreement.blank}, the blank of the CTC loss"
        text = share(agreement.blanks, targets, what)
        padded = agreement.filled >= FILLED * agreement.blanks
        where = ", all behind their letters, as padding" if padded else ""
        summary = f"{text}{where}: {rows(agreement.target_rows)}"
        return observed(summary, targets, fix=PADDED if padded else BLANK, sources=OF_CTC)
    if targets > agreement.empty >= EMPTY * targets:  # all of them are left to DAT001
        text = share(agreement.empty, targets, "targets of a CTC loss have no letter")
        return observed(text, targets, fix=LETTERS, sources=OF_CTC)
    if agreement.longer:
        text = share(agreement.longer, targets, "targets are longer than their input")
        summary = f"{text}, so that their CTC loss is infinite"
        many = agreement.longer >= max(LEAST_LONGER, targets / 2)
        return observed(summary, FEW if many else targets, fix=LONGER, sources=OF_CTC)
    return None


def _columns(agreement: Agreement) -> Verdict | None:
    for each in agreement.columns:
        if each.rows >= LEAST_COMPARED:
            text = f"column {each.column} of {shown(each.name)} is the target in {each.rows:,} rows"
            if each.with_columns:
                others = " and ".join(str(one) for one in each.with_columns)
                text = f"{text}, added to column {others}: they are its parts"
            return observed(text, each.rows, fix=LEAK)
    return None


def _values(agreement: Agreement) -> Verdict | None:
    count = agreement.nonfinite_count
    if count:
        text = share(count, agreement.rows, f"rows have NaN or Inf in {shown(agreement.nonfinite)}")
        return observed(f"{text}: {rows(agreement.nonfinite_rows)}", agreement.rows, fix=FINITE)
    if agreement.tokens and agreement.unknown >= UNKNOWN * agreement.tokens:
        text = share(agreement.unknown, agreement.tokens, "tokens stand for unknown words")
        if agreement.unknown >= MOST_UNKNOWN * agreement.tokens:
            return observed(f"{text}: they are of another vocabulary", agreement.rows, fix=WORDS)
        return note(text, fix=WORDS)
    return None


ENTRIES = (
    "Call model.resize_token_embeddings(len(tokenizer)) after tokens were added, and make the "
    "tokens with the tokenizer of this model."
)
NEGATIVE = (
    "Pad input_ids with tokenizer.pad_token_id, and labels alone with -100: pad each in a call of "
    "its own, or replace -100 in the ids before the model gets them."
)
NUMBERED = (
    "Number the classes or the words once, from train, and give the same mapping to each split: a "
    "split that lacks one numbers those behind it otherwise."
)
CLASSES = "Number the classes from 0, and give the model num_labels of them."
VOID = (
    "If {0} marks what has no class, as borders of areas do, give the loss ignore_index={0}; "
    "otherwise {1}"
)
PADDED = (
    "Give the loss the length of each target without its padding; where the blank is a letter, "
    "number the letters from another one."
)
BLANK = "Leave the number of the blank to it: number the letters from another one, or set blank=."
LETTERS = (
    "Look at how texts become numbers: letters that the vocabulary lacks, as those of another "
    "case, are "
    "left out."
)
LONGER = (
    "Drop samples whose text is longer than their sound, and look at how lengths are counted and "
    "how far the model shortens its input: a smaller stride has more outputs."
)
LEAK = "Leave the target's column out of the features."
WORDS = "Tokenize with the tokenizer that was trained on such text."

WORDS_OF = {
    "ids": "token ids",
    "classes": "classes",
    "positions": "positions",
    "types": "token_type_ids",
    "numbers": "numbers",
}
ENTRIES_SOURCES = {
    "ids": ("torch-embedding",),
    "classes": ("torch-cross-entropy",),
    "positions": ("transformers-11958",),
    "types": ("torch-embedding",),
    "numbers": ("torch-embedding",),
}
ENTRIES_FIXES = {
    "ids": ENTRIES,
    "classes": CLASSES,
    "positions": "Truncate rows to the model's max_position_embeddings, or count positions from 0.",
    "types": "Number the segments from 0, and give the model type_vocab_size of them.",
    "numbers": TABLE,
}

AGREED = Check(
    code="DAT022",
    slug="fields-agree",
    title="Ids, targets and values of a batch agree with each other and with the model",
    why="A token beyond the embedding ends the training at the row that has it. A target among the "
    "features, or the blank of a CTC loss in the text raise nothing, and nothing of use is "
    "learned.",
    passes=("each field that was read fits to the others, and to the model where there is one",),
    notes=(
        "at least 20 % of the tokens stand for unknown words; from half of them on it is a warning",
        "token ids go beyond the tokenizer, and no model was read",
    ),
    warns=(
        "a column of the features equals the target, but for factor and difference, in 64 rows, "
        "has "
        "its order, or is one of two or three parts of it",
        "at least 1 % of 32 or more targets of a CTC loss hold its blank, or one is longer than "
        "its input",
        "rows begin or end with token ids below 0, such as the -100 of ignored labels",
        "half of the rows have labels that are padded on the other side than their tokens",
        "classes or words have another number in the dataset of eval than in that of train",
        "of 32 or more rows one has NaN or Inf that no mask excludes",
        "a code for what is missing stands in a column of the features",
        "a window runs back in time",
        "targets of a binary cross entropy are not from 0 to 1",
        "all targets are one vector, or one class",
    ),
    fails=(
        "token ids, classes or other numbers go beyond the model's embeddings or its classes, in a "
        "batch or in a row of the dataset",
    ),
    fix="Look at the rows that are named.",
    owner=Owner.JOB,
    judge=agreed,
    limits="that masks, boxes and classes are the right ones, or belong to their inputs.",
    sources=("torch-data-loading",),
)

CHECKS = (AGREED,)
