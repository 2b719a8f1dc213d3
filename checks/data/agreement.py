"""The fields of batches agree with each other and with what they index."""

from __future__ import annotations

from doctor._util.units import shown
from doctor.checks.data.agreement_meanings import FINITE, MEANINGS, TABLE
from doctor.checks.data.image_meanings import INSIDE
from doctor.checks.data.relations import verdicts
from doctor.checks.data.seen import FEW, each_split, observed, passed, rows, share
from doctor.facts.data import Data, Split
from doctor.facts.data_batches import Agreement, Indices
from doctor.judge.check import Check, Owner, Remedy, Verdict, fail, note, skip, warn
from doctor.judge.combine import worst

UNKNOWN, MOST_UNKNOWN, BLANKS, FILLED = 0.2, 0.5, 0.01, 0.9
"""Shares of tokens from which on it is noted, and of tokens and of targets from which on it is a
warning. Our own numbers."""
BOXES, OUTSIDE, SIZED = 0.01, 0.05, 0.2
"""Shares of the boxes, of which some may be mistakes of who drew them. Our own numbers."""
EMPTY = 0.02
"""Share of targets of a CTC loss; some recordings may be silent. Our own number."""
OF_CTC, OF_TRANSFORMS = ("torch-ctc-loss",), ("torchvision-masks",)
MOSTLY = 0.9
"""Of the boxes that leave their image. Our own number."""
LEAST_TURNED = 5
LEAST_LONGER = 4
"""Targets, at least half of those that were read, that no loss can teach. Our own number."""
LEAST_COMPARED = 64
"""Turned images, and rows of features. Our own numbers."""


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
    found = (
        _beyond(agreement)
        or _targets(agreement)
        or _turned(agreement)
        or _boxes(split)
        or _columns(agreement)
        or _values(agreement)
    )
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


def _turned(agreement: Agreement) -> Verdict | None:
    if agreement.turned < LEAST_TURNED or agreement.followed:
        return None
    what = "draws of samples turn or move the image as its mask or boxes never do"
    return observed(f"{agreement.turned} {what}", FEW, fix=TURN, sources=OF_TRANSFORMS)


def _boxes(split: Split) -> Verdict | None:
    boxes = split.boxes
    if boxes is None:
        return None
    if boxes.flat >= BOXES * boxes.boxes:
        text = share(boxes.flat, boxes.boxes, "boxes have no width or no height")
        return observed(text, boxes.boxes, fix=FLAT)
    if boxes.corners and boxes.turned >= BOXES * boxes.boxes:
        what = f"boxes are not x1, y1, x2, y2 with x1 < x2 and y1 < y2, as {boxes.corners} has them"
        return observed(share(boxes.turned, boxes.boxes, what), boxes.boxes, fix=CORNERS)
    if boxes.likely and not boxes.corners and boxes.turned >= SIZED * boxes.boxes:
        what = "boxes are not x1, y1, x2, y2, as torchvision's models expect them beside labels"
        return note(share(boxes.turned, boxes.boxes, what), fix=CORNERS)
    if boxes.outside >= OUTSIDE * boxes.boxes:
        what = "boxes leave their image, as corners and as corner or center with a size"
        if boxes.swapped >= MOSTLY * boxes.outside:
            what = (
                "boxes leave their image, and fit into it where they are divided by its other side"
            )
            text = share(boxes.outside, boxes.boxes, what)
            return observed(text, boxes.boxes, fix=SIDES)
        return observed(share(boxes.outside, boxes.boxes, what), boxes.boxes, fix=INSIDE)
    return None


def _columns(agreement: Agreement) -> Verdict | None:
    for each in agreement.columns:
        if each.rows >= LEAST_COMPARED:
            text = f"column {each.column} of {shown(each.name)} is the target in {each.rows:,} rows"
            if each.with_columns:
                others = " and ".join(str(one) for one in each.with_columns)
                how = "multiplied or divided by" if each.times else "added to"
                text = f"{text}, {how} column {others}"
                if each.times:  # the law that is to be learned may be such a product
                    return note(f"{text}, if one of them is computed from the target", fix=LEAK)
                text = f"{text}: they are its parts"
            typed: Remedy = {"fix": LEAK}
            return observed(text, each.rows, **typed)
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
TURN = (
    "Draw the random flip once per sample and apply it to both: torchvision.transforms.v2 or "
    "albumentations with image and mask in one call."
)
CORNERS = (
    "Convert the boxes: torchvision.ops.box_convert(boxes, 'xywh', 'xyxy'), or 'cxcywh', by the "
    "format in which they are stored."
)
FLAT = (
    "Drop boxes without an area after a crop, and keep boxes that are shares of the image as "
    "fractions: as whole numbers they are 0. Where nothing is cropped, boxes were clamped to an "
    "image that was resized without them: scale both."
)
SIDES = (
    "Divide x by the width and y by the height: the shape of an array begins with the height "
    "(h, w = image.shape[:2]), the size of a PIL image with the width."
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
    why="A token beyond the embedding ends the training at the row that has it. A mask that is not "
    "turned with its image, a target among the features, or the blank of a CTC loss in the text "
    "raise nothing, and nothing of use is learned.",
    passes=("each field that was read fits to the others, and to the model where there is one",),
    notes=(
        "at least 20 % of the tokens stand for unknown words; from half of them on it is a warning",
        "at least 20 % of boxes beside labels are no corners, and no model was read",
        "token ids go beyond the tokenizer, and no model was read",
    ),
    warns=(
        "of an image that is flipped, turned or moved at random, mask or boxes never are, in 5 or "
        "more draws",
        "at least 1 % of 32 or more boxes are no corners, where model or format has corners",
        "at least 5 % of 32 or more boxes leave their image in any format, or 1 % have no area",
        "a column of the features equals the target, but for factor and difference, in 64 rows, "
        "has "
        "its order, or is one of two or three parts of it",
        "at least 1 % of 32 or more targets of a CTC loss hold its blank, or one is longer than "
        "its input",
        "rows begin or end with token ids below 0, such as the -100 of ignored labels",
        "half of the rows have labels that are padded on the other side than their tokens",
        "classes or words have another number in the dataset of eval than in that of train",
        "of 32 or more rows one has NaN or Inf that no mask excludes",
        "a code for what is missing, or a second unit, stands in a column of the features",
        "weights of a loss or a sampler grow with the counts of the classes",
        "two texts of a row are displaced, or negatives are positives of the same user or batch",
        "files of sound have several rates, and the source does nothing with them",
        "edges of joined graphs are not moved, or lead to another graph of the batch",
        "ends of episodes are not marked, or a row late; a window runs back in time",
        "targets of a binary cross entropy are not from 0 to 1",
        "pandas joins tables whose keys repeat on both sides or have no partner, or numbered files "
        "of a sequence are read in the order of text",
        "two languages are exchanged in 2 % of the rows, or one text stands on both sides in 5 %",
        "10 % of the boxes lie in the bars around their image, points fit once width and height "
        "are exchanged, or a mirrored image keeps left and right of its points or its direction",
        "20 % of mixed inputs (mixup, CutMix) have other shares than their targets",
        "5 % of the spans are not the answers that the dataset holds, or 10 % of the words of "
        "entities have tags of two kinds",
        "half of the conditions of a generating model are empty, or no text ends with the token "
        "that the file names for it",
        "a classifier's configuration names another padding token than the rows have, or the "
        "target of a row is the padding of the model's own table",
        "a Trainer removes a column that the model reads, a loader writes batches to one memory, "
        "or all targets are one vector, or one class",
        "rows are sorted by dates as text, numbered files in the order of text are paired with "
        "lines, or windows cross from one series to another",
        "the next state at a limit of time is that of another episode",
    ),
    fails=(
        "token ids, classes or other numbers go beyond the model's embeddings or its classes, in a "
        "batch or in a row of the dataset",
    ),
    fix="Look at the rows that are named.",
    owner=Owner.JOB,
    judge=agreed,
    limits="that masks, boxes and classes are the right ones, or rewards those of their step.",
    sources=("torch-data-loading",),
)

CHECKS = (AGREED,)
