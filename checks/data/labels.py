"""Whether rows have labels that are trained, and which part of them."""

from __future__ import annotations

from doctor._util.units import listed, shown
from doctor.checks.data.seen import each_split, observed, of_tokens, passed, read_of, rows, share
from doctor.facts.data import Data, Labels, Split
from doctor.judge.check import Check, Owner, Verdict, fail, note, skip

UNLABELLED = 0.05
"""Share of documents without a trained label that is a warning. Our own number."""
NO_LABELS = "the batches have no labels of the shape of their tokens"


def trained(data: Data) -> Verdict:
    return each_split(data, _trained)


def _trained(split: Split) -> Verdict:
    labels = split.labels
    if labels is None:
        return skip(NO_LABELS)
    if labels.unlabelled == labels.documents:
        if labels.learned:
            return note(
                f"every label of the {labels.documents:,} documents read is {labels.ignored}, and "
                "yet gradients are not 0: the loss comes from something else, or from later rows"
            )
        text = f"all {labels.documents:,} documents have no trained label: every label is"
        cause, fix = _cause(split, labels)
        return fail(f"{text} {labels.ignored}{cause}; read: {read_of(split)}", fix=fix)
    if displaced(split):
        return skip("the labels of packed rows are displaced, see DAT013")
    own = labels.objective == "next token"
    if own and labels.unlabelled >= UNLABELLED * labels.documents:
        text = share(labels.unlabelled, labels.documents, "documents have no trained label")
        cause, fix = _cause(split, labels)
        return observed(
            f"{text}: {rows(labels.rows, split.lines)}{cause}", labels.documents, fix=fix
        )
    if labels.dropped >= UNLABELLED * (whole := labels.dropped + (split.total or split.rows)):
        text = share(labels.dropped, whole, "rows have no trained label")
        return note(f"{text}, and a filter or a selection leaves them out", fix=LENGTH)
    if not own:
        return skip("the labels are not the row's own tokens, so rows may have none by chance")
    some = share(labels.unlabelled, labels.documents, "documents without a trained label")
    return passed(some, split)


def displaced(split: Split) -> bool:
    """Whether labels of packed rows lie at the places of other tokens."""
    return any(each.kind == "answers displaced" for each in split.relations)


def fills_the_length(labels: Labels) -> bool:
    """Whether that is why documents have no trained label."""
    few = labels.unlabelled < UNLABELLED * labels.documents
    return not few and 2 * labels.full >= labels.unlabelled > 0


def _cause(split: Split, labels: Labels) -> tuple[str, str | None]:
    """Why documents have no trained label, and its fix; "" and None where that was not seen."""
    if labels.full and 2 * labels.full >= labels.unlabelled:
        text = ", and they are as long as the longest document: the prompt fills the whole length"
        return text, LENGTH
    lacking = [each for each in split.relations if each.kind == "marker nowhere"]
    if lacking:
        names = listed([shown(name) for each in lacking for name in each.fields], 3)
        return f"; the tokens of the collator's {names} stand in none of them", MARKER
    if any(each.kind == "answers unmarked" for each in split.relations):
        return "; the chat template has no {% generation %}, which marks the answers", GENERATION
    return "", None


MARKER = (
    "Compare the marker with such a row: it may have another one, or other tokens, as a space or a "
    "line break before it, or text that follows it, changes them."
)
GENERATION = (
    "Put {% generation %} and {% endgeneration %} around what the assistant says in the chat "
    "template, its stop included; or mask the prompt by its length."
)
LENGTH = "Raise max_length, drop rows whose prompt fills it, or truncate the prompt from the left."


TRAINED = Check(
    code="DAT001",
    slug="rows-have-labels",
    title="Every row has a label that is trained",
    why="A row whose labels are all ignored adds nothing; a batch of them gives a loss of 0 or "
    "NaN, and no error. Prompts that fill the maximum length cause it, and wrong markers.",
    passes=("fewer than 5 % of the documents have no trained label",),
    notes=(
        "none has, and gradients that are not 0 were observed",
        "a filter or a selection leaves out rows without one, at least 5 % of all",
    ),
    warns=("at least 5 % of 32 or more documents have none",),
    fails=("no document that was read has a trained label",),
    fix="Look at a row: the prompt may fill the whole length, the marker of an answer may not "
    "match, or the template may lack {% generation %}.",
    owner=Owner.JOB,
    judge=of_tokens(trained),
    limits="that the right tokens are trained, see DAT013.",
    sources=("trl-6025", "unsloth-1128"),
)

CHECKS = (TRAINED,)
