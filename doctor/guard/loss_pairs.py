"""Terms of a loss that join each sample with all others, by a shape that was not meant."""

from __future__ import annotations

from .foreign import Foreign
from .loss_graphs import FEW, LAYOUT, REDUCING, below, gains_an_axis, kind, shape


def joined(root: Foreign) -> tuple[str, str]:
    """A word and a sentence for [N, 1] against [N], both computed by the model, in a term that goes
    into the mean as it is; ("", "") for none."""
    open_ = [root]
    for node in open_:
        sizes = shape(node)
        if kind(node) in ("SubBackward0", "MulBackward0") and _joins(node):
            count = sizes[0]
            return "broadcast", (
                f"a term of the loss joins each of {count} samples with all {count}: one operand "
                f"is [{count}, 1] and the other [{count}], so the mean is over [{count}, {count}]"
            )
        if kind(node) in REDUCING and not (sizes and len(open_) > FEW):
            open_ += [parent for parent, _ in node.next_functions if parent is not None]
    return "", ""


def _joins(node: Foreign) -> bool:
    own = shape(node)
    parents = [parent for parent, _ in node.next_functions if parent is not None]
    if len(parents) != 2 or len(own) != 2 or not own[0] == own[1] > 1:
        return False
    if sorted(map(list, map(shape, parents)), key=len) != [[own[0]], [own[0], 1]]:
        return False
    meant = any(gains_an_axis(each) or _adds(each) for each in (node, *parents))
    return not meant and _source(parents[0]) is not _source(parents[1])


def _source(node: Foreign) -> Foreign:
    """What computed a value, before its shape was changed."""
    return below(node) if kind(node) in LAYOUT else node


def _adds(node: Foreign) -> bool:
    """Whether a node itself gives its input a further axis."""
    before = getattr(node, "_saved_self_sym_sizes", None)
    return kind(node) == "UnsqueezeBackward0" or (
        kind(node) in LAYOUT and before is not None and len(before) < len(shape(node))
    )
