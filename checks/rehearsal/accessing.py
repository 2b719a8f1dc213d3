"""Stage 8: what the job needs from others."""

from __future__ import annotations

from doctor._util.units import shown
from doctor.facts.rehearsal import Accessed, Rehearsal
from doctor.judge.check import Check, Owner, Verdict, fail, ok, skip, unknown
from doctor.judge.combine import worst


def answers(rehearsal: Rehearsal) -> Verdict:
    if not rehearsal.accessed:
        return skip("--access was not given")
    return worst(*(_of(each) for each in rehearsal.accessed))


def _of(accessed: Accessed) -> Verdict:
    summary = f"{shown(accessed.target, 200)}: {shown(accessed.detail, 300)}"
    if accessed.usable is None:
        return unknown(summary)
    return ok(summary) if accessed.usable else fail(summary)


ANSWERS = Check(
    code="RHS017",
    slug="others-answer",
    title="The hub, the bucket and the tracker accept the job",
    why="A token without access to a gated model ends the job at its start, a bucket that takes "
    "no upload at its first checkpoint.",
    passes=("each --access answers, with the secrets of this environment",),
    fails=("one refuses, or does not answer from this machine",),
    fix="Give the job a token with access, accept the model's conditions on its page, or open the "
    "way to the server.",
    owner=Owner.ENVIRONMENT,
    judge=answers,
    limits="that the nodes of the job have the same secrets and the same way to the network.",
)

CHECKS = (ANSWERS,)
