"""Remedies of values in a batch that the model does not take, by the remark on them."""

from __future__ import annotations

import re
from collections.abc import Sequence

OF_1 = r"[^;]*\[0, (\d+)\): \1; the smallest label is 1"
INVALID = (
    (
        r"not finite, all of \[:, \d",
        "A column that is NaN throughout is constant and was divided by its standard deviation of "
        "0: (x - mean) / (std + 1e-8). Or it is empty in the file: leave it out.",
    ),
    (
        r"labels: all \d+ are ignored",
        "Every label of the batch is ignored: cut the prompt instead of the answer, or raise the "
        "maximum length; compare the answer's marker with the template; leave out rows without a "
        "label.",
    ),
    (
        r"labels: [^;]*\): (?:-1|255)(?![\d,])",
        "One value marks what is to be ignored: pass it as ignore_index to the loss, or replace it "
        "by -100, torch's default: labels.masked_fill(labels == VALUE, -100).",
    ),
    (
        f"labels: {OF_1}",
        "Subtract 1 from the labels: they are counted from 1, and a loss counts classes from 0. If "
        "class 0 exists and is absent from this batch only, give the last layer one output more "
        "(num_labels, out_features) instead.",
    ),
    (
        rf"labels: (?!all )(?![^;]*\): (?:-1|255)(?![\d,]))(?!{OF_1})",
        "Give the last layer as many outputs as there are classes (num_labels, out_features), the "
        "highest label + 1. Labels that do not count from 0, such as codes or years, are numbered "
        "in the data set first, {code: n for n, code in enumerate(sorted(every code))}; -100 is "
        "ignored.",
    ),
    (
        r"tokens: .* \[0, (\d+)\): \1(?![\d,]| and)",
        "Give the embedding one row more, as after a token was added to the vocabulary "
        "(resize_token_embeddings(len(tokenizer))): the highest id is the number of rows. If ids "
        "count from 1 and none of them is 0, subtract 1 instead.",
    ),
    (
        r"tokens: .* \[0, \d+\): -100\b",
        "Replace -100 in what is embedded only: the labels of the loss keep it, which marks what "
        "is ignored. Input ids that a collate function padded with it take PAD, "
        "input_ids.masked_fill(input_ids == -100, PAD), with the attention mask. Labels "
        "that a decoder gets are shifted right first, so that it does not see what it predicts. "
        "Labels are no input ids: they have -100 at prompts, too.",
    ),
    (
        r"tokens: .* \[0, \d+\): -(?!100\b)",
        "A negative id marks padding or an unknown token: replace it before the model, "
        "ids.masked_fill(ids < 0, 0), and mask these places in attention and loss. A larger table "
        "does not help.",
    ),
    (
        r"tokens: .* \[0, (\d+)\): (?!-|\1(?![\d,]| and))",
        "Give the embedding a row for each id (num_embeddings above the highest one), or number "
        "the ids from 0 without gaps. With a tokenizer use that of this model, and call "
        "resize_token_embeddings(len(tokenizer)) after tokens were added.",
    ),
    (
        "positions: ",
        "Truncate the samples to the length of the model (max_length, truncation=True).",
    ),
)
"""Expression for a remark on the batch -> its remedy, before the general one."""
BEYOND = re.compile(r"(?:tokens|labels): .* outside .*\): [^-]*|positions: .*")
"""What the model has too few rows, classes or positions for: either of them may be wrong."""
UNFIT = "the batch and the sizes of the model do not agree"
BELOW_0 = re.compile(r"\[0, \d+\): -|: -\d")
POSITIONS = re.compile(r"positions: .* beyond the model's length, it has (\d+)")
POSITIONS_FIX = (
    "Give that table of positions as many rows as the longest sample has tokens, it has {0}, or "
    "cut the samples to {0} tokens."
)
BELOW_0_FIX = (
    "Correct the computation in that line, which gives a number below 0: a count that starts at 1 "
    "less 1 is -1 where nothing was counted yet, as positions from a mask are at padding on the "
    "left.\n"
    "positions = (mask.cumsum(-1) - 1).clamp(min=0)"
)


def fix_of_index(remarks: Sequence[str]) -> str:
    """For an index that the code computes, "" for the general remedy."""
    together = " ".join(remarks)
    if BELOW_0.search(together):
        return BELOW_0_FIX
    positions = POSITIONS.search(together)
    return POSITIONS_FIX.format(positions[1]) if positions else ""
