"""What relations between the fields of batches mean, and their fixes."""

from __future__ import annotations

from doctor.checks.data.relations import Meaning, Meanings
from doctor.checks.data.token_meanings import OF_TOKENS

TABLE = (
    "Number from 0 without gaps, by one mapping for all splits, or give the table the highest "
    "number "
    "plus one entries: nn.Embedding(highest + 1, ...)."
)
FINITE = "Fill or drop what is missing before the batch is made, or give the model a mask of it."
MEANINGS: Meanings = {
    "map turned": Meaning(
        "label maps have height and width in another order than their images",
        "Read both as height x width: PIL's size is width x height, numpy's shape is not.",
        least=0.5,
    ),
    **OF_TOKENS,
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
    "target broadcast": Meaning(
        "outputs and targets differ in their shapes, rows x 1 and rows: the loss compares each of "
        "{0} outputs with all targets",
        "Bring both to one shape: squeeze(-1) on that of [n, 1], or unsqueeze(-1) on the other.",
        single=True,
    ),
    "row not finite": Meaning("rows of the dataset have NaN or Inf in {fields}", FINITE, least=0.0),
    "column unscaled": Meaning(
        "column {0} of {fields} has a mean size of {1}, and most columns one below 100",
        "Scale the columns by the mean and the spread that they have in train.",
        noted=True,
        single=True,
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
    "targets no shares": Meaning(
        "targets of a cross entropy are shares of classes that add up to something else than 1, "
        "from {0} to {1}",
        "Divide by their sum. Several classes that hold at once need BCEWithLogitsLoss.",
    ),
    "targets all equal": Meaning(
        "rows have one and the same vector as their target",
        "Make a list for each row: [[0.0] * n for _ in rows], as [[0.0] * n] * rows is one list "
        "many times; and look at how targets are assigned.",
        least=0.0,
    ),
    "one class taught": Meaning(
        "rows have {0} as {fields}, the target of the loss: a constant is all there is to learn",
        "Look at how the target is made: bool('False') is true, and a filter or a comparison of "
        "other types may leave one class.",
    ),
}
