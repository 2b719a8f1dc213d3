"""Train and eval are prepared alike, and belong to different data."""

from __future__ import annotations

from doctor.checks.data.relations import Meaning, Meanings, verdicts
from doctor.facts.data import Data
from doctor.facts.data_rows import Relation
from doctor.judge.check import Check, Owner, Verdict, note, ok, skip, warn
from doctor.judge.combine import worst

MOST_CLASSES, ABSENT = 100, 0.05
"""Classes of train above which their numbers may be counts, and share of the rows of eval that have
a class that train lacks. Our own numbers."""

ALIKE = (
    "Prepare both splits by the same steps, with the mean and the scale that were fitted on train; "
    "leave out of eval the random ones alone."
)
MEANINGS: Meanings = {
    "scale differs": Meaning(
        "{fields}: values from {0} to {1} in train, and from {2} to {3} in eval", ALIKE, single=True
    ),
    "target scale differs": Meaning(
        "{fields}, a target: values from {0} to {1} in train, and from {2} to {3} in eval; a loss "
        "on eval is not comparable with that of train, unless the metric turns the scaling of "
        "train around",
        "Scale the target of both splits by the numbers of train, or turn the predictions back "
        "(inverse_transform) before they are compared with targets in original units.",
        noted=True,
        single=True,
    ),
    "prepared apart": Meaning("{first}: {second}", ALIKE, single=True),
    "of another kind": Meaning(
        "{first}: {second}; the dataset of eval alone has {third}, so that it may be meant",
        "Where eval is no other domain on purpose, prepare both splits by the same steps.",
        noted=True,
        single=True,
    ),
    "targets numbered apart": Meaning(
        "what train teaches holds in eval once its targets are numbered otherwise: {first}",
        "Number the classes once, from train, and give the same mapping to each split.",
        single=True,
    ),
    "sides exchanged": Meaning(
        "rows of eval have the tokens of train's targets in their input, and those of its inputs "
        "in their target: source and target are exchanged in one of the splits",
        "Tokenize the same column as input, and the same one as labels, in both splits.",
        least=0.6,
    ),
    "scaled apart": Meaning(
        "{0} of {1} columns of {fields} have mean 0 and spread 1, or go from 0 to 1, in each split "
        "for itself: eval was scaled by its own numbers",
        "Fit the scaler on train alone, and transform eval by it: transform(), not "
        "fit_transform().",
        single=True,
    ),
    "fitted on eval": Meaning(
        "{0} of {1} columns of {fields} have mean 0 and spread 1, or go from 0 to 1, in both "
        "splits together, and not in train: they were scaled before the split",
        "Split first, then fit the scaler on train alone.",
        single=True,
    ),
    "eval of one class": Meaning(
        "all {0} rows of eval have one class, of {1} in train",
        "Shuffle, or divide each class, before the data are split.",
        single=True,
    ),
    "group in both": Meaning(
        "rows of eval have a {fields} that rows of train have, too",
        "Split by it (GroupShuffleSplit), so that eval holds none that was trained on.",
        least=0.2,
    ),
    "nearly in train": Meaning(
        "rows of eval have a near copy in train, whose {fields} differs in case, brightness or by "
        "a flip alone",
        "Split before copies are made or changed, and remove near copies across the splits.",
        least=0.02,
    ),
    "eval before train": Meaning(
        "rows of eval are earlier, by {fields}, than nearly all rows of train: the past is "
        "predicted from "
        "the future",
        "Sort by time, and take the last part for the evaluation.",
        least=0.9,
    ),
    "windows shared": Meaning(
        "windows of eval lie in windows of train, at other places of the same series",
        "Split the series by time, or by what it belongs to, before windows are cut from it.",
        least=0.5,
    ),
}
UNLABELLED = (
    "Evaluate on a split that has labels: the test splits of GLUE and other benchmarks hold -1, as "
    "their labels are kept back. Nothing, if -1 stands for classes that train does not know."
)
SPLIT = "Shuffle, or divide each class, before the data are split; look at how the labels are read."
RANDOM = (
    "Give eval a dataset of its own without random changes: a Subset has the transform of the "
    "dataset below it."
)


def alike(data: Data) -> Verdict:
    if len([split for split in data.splits if split.rows]) < 2:
        return skip("there is no second split to compare with")
    found = verdicts(data.relations, MEANINGS)
    for relation in data.relations:
        if relation.kind == "class in eval alone":
            found += _classes(relation)
        elif relation.kind == "eval unlabelled":
            text = f"all {relation.whole:,} rows of eval have the class -1, and none of train has"
            found.append(note(text, fix=UNLABELLED))
        elif relation.kind == "eval random":
            found.append(_random(relation))
    return (
        worst(*found)
        if found
        else ok("eval has no scale, layout or class that was seen to differ from those of train")
    )


def _classes(relation: Relation) -> list[Verdict]:
    absent, other, train = (int(float(each)) for each in relation.numbers)
    if train > MOST_CLASSES or relation.part < ABSENT * relation.whole:
        return []
    text = (
        f"{relation.part:,} of {relation.whole:,} rows of eval have a class that no row of train "
        f"has: {absent} of {other} classes"
    )
    if absent == other:  # as in metric learning
        return [note(f"{text}, all of them", fix=SPLIT)]
    return [warn(text, fix=SPLIT)]


def _random(relation: Relation) -> Verdict:
    shared, image = (bool(float(each)) for each in relation.numbers)
    text = "rows of eval differ when they are read again"
    if shared and image:
        return warn(f"{text}, by the random changes of train, whose dataset they share", fix=RANDOM)
    return note(f"{text}: each evaluation is of other inputs", fix=RANDOM)


SPLITS_ALIKE = Check(
    code="DAT025",
    slug="splits-alike",
    title="Train and eval are prepared alike, and eval has no class of its own",
    why="An evaluation of inputs on another scale, of classes that were never trained, or of "
    "windows that train has, too, says nothing about the model.",
    passes=(
        "scale and layout of both splits agree, train has every class of eval, and no window lies "
        "in both",
    ),
    notes=(
        "the target is larger in eval, as in original units",
        "rows of eval differ when they are read again",
        "one change of eval makes it like train, and its dataset names a corruption, a domain, a "
        "sensor or the like that train has not",
        "no class of eval is in train, as in metric learning",
        "all rows of eval have the class -1, and none of train has",
    ),
    warns=(
        "a field's spread or mean differs by a factor of 10, or only one split's images go below 0",
        "one change of eval makes it like train: channels exchanged or in another dimension, a "
        "normalization, a unit, columns or time in another order, sides exchanged, colors lost, a "
        "token for unknown words",
        "a learner that train taught is right in eval once the classes are numbered otherwise",
        "at least 5 % of eval's rows have a class that no row of train has",
        "at least half of 32 or more windows of eval lie in windows of train",
        "at least 20 % of 32 or more rows of eval share a patient, a video or the like with train",
        "at least 2 % of 32 or more rows of eval have a near copy in train",
        "columns were scaled by eval alone or by both splits",
        "32 or more rows of eval have one class, and train several",
        "eval shares the dataset of train with its random changes of images",
        "at least 90 % of 32 or more rows of eval are earlier than nearly all rows of train",
    ),
    fix=ALIKE,
    owner=Owner.JOB,
    judge=alike,
    limits="that both splits come from where the model will be used.",
    sources=("sklearn-time-series", "mteb-1036"),
)

CHECKS = (SPLITS_ALIKE,)
