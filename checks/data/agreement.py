"""The fields of batches agree with each other and with what they index."""

from __future__ import annotations

from doctor._util.units import shown
from doctor.checks.data.relations import Meaning, Meanings, verdicts
from doctor.checks.data.seen import FEW, each_split, observed, passed, rows, share
from doctor.facts.data import Data, Split
from doctor.facts.data_rows import Agreement, Indices
from doctor.judge.check import Check, Owner, Remedy, Verdict, fail, note, skip, warn
from doctor.judge.combine import worst

UNKNOWN, MOST_UNKNOWN, BLANKS = 0.2, 0.5, 0.01
"""Shares of tokens from which on it is noted, and of tokens and of targets from which on it is a
warning. Our own numbers."""
BOXES, OUTSIDE, SIZED = 0.01, 0.05, 0.2
"""Shares of the boxes, of which some may be mistakes of who drew them. Our own numbers."""
EMPTY = 0.02
"""Share of targets of a CTC loss; some recordings may be silent. Our own number."""
MOSTLY = 0.9
"""Of the boxes that leave their image. Our own number."""
LEAST_TURNED = 5
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
            found.append(fail(text, fix=fix) if "model" in each.table else note(text, fix=fix))
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
        return observed(f"{text}: {rows(agreement.target_rows)}", targets, fix=BLANK)
    if targets > agreement.empty >= EMPTY * targets:  # all of them are left to DAT001
        text = share(agreement.empty, targets, "targets of a CTC loss have no letter")
        return observed(text, targets, fix=LETTERS)
    if agreement.longer:
        text = share(agreement.longer, targets, "targets are longer than their input")
        return observed(f"{text}, so that their CTC loss is infinite", targets, fix=LONGER)
    return None


def _turned(agreement: Agreement) -> Verdict | None:
    if agreement.turned < LEAST_TURNED or agreement.followed:
        return None
    text = f"{agreement.turned} draws of samples turn or move the image, and none its mask or boxes"
    return observed(text, FEW, fix=TURN)


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
                text = f"{text}, added to column {others}: they are its parts"
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
MOVED = (
    "Add to the edges of each graph the number of nodes before it, where graphs are joined to a "
    "batch: "
    "edge_index + offset, with offset the sum of the nodes so far, as torch_geometric.data.Batch "
    "does."
)
TABLE = (
    "Number from 0 without gaps, by one mapping for all splits, or give the table the highest "
    "number "
    "plus one entries: nn.Embedding(highest + 1, ...)."
)
CLASSES = "Number the classes from 0, and give the model num_labels of them."
BLANK = "Leave the number of the blank to it: number the letters from another one, or set blank=."
LETTERS = (
    "Look at how texts become numbers: letters that the vocabulary lacks, as those of another "
    "case, are "
    "left out."
)
LONGER = "Drop samples whose text is longer than their sound, and look at how lengths are counted."
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
    "fractions: "
    "as whole numbers they are 0."
)
INSIDE = "Scale the boxes with the image, by the size of the image that they were drawn in."
SIDES = (
    "Divide x by the width and y by the height: the shape of an array begins with the height "
    "(h, w = image.shape[:2]), the size of a PIL image with the width."
)
LEAK = "Leave the target's column out of the features."
FINITE = "Fill or drop what is missing before the batch is made, or give the model a mask of it."
WORDS = "Tokenize with the tokenizer that was trained on such text."

WORDS_OF = {
    "ids": "token ids",
    "classes": "classes",
    "positions": "positions",
    "types": "token_type_ids",
    "numbers": "numbers",
}
ENTRIES_FIXES = {
    "ids": ENTRIES,
    "classes": CLASSES,
    "positions": "Truncate rows to the model's max_position_embeddings, or count positions from 0.",
    "types": "Number the segments from 0, and give the model type_vocab_size of them.",
    "numbers": TABLE,
}
MEANINGS: Meanings = {
    "start twice": Meaning(
        "rows of labels begin with the decoder's start token {0}, which the model puts before them "
        "once more",
        "Cut the first label where it is decoder_start_token_id, and not where it is bos_token_id.",
        least=0.9,
    ),
    "target padding": Meaning(
        "rows of labels are padded with the padding token, which is trained",
        "Replace the padding of labels by -100.",
    ),
    "target without stop": Meaning(
        "rows of labels hold no eos_token: the decoder is not taught to stop",
        "End the labels with eos_token_id.",
        least=0.9,
    ),
    "span reversed": Meaning(
        "answers end before they begin", "Look at how end_positions are counted.", least=0.01
    ),
    "span beyond": Meaning(
        "answers lie beyond the tokens of their row",
        "Give positions in tokens, by the offset mapping, and not in characters or words.",
        least=0.01,
    ),
    "span lost": Meaning(
        "answers are at position 0 and 0",
        "Look at how characters are mapped to tokens: all answers lie outside their row.",
        least=0.95,
    ),
    "tag on special": Meaning(
        "rows have a rare tag on the token with which all rows begin or end: tags are moved "
        "against their tokens",
        "Align tags by word_ids(), and give special tokens -100.",
        least=0.1,
    ),
    "length beyond": Meaning(
        "values of {fields} are longer than any field of their batch",
        "Count lengths in the steps that the batch has: frames after the features, not samples.",
        least=0.5,
    ),
    "length counts padding": Meaning(
        "values of {fields} count the padding of their row",
        "Take the lengths before the rows are padded.",
        least=0.4,
    ),
    "weights short": Meaning(
        "rows have a weight in the WeightedRandomSampler: the others are never drawn",
        "Give the sampler a weight for each row: class_weights[labels].",
        least=0.0,
    ),
    "background class": Meaning(
        "images have objects of class 0, which is the background of this detector",
        "Number the classes of objects from 1, and give the model one class more.",
    ),
    "target broadcast": Meaning(
        "outputs and targets differ in their shapes, rows x 1 and rows: the loss compares each of "
        "{0} outputs with all targets",
        "Bring both to one shape: output.squeeze(-1), or target.unsqueeze(-1).",
        single=True,
    ),
    "row not finite": Meaning("rows of the dataset have NaN or Inf in {fields}", FINITE, least=0.0),
    "column unscaled": Meaning(
        "column {0} of {fields} has a mean size of {1}, and most columns one below 100",
        "Scale the columns by the mean and the spread that they have in train.",
        noted=True,
        single=True,
    ),
    "borders wrong": Meaning(
        "batches have {fields} that do not run from 0 to the number of tokens",
        "Begin with 0 and add up the lengths: torch.cumsum(lengths, 0), with 0 before it.",
        least=0.0,
    ),
    "label ignored otherwise": Meaning(
        "rows have labels below 0 other than -100, which the model's loss does not ignore",
        "Ignore labels by -100, or give the loss ignore_index.",
        least=0.0,
    ),
    "special predicted": Meaning(
        "rows predict special tokens, as those of the beginning and the end",
        "Leave tokenizer.get_special_tokens_mask() out of the tokens that are masked.",
        least=0.2,
    ),
    "map turned": Meaning(
        "label maps have height and width in another order than their images",
        "Read both as height x width: PIL's size is width x height, numpy's shape is not.",
        least=0.5,
    ),
    "mask against padding": Meaning(
        "attention masks exclude text and include padding",
        "Set the mask to 1 at tokens and 0 at padding, on the side on which rows are padded.",
    ),
    "code for missing": Meaning(
        "rows have a code such as -999 in {fields}, far below all other values",
        "Fill or mask what is missing before the values are scaled.",
        least=0.01,
    ),
    "whole waveform": Meaning(
        "rows of {fields} are whole numbers up to thousands, as sound of 16 bit",
        "Divide the sound by 32768, or let the feature extractor normalize it.",
        least=0.5,
    ),
    "code in column": Meaning(
        "values in column {0} of {fields} are {1}, and all others from about {2} to {3}: a code "
        "for what is missing, such as -999 before it was scaled",
        "Read the code as missing (na_values= of pandas.read_csv), fill it in, and add a column "
        "that marks it, before the columns are scaled.",
        least=0.005,
    ),
    "rows displaced": Meaning(
        "rows have the rare words of {fields}, as numbers and names, some rows apart: one side is "
        "displaced against the other",
        "Join the two sides first (zip, or merge on a key), then drop pairs: lines that are left "
        "out of one side move all behind them.",
    ),
    "positive of another": Meaning(
        "rows have a {fields} that another query of their batch has, too, where all other rows "
        "count as negatives",
        "Shuffle, and draw batches without duplicates (BatchSamplers.NO_DUPLICATES), or mask equal "
        "positives in the loss.",
        least=0.1,
    ),
    "negative is positive": Meaning(
        "negatives are items that the same user has as positives",
        "Draw a negative again while it is in the items of the user.",
    ),
    "boxes in a corner": Meaning(
        "none of {0} boxes reaches beyond {1} of the width and {2} of the height of its image: "
        "they fit a smaller image",
        INSIDE,
        single=True,
    ),
    "points not swapped": Meaning(
        "{0} draws of samples mirror the image and its 17 points, and keep each of these in its "
        "own place: left is right there",
        "Exchange left and right points of a mirrored image: keypoints[[0, 2, 1, 4, 3, ...]].",
        single=True,
    ),
    "parts share nodes": Meaning(
        "nodes of the second of {fields} are in the first, too",
        "Divide the nodes once: each is in one of the masks.",
        least=0.01,
    ),
    "edge beyond": Meaning(
        "edges name nodes beyond the {0} of the graph",
        "Number the nodes from 0, as the rows of x.",
        least=0.0,
    ),
    "end not marked": Meaning(
        "ends of episodes of several lengths, where the next row does not go on from this one, "
        "are not "
        "marked, as all rows have a flag of 0",
        "Store terminated of env.step() as the flag, the third value, and not truncated, the "
        "fourth: "
        "the value of a state that failed is not that of the state behind it.",
        least=0.5,
    ),
    "end marked late": Meaning(
        "ends of episodes are marked on the first row of the next one",
        "Store the flag that env.step() returns with the state before that step.",
        least=0.5,
    ),
    "languages exchanged": Meaning(
        "rows have the two languages of {fields} exchanged",
        "Exchange the two sides of these rows, or drop them: source and target must keep their "
        "places.",
        least=0.02,
    ),
    "text not translated": Meaning(
        "rows have one text on both sides of {fields}",
        "Drop these rows: their text is not translated.",
    ),
    "files in text order": Meaning(
        "numbered files are read in the order of their names as text ({fields}, ...), and rows are "
        "pieces of a sequence: 10 comes before 2",
        "Sort by the number: sorted(paths, key=lambda path: int(re.search(r'\\d+', "
        "path.stem)[0])), or "
        "write names with leading zeros.",
        single=True,
    ),
    "merge multiplies": Meaning(
        "the left join in {first} by {others} makes {2} rows of {0}: keys have several rows on "
        "both "
        "sides, so that rows are repeated with other values",
        "Bring the right table to one row for each key before (drop_duplicates(key), or "
        "groupby(key)"
        ".last()), and let pandas check it: merge(..., validate='m:1').",
        single=True,
    ),
    "merge without partners": Meaning(
        "the join in {first} by {others} finds a partner for {2} of {0} rows",
        "Bring the keys of both tables to one form: numbers or texts, leading zeros, case and "
        "space.",
        single=True,
    ),
    "columns beside others": Meaning(
        "concat in {first} lays tables of {0} rows side by side and makes {2} rows: their row "
        "numbers "
        "differ, so that values move to other rows or are missing",
        "Number the rows of both tables alike before: reset_index(drop=True).",
        single=True,
    ),
    "edges without features": Meaning(
        "the graph has features of {0} edges, and {1} edges",
        "Change both together: edges that are added, dropped or made undirected take their "
        "features "
        "along.",
        single=True,
    ),
    "rows counted by batches": Meaning(
        "the dataset has a length of {0}, and holds {1} rows: its length counts batches of {2}",
        "Return the number of rows from __len__; the DataLoader makes batches of them.",
        single=True,
    ),
    "noise equal": Meaning(
        "rows have the same {fields} as all others of their batch",
        "Draw the noise in the shape of the batch: torch.randn_like(x), or once for each row.",
        least=0.9,
    ),
    "time runs back": Meaning(
        "rows have {fields} that runs backwards: the newest step is first",
        "Sort by time before windows are cut: frame.sort_values('time').",
        least=0.9,
    ),
    "edges not moved": Meaning(
        "graphs behind the first one of their batch have no edge: all edges name the numbers of "
        "one "
        "graph's nodes",
        MOVED,
        least=0.5,
    ),
    "edges between graphs": Meaning(
        "graphs have edges to the nodes of another graph of their batch", MOVED, least=0.5
    ),
    "units differ": Meaning(
        "values in column {0} of {fields} are about {1} times smaller than the others, and spread "
        "alike: two units",
        "Bring the column to one unit before it is scaled.",
        least=0.01,
    ),
    "sound rates mixed": Meaning(
        "files of sound have another rate than most ({1} Hz beside {0} Hz), and the source of "
        "TARGET neither compares nor changes the rate",
        "Resample each file to the rate that the features expect, from the one that its header has "
        "(torchaudio.functional.resample, librosa.load(sr=)).",
        least=0.01,
    ),
    "weights inverted": Meaning(
        "weights of {fields} grow with their class: {1} for one of {0} rows, {3} for one of {2}",
        "Divide by the counts: weight = counts.sum() / (len(counts) * counts), in the order of the "
        "numbers of the classes.",
        single=True,
    ),
    "positive weight inverted": Meaning(
        "pos_weight is {0}, with {1} rows of class 1 and {2} of class 0",
        "pos_weight = rows of class 0 / rows of class 1.",
        single=True,
    ),
    "weights of other rows": Meaning(
        "the weights of the sampler are {0} numbers, as one for each class, and rows of each class "
        "have several of them: they belong to other rows",
        "Make the weights from the labels in the order of the dataset that the loader reads: "
        "class_weights[labels].",
        single=True,
    ),
    "targets no probabilities": Meaning(
        "targets of a binary cross entropy are not from 0 to 1, but from {0} to {1}",
        "Give it 0 and 1, or shares between them: a mask of 0 and 255 divided by 255, classes of "
        "-1 "
        "and 1 as 0 and 1; several classes need a cross entropy.",
        least=0.0,
    ),
    "row beyond table": Meaning(
        "rows of the dataset have a number in {fields} that the model's table lacks, which has {1} "
        "entries: they go from {2} to {0}",
        TABLE,
        least=0.0,
        broken=True,
    ),
    "files unpaired": Meaning(
        "files of {fields} stand beside a file of another name, whose partner is elsewhere",
        "Sort both lists, or build one from the names of the other.",
        least=0.0,
    ),
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
    ),
    fails=(
        "token ids, classes or other numbers go beyond the model's embeddings or its classes, in a "
        "batch or in a row of the dataset",
    ),
    fix="Look at the rows that are named.",
    owner=Owner.JOB,
    judge=agreed,
    limits="that masks, boxes and classes are the right ones.",
    sources=("torch-ctc-loss", "torchvision-masks"),
)

CHECKS = (AGREED,)
