"""Matrices that are not what the baseline's became by training: replaced, scaled or exchanged."""

from __future__ import annotations

import re
from statistics import median

from doctor._util.units import listed, shown
from doctor.checkpoint.records import TRANSPOSED, TURNED, Checkpoint, Movement, TensorChange
from doctor.checks.checkpoint.norm_causes import length_of_run
from doctor.judge.check import Verdict, fail, note, warn

LAYER = re.compile(r"\.(\d{1,6})\.")

UNRELATED = 0.3
"""Cosine below which nothing of the baseline is left; random matrices have 0. Our own number."""

RELATED = 0.9
"""Relative change of the median matrix below which a run is one that began with the baseline: half
of it is 0.45, a cosine of 0.9. Our own number."""

FAR = 0.8
"""Relative change from which a matrix is another one: 1.4 for a random one. Our own number."""

TIMES = 5.0
"""Times the median by which it has to differ more. Our own number."""

SCALED = 2.0
"""Times its size, or a part of it, that training rarely makes of one matrix. Our own number."""

SHRUNK = 0.5
"""Times its size at which a matrix is what weight decay alone leaves. Our own number."""

LONG = 2_000
"""Steps after which little may be left of a beginning at random. Our own number."""


def replaced(checkpoint: Checkpoint, movement: Movement) -> Verdict | None:
    """The verdict on matrices far from the baseline while the others are near; None without."""
    if movement.median is None or movement.matrices < 4:
        return None
    return _some(movement) if movement.median <= RELATED / 2 else _most(checkpoint, movement)


def _most(checkpoint: Checkpoint, movement: Movement) -> Verdict | None:
    """Where more than half of the matrices are far from what they were."""
    most = movement.most_changed
    lost = [each for each in most if each.cosine < UNRELATED]
    unrelated = len(lost)
    if lost and (found := _of_others(movement, lost)):
        return found
    if 2 * unrelated > len(most):
        text = f"most of {movement.matrices:,} matrices have nothing in common with the baseline"
        verdict = note if (length_of_run(checkpoint) or 0) >= LONG else warn
        return verdict(f"{text}: it was not loaded, or is of another run", fix=NOT_LOADED_FIX)
    shrunk = [each for each in most if each.factor < SHRUNK and each.cosine > RELATED]
    if len(shrunk) < len(most):
        return None
    text = f"the matrices are {median(each.factor for each in shrunk):.2g} times what they were"
    return warn(f"{text}, in the same direction, as weight decay alone leaves", fix=SHRUNK_FIX)


def _some(movement: Movement) -> Verdict | None:
    """Where most moved little: those that are other ones."""
    assert movement.median is not None
    far = [
        each for each in movement.most_changed if each.relative >= max(FAR, TIMES * movement.median)
    ]
    if not far or (not movement.median and all(each.kind == "head" for each in far)):
        return None  # a head that alone is trained goes where it has to
    lost = [each for each in far if each.cosine < UNRELATED]
    rest = f"the median of {movement.matrices:,} matrices moved by {movement.median:.1%}"
    if not lost:
        far = [each for each in far if not 1 / SCALED < each.factor < SCALED]
        if not far:
            return None
        text = f"{_which(far)} {_are(far)} {far[0].factor:.3g} times what {_they(far)} were"
        return warn(f"{text}; {rest}", fix=SCALED_FIX)
    if found := _of_others(movement, lost):
        return found
    text = f"{_which(lost)} {_have(lost)} nothing in common with the baseline; {rest}"
    if all(each.kind in ("head", "embedding") and not each.layer for each in lost):
        return warn(f"{text}: initialized anew, or for other tokens or labels", fix=HEAD_FIX)
    return fail(f"{text}: initialized anew, as what a resumed run did not find", fix=ANEW_FIX)


def _of_others(movement: Movement, lost: list[TensorChange]) -> Verdict | None:
    """Matrices with values that the baseline has elsewhere, or the other way round; a note where
    tensors of the baseline are missing, as where layers were removed."""
    known = [(each.name, movement.origins.get(each.name, "")) for each in lost]
    if turned := [shown(name, 120) for name, origin in known if origin == TRANSPOSED]:
        text = f"{listed(turned, 3)}: the baseline's values, transposed"
        if any(each.reason == TURNED for each in movement.reasons):
            return note(f"{text}, as others are by their shapes: another layout", fix=TURNED_FIX)
        return fail(text, fix=TURNED_FIX)
    if moved := [f"{shown(n, 120)} holds those of {shown(o, 120)}" for n, o in known if o]:
        inserted = _inserted(known) if movement.added else []
        layers = f", layers inserted at {listed(inserted, 4)}" * bool(inserted)
        text = f"the baseline's values in other places{layers}: {listed(moved, 3)}"
        return (note if movement.removed or inserted else warn)(text, fix=MOVED_FIX)
    return None


def _inserted(known: list[tuple[str, str]]) -> list[str]:
    """Layers that begin a shift, where all layers stand in the order of the baseline."""
    numbers = ((LAYER.search(name), LAYER.search(origin)) for name, origin in known)
    pairs = sorted({(int(now[1]), int(then[1])) for now, then in numbers if now and then})
    shifts = [now - then for now, then in pairs]
    origins = [then for _, then in pairs]
    if origins != sorted(origins) or min(shifts, default=0) < 1:
        return []
    before = [0, *shifts]
    return [
        str(now)
        for (now, _), shift, last in zip(pairs, shifts, before, strict=False)
        if shift > last
    ]


def _which(changes: list[TensorChange]) -> str:
    layers = sorted({each.layer for each in changes}, key=lambda layer: int(layer or -1))
    if len(changes) > 2 and layers and layers[0]:
        kinds = listed(sorted({each.kind for each in changes}), 3)
        names = listed(layers, 4)
        return f"{len(changes):,} matrices of layer{'s' * (len(layers) > 1)} {names} ({kinds})"
    return listed([shown(each.name, 120) for each in changes], 3)


def _have(changes: list[TensorChange]) -> str:
    return "has" if len(changes) == 1 else "have"


def _are(changes: list[TensorChange]) -> str:
    return "is" if len(changes) == 1 else "are"


def _they(changes: list[TensorChange]) -> str:
    return "it" if len(changes) == 1 else "they"


TURNED_FIX = (
    "Transpose these matrices, or convert again: GPT-2's Conv1D and TensorFlow keep (in, out), "
    "torch's Linear (out, in), and of a square matrix no loader sees the difference."
)
MOVED_FIX = (
    "Convert or merge again with the right names and numbers of the layers. Where layers were "
    "removed or put in another order on purpose, nothing is wrong."
)
ANEW_FIX = (
    "Do not go on from here: return to the baseline, find why these tensors were not loaded "
    "(strict=False, ignore_mismatched_sizes, other names), and train from there again."
)
NOT_LOADED_FIX = (
    "Check that the run loaded the baseline (missing keys of load_state_dict, the path), and that "
    "both are of one model. Where it was trained from the beginning, nothing is wrong."
)
SCALED_FIX = (
    "Return to the baseline, and look at the updates of these weights: a learning rate of their "
    "own, a loss that diverged, or a scale that was applied twice."
)
SHRUNK_FIX = (
    "Return to an earlier checkpoint, and check that gradients reach these weights and that the "
    "weight decay is the intended one: without gradients each step only shrinks them."
)
HEAD_FIX = (
    "If the head or the tokens were replaced for another task, nothing is wrong. Else return to "
    "the baseline, and find why these tensors were not loaded."
)
