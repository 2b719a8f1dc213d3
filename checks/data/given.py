"""The input does not hold what is to be predicted."""

from __future__ import annotations

from doctor.checks.data.relations import Meaning, Meanings, verdicts
from doctor.checks.data.seen import each_split, observed, passed, share
from doctor.facts.data import Data, Labels, Split
from doctor.judge.check import Check, Owner, Verdict, skip
from doctor.judge.combine import worst

VISIBLE, LEAST_LABELS = 0.4, 256
"""Share of labels of a masked model that are the input's own token (BERT leaves a tenth), and
labels that are compared. Our own numbers."""

DROP = (
    "Leave out features that are known only after the outcome, or that are filled in from it; keep "
    "what is known at the time of the prediction."
)
MEANINGS: Meanings = {
    "answer ends prompt": Meaning(
        "prompts end with their answer",
        "Build the prompt from the question alone: the answer belongs to the reward or the label.",
        least=0.9,
    ),
    "answer is prompt": Meaning(
        "answers are equal to their prompt",
        "Drop these rows, or find their answers: the model learns to repeat the prompt.",
        by_row=True,
    ),
    "label in text": Meaning(
        "texts have the name of their class as a word",
        "Take the label out of the text, which is a header or a prefix that was joined with it.",
        least=0.9,
    ),
    "class has one value": Meaning(
        "rows, all those of class {1}, have one value in column {0} of {fields} that no other row "
        "has: the column gives the class away",
        DROP,
        least=0.0,
    ),
    "column separates": Meaning(
        "rows are distinguished by a threshold in column {0} of {fields} alone", DROP, noted=True
    ),
    "gives class away": Meaning(
        "rows have their class in {third} of {second}, which is another one in each class",
        DROP,
        least=0.5,
    ),
    "may give class away": Meaning(
        "rows have their class in {third} of {second}, which is another one in each class",
        DROP,
        noted=True,
    ),
    "window holds target": Meaning(
        "targets are the value at place {0} of {fields}, which the model gets",
        "End the input before the step that is to be predicted: x = s[t - n : t], y = s[t].",
    ),
    "column holds target": Meaning(
        "targets are column {0} of {fields}, step by step, which the model gets",
        "Leave this column out of the input, and lessen the inputs of the layer that gets it: what "
        "is to be predicted is not known beforehand.",
    ),
    "history ends with target": Meaning(
        "targets are the last item of {fields}, which the model gets",
        "Leave the item that is to be predicted out of the history: items[:-1] and items[-1].",
        least=0.5,
    ),
    "equal inputs": Meaning(
        "rows have equal {fields}, which should be two of a kind",
        "Draw each of them for itself: augment, or add the noise, once for each, and look at how "
        "the negatives are drawn.",
    ),
    "step changes nothing": Meaning(
        "transitions have {fields} equal to the state before: the array is written in place",
        "Copy the observation when it is stored, or return a copy from the environment: "
        "obs.copy() before env.step().",
        least=0.9,
    ),
    "mask predicted": Meaning(
        "rows predict the token of the mask, which their input has there: labels were copied "
        "after the "
        "tokens were masked",
        "Copy the labels first: labels = input_ids.clone(), and mask input_ids then.",
        least=0.2,
    ),
    "links in graph": Meaning(
        "links that are to be predicted are edges of the graph that the model gets",
        "Give the model the edges of train alone: the links of the evaluation, in both "
        "directions, are "
        "left out of edge_index (RandomLinkSplit of torch_geometric does it).",
    ),
    "target is input": Meaning(
        "rows have their own input as labels: the decoder learns to copy it",
        "Tokenize the column of the targets for the labels (text_target=), and the one of the "
        "texts for "
        "input_ids.",
        least=0.9,
    ),
    "decoder sees target": Meaning(
        "rows have decoder_input_ids equal to their labels: the decoder copies what it gets",
        "Shift decoder_input_ids to the right behind decoder_start_token_id, or give the model "
        "labels alone.",
        least=0.5,
    ),
}


def unseen(data: Data) -> Verdict:
    of_rows = verdicts(data.relations, MEANINGS)
    return worst(each_split(data, _unseen), *of_rows)


def _unseen(split: Split) -> Verdict:
    found = verdicts(split.relations, MEANINGS)
    known = any(each.kind == "mask predicted" for each in split.relations)
    visible = None if known else _visible(split.labels)
    if visible is not None:
        found.append(visible)
    if found:
        return worst(*found)
    if split.agreement is None and split.labels is None and split.texts is None:
        return skip("no inputs with targets were read")
    return passed("no relation of this kind between inputs and targets", split)


def _visible(labels: Labels | None) -> Verdict | None:
    """Of a masked model, labels whose token the input has at the same place."""
    if labels is None or labels.objective != "other tokens" or labels.compared < LEAST_LABELS:
        return None
    same = labels.matches.get("0", 0)
    if same < VISIBLE * labels.compared:
        return None
    text = share(same, labels.compared, "labels are the token that the input has there, too")
    return observed(f"{text}: they are copied, not predicted", labels.documents, fix=MASKED)


MASKED = "Set the labels of tokens that were not chosen to be masked to -100."

UNSEEN = Check(
    code="DAT024",
    slug="target-unseen",
    title="The input does not hold what is to be predicted",
    why="A model that can copy its target does: the loss falls, the evaluation is nearly perfect, "
    "and where the target is not given it knows nothing.",
    passes=("no relation of this kind holds between inputs and targets",),
    notes=(
        "a threshold in one column tells two classes apart in all rows, or a length each class",
    ),
    warns=(
        "at least 90 % of 32 or more prompts end with their answer",
        "at least 5 % of 32 or more answers, of 20 characters and 4 words, equal their prompt, and "
        "fewer differ from it in some words alone, as corrections do",
        "a column has one value in all rows of a class, and others in all other rows; a token at "
        "one place, a pixel at the edge or the number of the row does so for all classes",
        "a place of the input window or a column of a series is the target in all rows, or "
        "histories end with it",
        "at least 5 % of 32 or more rows have two equal inputs of a kind, as views or a triplet",
        "decoder_input_ids equal the labels, or the labels of a decoder are its input",
        "a masked model predicts the mask, or eval asks for links that its graph has",
        "at least 40 % of a masked model's labels are the token of the input",
    ),
    fix="Look at how inputs and targets are made.",
    owner=Owner.JOB,
    judge=unseen,
    limits="that no combination of inputs holds it.",
    sources=("torch-dataloader",),
)

CHECKS = (UNSEEN,)
