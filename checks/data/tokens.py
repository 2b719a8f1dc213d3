"""Special tokens: the beginning of a sequence, and padding."""

from __future__ import annotations

from doctor._util.records import Unknown
from doctor._util.units import shown
from doctor.checks.data.relations import Meaning, Meanings, verdicts
from doctor.checks.data.seen import each_split, observed, of_tokens, passed, rows, share
from doctor.facts.data import Data, Padding, Split
from doctor.judge.check import Check, Owner, Verdict, note, skip, unknown
from doctor.judge.combine import worst

TWICE, LACKING = 0.5, 0.9
"""Shares of documents that begin with two of them, or with none, from which on it is the pipeline.
Our own numbers."""
LACK = (
    "Keep the tokenizer's special tokens (add_special_tokens=True), or put this one before each "
    "document: the model was trained behind it."
)

TRAINED_SHARE = 0.5
"""Of the padding of labels that are no tokens of the row. Our own number."""


def once(data: Data) -> Verdict:
    return each_split(data, _once)


def _once(split: Split) -> Verdict:
    starts = split.starts
    if starts is None:
        return skip("the rows have no tokens, or the tokenizer no token for their beginning alone")
    if isinstance(starts, Unknown):
        return unknown(starts.reason)
    text = share(
        starts.twice, starts.documents, f"documents begin with {shown(starts.token)} twice"
    )
    if starts.twice >= TWICE * starts.documents:
        return observed(f"{text}: {rows(starts.rows, split.lines)}", starts.documents)
    if starts.without >= LACKING * starts.documents:
        what = f"documents lack {shown(starts.token)}, with which the tokenizer begins each text"
        lack = share(starts.without, starts.documents, what)
        return observed(lack, starts.documents, fix=LACK)
    return passed(text, split)


ONCE = Check(
    code="DAT004",
    slug="bos-once",
    title="The token for the beginning occurs once",
    why="A chat template writes it, and a tokenizer that is called on the rendered text adds it "
    "again: training and use then differ by one token.",
    passes=("fewer than half of the documents begin with two of them",),
    warns=(
        "at least half of 32 or more documents do",
        "90 % of 32 or more documents of several lengths lack the one that the tokenizer adds and "
        "the config of a trained model states, and no document has it",
    ),
    fix="Tokenize a rendered template with add_special_tokens=False, or call "
    "apply_chat_template(tokenize=True).",
    owner=Owner.JOB,
    judge=of_tokens(once),
    limits="that the server which runs the model adds it once.",
    sources=("soup-781",),
)


def unused(data: Data) -> Verdict:
    return each_split(data, _unused)


def _unused(split: Split) -> Verdict:
    if found := verdicts(split.relations, MEANINGS):
        return worst(*found)
    padding = split.padding
    if padding is None or isinstance(padding, Unknown):
        return skip("the rows have no tokens")
    if split.labels is None or split.labels.objective != "next token":
        return _attended(padding, split)
    if padding.trained:
        text = share(
            padding.trained, padding.excluded, "positions that the mask excludes are trained"
        )
        return observed(f"{text}: {rows(padding.trained_rows)}", padding.rows, fix=TRAINED)
    if padding.labelled:
        text = share(padding.labelled, padding.rows, "rows train a run of the padding token")
        if not padding.loss_known:
            return note(f"{text}, unless the loss ignores it (ignore_index)", fix=TRAINED)
        return observed(text, padding.rows, fix=TRAINED)
    if padding.attended > padding.unmasked:
        text = share(padding.attended, padding.rows, "rows are padded, and their mask includes it")
        return observed(text, padding.rows)
    return _without_fault(padding, split)


def _attended(padding: Padding, split: Split) -> Verdict:
    """Of an input with labels of its own: a class, other tokens, or none."""
    own = split.labels is not None and split.labels.objective == "other tokens"
    if own and padding.trained >= TRAINED_SHARE * padding.excluded > 0:
        what = "positions that the mask excludes have labels that are not ignored"
        text = f"{share(padding.trained, padding.excluded, what)}: {rows(padding.trained_rows)}"
        if padding.loss_known:
            return observed(text, padding.rows, fix=TRAINED)
        return note(f"{text}, unless the loss leaves them out", fix=TRAINED)
    if padding.attended and not padding.excluded:
        no_mask = padding.unmasked == padding.attended
        what = "the model gets no mask" if no_mask else "their mask includes it"
        text = share(padding.attended, padding.rows, f"rows are padded, and {what}")
        return observed(text, padding.rows)
    if padding.excluded:
        return passed(f"the mask excludes {padding.excluded:,} positions", split)
    return skip("no row is padded, or there is no mask that an encoder reads")


def _without_fault(padding: Padding, split: Split) -> Verdict:
    if padding.excluded:
        return passed(f"none of {padding.excluded:,} padded positions is trained", split)
    if padding.padded:
        return passed(f"padding of {padding.padded:,} rows is not trained", split)
    return skip("no row is padded")


TRAINED = "Set the labels of padding to -100 by the attention mask, never by the id of the token."

MEANINGS: Meanings = {
    "padding in loss": Meaning(
        "numbers of {fields} that the loss counts are padding, behind the end of their row",
        "Leave padded steps out of the loss: a mask of the lengths, and a mean over what it keeps.",
    ),
}

UNUSED = Check(
    code="DAT005",
    slug="padding-unused",
    title="Padding is neither trained nor attended to",
    why="Trained padding dilutes the loss and teaches the model to emit it. Padding that the mask "
    "includes changes what the text's tokens see.",
    passes=("no position that the mask excludes has a label, and the mask excludes padding",),
    notes=("a run of a number that may be padding has labels, and the target holds no loss",),
    warns=(
        "a position that the mask excludes has a label, in 32 or more rows",
        "rows are padded to several lengths, and their mask is all ones, or an encoder of "
        "transformers gets none",
        "a run of the padding token has labels that the loss does not leave out",
        "half of the padding of labels for each token, such as tags, is not ignored",
        "at least 5 % of the measured targets that a loss counts are padding",
    ),
    fix="Pass the attention mask that the tokenizer returns, or build it from the lengths.",
    owner=Owner.JOB,
    judge=of_tokens(unused),
    limits="that the model uses the mask.",
    sources=("transformers-causal-loss",),
)

CHECKS = (ONCE, UNUSED)
