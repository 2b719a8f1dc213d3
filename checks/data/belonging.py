"""Targets belong to the inputs of their rows and places, and data are what their code states."""

from __future__ import annotations

from doctor.checks.data.relations import Meaning, Meanings, verdicts
from doctor.checks.data.seen import NOTHING
from doctor.facts.data import Data
from doctor.facts.data_rows import Relation
from doctor.judge.check import Check, Owner, Verdict, note, ok, skip, unknown
from doctor.judge.combine import worst

PAIRED = (
    "Look at how inputs and targets are brought together: both in one order, shuffled, filtered "
    "and sorted as one, and changed by one draw."
)
MEANINGS: Meanings = {
    "targets of other rows": Meaning(
        "inputs of {first} explain {0} of their own targets, and {1} of those of other rows "
        "({second})",
        PAIRED,
        single=True,
        explained=True,
    ),
    "targets of no row": Meaning(
        "inputs of {first} explain nothing of their targets ({0}), and those of {second}, which "
        "are distributed alike, {1}",
        PAIRED,
        single=True,
    ),
    "tags of another place": Meaning(
        "tokens of another place ({first}) explain {1} of the tags, and their own {0}, beyond what "
        "the most frequent tag does",
        "Give each token the tag of its own place, with -100 for the special tokens that were "
        "added, and let no collating function shift the tags.",
        single=True,
    ),
    "places apart": Meaning(
        "{third} of {first} lie where the image has something once they are read otherwise: "
        "{second}",
        "Turn, move and scale targets with their image, by one draw.",
        single=True,
    ),
    "boxes of another form": Meaning(
        "boxes of {first} lie where the image has something once they are read as {second}",
        "Convert boxes to the form that the model expects, once and in all splits.",
        single=True,
    ),
    "stated otherwise": Meaning(
        "{first} states {second}, and there are {third}",
        "Correct what is stated, or prepare the data as it says: models and metrics rely on it.",
        single=True,
    ),
}


def belong(data: Data) -> Verdict:
    if not any(split.rows for split in data.splits):
        return unknown(NOTHING)
    every = [*data.relations, *(each for split in data.splits for each in split.relations)]
    found = verdicts(every, MEANINGS)
    covered = [each for each in every if each.kind == "inputs tell targets"]
    known = [each for each in covered if each.part]
    if found:
        return worst(*found)
    if known:
        shares = ", ".join(_explained(each) for each in known)
        return ok(
            f"a simple learner predicts targets from the inputs of their rows: {shares}; what else "
            "may be wrong with the inputs was not asked"
        )
    if covered:
        names = " and ".join(each.fields[0] for each in covered)
        return note(
            f"a simple learner explains nothing of the targets of {names}: whether they belong to "
            "their inputs was not seen"
        )
    return skip("no inputs with one target for each row were read")


def _explained(covered: Relation) -> str:
    return f"{float(covered.numbers[0]):.0%} explained in {covered.fields[0]}"


BELONG = Check(
    code="DAT027",
    slug="targets-belong",
    title="Targets belong to the inputs of their rows and places",
    why="Inputs and targets that were sorted, shuffled or turned apart have the right shapes and "
    "the right distribution. The loss falls to what a constant reaches, and no further.",
    passes=(
        "a simple learner predicts targets of rows that it has not seen, and from no other row "
        "better",
    ),
    notes=("the learner explains nothing, as of random targets or of hard ones",),
    warns=(
        "it explains nothing from the own input, and much from a row at a fixed distance, or in "
        "another order; or much in the other split, whose inputs are distributed alike",
        "maps or boxes fit their image once they are mirrored, turned, moved, of another row, or "
        "read in another form",
        "a token some places further tells a tag, and its own does not",
        "the data set, a processor or the documentation states fewer classes or tokens, more "
        "columns, other values or another order of sides than the rows have",
    ),
    fix=PAIRED,
    owner=Owner.JOB,
    judge=belong,
    limits="that the targets are right, or that all of them belong to their inputs.",
    sources=("torch-data-loading",),
)

CHECKS = (BELONG,)
