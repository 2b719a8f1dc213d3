"""How answers end: with a stop that generation knows, and not in the middle."""

from __future__ import annotations

from doctor._util.records import Unknown
from doctor._util.units import listed, shown
from doctor.checks.data.labels import fills_the_length
from doctor.checks.data.relations import Meaning, Meanings, verdicts
from doctor.checks.data.seen import FEW, each_split, observed, of_tokens, passed, share
from doctor.facts.data import Data, Split, Stops
from doctor.facts.data_rows import Markers
from doctor.judge.check import Check, Owner, Verdict, note, ok, skip, unknown
from doctor.judge.combine import worst

UNSTOPPED = 0.9
"""Share of answers without a trained stop that is a warning. Our own number."""
PACKED_TOKENS = 4096
"""Tokens of joined documents among which some end. Our own number."""
CUT = 0.05
"""Share of cut answers that is a warning. Our own number."""
NO_ANSWERS = "no row has a prompt that is not trained, followed by an answer that is"


def stop_trained(data: Data) -> Verdict:
    return each_split(data, _stop_trained)


def _stop_trained(split: Split) -> Verdict:
    stops = split.stops
    if stops is None:
        return skip(NO_ANSWERS)
    if isinstance(stops, Unknown):
        return unknown(stops.reason)
    if reason := _other_cause(split):
        return skip(reason)
    if not stops.answers:
        return _whole_chats(stops, split)
    whole = stops.answers - stops.at_limit
    without = whole - stops.stopped
    if not whole:
        return unknown("every answer that was read ends where the longest row does")
    if without >= UNSTOPPED * whole:
        return _unstopped(stops, without, whole, _pieces(split))
    text = share(stops.stopped, whole, "answers train a token at which generation stops")
    return passed(f"{text} ({_stated(stops)})", split)


def _unstopped(stops: Stops, without: int, whole: int, pieces: str) -> Verdict:
    text = share(without, whole, "answers do not train a token at which generation stops")
    text = f"{text} ({_stated(stops)}){_instead(stops)}"
    if pieces:
        marker = shown(pieces, 40)
        text = f"{text}; the template's {marker} is no token of this tokenizer, but several"
        return observed(text, whole, fix=PIECES)
    if stops.ends and not stops.stated:
        return note(f"{text}, unless a generation_config says so", fix=_fix(stops))
    return observed(text, whole, fix=_fix(stops))


def _other_cause(split: Split) -> str:
    """What explains a stop that is not trained, and is judged elsewhere; "" for nothing."""
    if is_foreign(split):
        return "special tokens are plain text or split, see DAT014"
    labels = split.labels
    if labels is not None and labels.inverted >= 0.5 * labels.documents > 0:
        return "the beginning is trained and the end is not, see DAT013"
    return ""


def _whole_chats(stops: Stops, split: Split) -> Verdict:
    """Chats that are trained from their first token on."""
    if _cut_alike(stops):
        return skip("documents are cut before their stop, see DAT003")
    what = "documents end with" if stops.whole else "chats have"
    if stops.unended == stops.whole and stops.whole >= FEW and stops.tokens >= PACKED_TOKENS:
        text = f"no stop in {stops.tokens:,} tokens of {stops.whole:,} rows of one length"
        return note(
            f"{text} ({_stated(stops)}): documents run into each other, or are longer", fix=JOINED
        )
    if stops.open >= UNSTOPPED * stops.whole > 0:
        text = share(stops.open, stops.whole, "documents, which begin alike, hold no stop")
        return observed(f"{text} ({_stated(stops)})", stops.whole, fix=ENDLESS)
    if not stops.chats:
        return skip(NO_ANSWERS)
    text = share(stops.untrained, stops.chats, f"{what} a stop, and no label of it is trained")
    if stops.untrained >= UNSTOPPED * stops.chats:
        return observed(f"{text} ({_stated(stops)})", stops.chats, fix=MASKED)
    return passed(f"{text} ({_stated(stops)})", split)


def _cut_alike(stops: Stops) -> bool:
    return bool(stops.limit) and stops.open >= UNSTOPPED * stops.whole > 0


def is_foreign(split: Split) -> bool:
    """Whether markers of chats are spelled in several tokens in half of the documents."""
    markers = split.markers
    if not isinstance(markers, Markers):
        return False
    counts = [*markers.split.values(), *markers.foreign.values()]
    return max(counts, default=0) >= 0.5 * markers.documents


def _pieces(split: Split) -> str:
    """A marker of the template that most documents have, and the tokenizer has not as a token."""
    markers = split.markers
    if not isinstance(markers, Markers):
        return ""
    ordered = sorted(markers.pieces, key=lambda each: "end" not in each)
    most = max(ordered, key=lambda each: markers.pieces[each], default="")
    return most if most and markers.pieces[most] >= 0.5 * markers.documents else ""


def _stated(stops: Stops) -> str:
    return f"{listed([shown(each, 40) for each in stops.generation], 4)}, by {stops.source}"


def _instead(stops: Stops) -> str:
    if stops.ends:
        end = max(stops.ends, key=lambda name: stops.ends[name])
        return f"; they end with {shown(end, 40)}, at which it does not stop"
    if stops.masked_ends:
        return "; the stop follows the answer, and its label is masked"
    return "; no stop follows the answer"


JOINED = "Append eos_token_id to each document before documents are joined and cut into rows."
ENDLESS = (
    "Append eos_token to each text before it is tokenized, or its id to the tokens: tokenizers "
    "of decoders do not add it by themselves."
)
MASKED = (
    "Train the stop: give padding a token of its own, as labels that are masked by the padding's "
    "id lose an equal eos_token, or extend the mask of the answer by the stop."
)


PIECES = (
    "Add the template's markers to the tokenizer as special tokens, resize the embeddings, and set "
    "eos_token to the end of a turn; or use the template that belongs to the tokenizer."
)


def _fix(stops: Stops) -> str:
    if stops.ends:
        end = shown(max(stops.ends, key=lambda name: stops.ends[name]), 40)
        return (
            f"Add {end} to eos_token_id of the model's generation_config, and save it with the "
            "model; or train the token at which generation stops."
        )
    if stops.masked_ends:
        return MASKED
    return "Let each answer end with the stop: the template's end of turn, or add_eos_token=True."


STOP = Check(
    code="DAT002",
    slug="stop-is-trained",
    title="Answers train the token at which generation stops",
    why="A model that was never trained to emit the stop does not end its answers. Often another "
    "token is trained than the one in generation_config.",
    passes=("an answer's last trained labels contain a token at which generation stops",),
    notes=(
        "answers end with another special token, and no generation_config is known",
        "no stop is in 4,096 or more tokens of 32 or more rows that are trained as a whole",
    ),
    warns=(
        "at least 90 % of 32 or more answers that are not cut train none",
        "at least 90 % of 32 or more chats that are trained as a whole end with a token at which "
        "generation does not stop",
        "at least 90 % of 32 or more documents that are trained as a whole begin alike, have "
        "several lengths, and hold no stop",
        "at least 90 % of 32 or more chats or documents that are trained as a whole have a stop "
        "that is masked",
    ),
    fix="Let each answer end with a token of generation_config.eos_token_id, and train it.",
    owner=Owner.JOB,
    judge=of_tokens(stop_trained),
    limits="that the server which runs the model uses the same generation_config.",
    sources=("unsloth-416", "llama-cookbook-640"),
)


def complete(data: Data) -> Verdict:
    return each_split(data, _complete)


def _complete(split: Split) -> Verdict:
    if found := verdicts(split.relations, MEANINGS):
        return worst(*found)
    stops, lengths = split.stops, split.lengths
    if isinstance(stops, Stops) and _cut_alike(stops):
        what = f"documents, which begin alike, are cut at {stops.limit:,} tokens before their stop"
        return observed(share(stops.open, stops.whole, what), stops.whole)
    if stops is None or lengths is None or (isinstance(stops, Stops) and not stops.answers):
        return skip(NO_ANSWERS)
    if isinstance(stops, Unknown):
        return unknown(stops.reason)
    if split.labels is not None and fills_the_length(split.labels):
        return skip("prompts fill the whole length, see DAT001")
    whole = split.uncut or lengths
    text = (
        f"tokens of a document{' before it is cut' * (split.uncut is not None)}: "
        f"median {whole.p50:,}, p95 {whole.p95:,}, longest {whole.longest:,}"
    )
    if stops.cut and stops.cut >= CUT * stops.answers:
        cut = share(stops.cut, stops.answers, "answers are cut")
        shorter = f"{cut} at {lengths.longest:,} tokens: shorter ones end with a stop"
        return observed(f"{shorter}; {text}", stops.answers)
    cut = share(stops.cut, stops.answers, "answers are cut")
    return ok(f"{cut}; {text}")


UNCUT = "Raise the maximum length of the targets above their longest ones, or drop longer rows."
MEANINGS: Meanings = {
    "target cut": Meaning(
        "targets have the greatest length, {0} tokens before the stop, and do not end as shorter "
        "ones do: they are cut, and their stop was put behind the cut",
        UNCUT,
    ),
    "targets end alike": Meaning(
        "targets have one length, {0} tokens before the stop, and end otherwise each: a maximum "
        "length may cut them",
        UNCUT,
        least=0.9,
        noted=True,
    ),
}

COMPLETE = Check(
    code="DAT003",
    slug="answers-complete",
    title="Answers are not cut at the maximum length",
    why="A cut answer has no end: the model learns to break off, and what was cut is not trained.",
    passes=(
        "fewer than 5 % of the answers are as long as the longest document and lack the stop "
        "that shorter ones have",
    ),
    notes=("nearly all targets of a decoder have one length, and half of them no common end",),
    warns=(
        "at least 5 % of 32 or more answers are",
        "90 % of 32 or more documents that begin alike have the greatest length and no stop",
        "at least 5 % of 32 or more targets of a decoder have the greatest length, and do not end "
        "as shorter ones do",
    ),
    fix="Raise max_length to at least the 95th percentile of the lengths, or split or drop longer "
    "rows.",
    owner=Owner.JOB,
    judge=of_tokens(complete),
    limits="that prompts are not cut.",
    sources=("ms-swift-2955", "trl-6025"),
)

CHECKS = (STOP, COMPLETE)
