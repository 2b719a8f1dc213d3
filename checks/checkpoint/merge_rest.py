"""Whether a merged model is its base where no adapter changes it, and has its tokens."""

from __future__ import annotations

from doctor._util.records import Unknown
from doctor._util.units import listed, shown
from doctor.checkpoint.computed import not_computed
from doctor.checkpoint.records import Checkpoint, Merge, Untouched
from doctor.checkpoint.records.merge import TokenizerChange
from doctor.checks.checkpoint.merged import OTHER_FIX, rest_differs
from doctor.judge.check import Check, Owner, Verdict, fail, note, ok, skip, unknown, warn

TOKENIZER_FIX = (
    "Save the tokenizer that the adapter was trained with beside the merged model: "
    "AutoTokenizer.from_pretrained(ADAPTER or BASE).save_pretrained(MERGED). The rows of the "
    "embedding are those of its tokens."
)


def rest_unchanged(checkpoint: Checkpoint) -> Verdict:
    merge = checkpoint.merge
    if merge is None or (isinstance(merge, Merge) and merge.untouched is None):
        return skip("no --merged-from")
    if isinstance(merge, Unknown):
        return unknown(f"the merge could not be compared: {merge.reason}")
    rest = merge.untouched
    assert rest is not None
    if named := next((each for each in merge.adapters if each.unsupported), None):
        return unknown(f"what the adapter changes is not known: {named.path}: {named.unsupported}")
    if rest.changed_count:
        text = f"{rest.changed_count:,} of {rest.compared:,} tensors that no adapter changes differ"
        return rest_differs(merge, f"{text}: {listed(list(rest.changed), 3)}")
    if rest.reshaped:
        return fail(f"other shapes: {listed(list(rest.reshaped), 3)}", fix=OTHER_FIX)
    return _equal_rest(merge, rest)


def _equal_rest(merge: Merge, rest: Untouched) -> Verdict:
    """Where no tensor has another value or shape."""
    equal = f"{rest.equal:,} of {rest.compared:,} other tensors are the base's"
    missing = [name for name in not_computed(rest.removed) if name not in rest.copies]
    if missing:
        count = rest.removed_count - len(rest.removed) + len(missing)
        return warn(f"{equal}; {count:,} are not in the merged model: {listed(missing, 3)}")
    if verdict := other_tokenizer(merge.tokenizer, equal):
        return verdict
    if rest.unread:
        return unknown(f"{equal}; {rest.unread:,} could not be compared")
    notes = [
        f"{rest.cast:,} were cast ({', '.join(rest.casts)})" * bool(rest.cast),
        f"resized: {listed(list(rest.padded), 3)}" * bool(rest.padded),
        _left_out(rest) * bool(rest.removed_count),
        f"{rest.added_count:,} are new: {listed(list(rest.added), 3)}" * bool(rest.added_count),
        *_tokenizer_notes(merge.tokenizer),
    ]
    told = "; ".join(filter(None, notes))
    return note(f"{equal}; {told}") if told else ok(equal)


def other_tokenizer(change: TokenizerChange | None, equal: str) -> Verdict | None:
    """The warning on tokens that mean other rows, or texts that are cut otherwise."""
    if change is None or not (change.moved or change.rules):
        return None
    beside = f"in the tokenizer beside {shown(change.origin, 200)}"
    if change.moved:
        examples = listed(list(change.examples), 2)
        text = f"{change.moved:,} tokens have other numbers {beside}: {examples}"
    else:
        text = f"{listed(list(change.rules), 3)} of tokenizer.json are others than {beside}"
    return warn(f"{equal}; {text}", fix=TOKENIZER_FIX)


def _tokenizer_notes(change: TokenizerChange | None) -> list[str]:
    if change is None:
        return []
    return [
        f"the tokenizer has {change.added:,} further tokens" * bool(change.added),
        f"the tokenizer lacks {change.removed:,} tokens" * bool(change.removed),
        "the chat template is another" * change.template,
    ]


def _left_out(rest: Untouched) -> str:
    names = listed(list(rest.removed), 3)
    return f"{rest.removed_count:,} tied or computed ones are not in the merged model: {names}"


REST = Check(
    code="CKP016",
    slug="merge-leaves-rest",
    title="Tensors that no adapter changes are those of the base",
    why="Norms, embeddings and heads that differ from the base although no adapter changes them "
    "show another base, a further training, or a conversion that changed values.",
    passes=("every other tensor has the base's values",),
    notes=(
        "tensors were cast, embeddings were padded or resized, or new tensors were added",
        "a tied head or computed buffers of the base are missing",
        "the tokenizer has further tokens or lacks some, or the chat template is another",
    ),
    warns=(
        "other tensors of the base are missing in the merged model",
        "tokens have other numbers than with the adapter or the base, or texts are cut otherwise",
        "other matrices differ as a base does that was quantized before the merge",
    ),
    fails=("another tensor has other values or another shape",),
    fix=OTHER_FIX,
    limits="that configuration and generation settings are those of the base.",
    owner=Owner.JOB,
    judge=rest_unchanged,
    required="checkpoint",
    sources=("peft-lora",),
    after=("CKP001",),
)

CHECKS = (REST,)
