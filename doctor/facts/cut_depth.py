"""Whether the failure of a model directory may come from the layers that were cut."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fnmatch import fnmatchcase

from doctor.facts.own_model import OwnModel
from doctor.facts.training import Parameter, without_gradient


def may_be_the_cut(own: OwnModel, expect_no_grad: Sequence[str] = ()) -> bool:
    """Whether it fails with fewer layers, and is not known to fail with all of them.

    `expect_no_grad` are patterns of parameters that need no gradient.
    """
    if own.whole or own.unsupported or own.layers is None:
        return False
    if not own.built.ok:
        raised = own.built.how == "error" and own.raised is not None  # not a message of the doctor
        return raised and not _same(own.built.detail, own.whole_error)
    if own.smoke is None:
        return False
    last = own.smoke.stages[-1].ended if own.smoke.stages else None
    if last is not None and not last.ok:
        return last.how == "error" and not _same(last.detail, own.whole_error)
    return any(
        not any(fnmatchcase(each.name, glob) for glob in expect_no_grad) for each in unreached(own)
    )


def unreached(own: OwnModel) -> list[Parameter]:
    """Parameters on the way to the loss whose gradient is 0 in all steps."""
    parameters = own.smoke.parameters if own.smoke else ()
    return [each for each in without_gradient(parameters) if each.computed is not False]


def _same(detail: str, other: str | None) -> bool:
    """Whether two errors are the same but for numbers; `detail` may begin with its stage."""
    if not other:
        return False
    one, two = (re.sub(r"\d+", "0", text.partition("\n")[0]) for text in (detail, other))
    return one.endswith(two) or two.endswith(one)
