"""The smoke step of every GPU of the job as one verdict."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from doctor.facts.training import Smoke
from doctor.judge.check import Status, Verdict
from doctor.judge.combine import worst


def on_each(judge: Callable[[Smoke], Verdict]) -> Callable[..., Verdict]:
    """A judge of all GPUs from the judge of one: the gravest verdict, prefixed with its device."""

    def judge_all(smoke: Smoke, siblings: tuple[Smoke, ...] = ()) -> Verdict:
        first, others = judge(smoke), [judge(each) for each in siblings]
        if not others:
            return first
        if all(each.status is Status.PASS for each in (first, *others)):
            devices = ", ".join(each.device for each in siblings)
            return replace(first, summary=f"{first.summary}; the same on {devices}")
        by_device = [
            replace(verdict, summary=f"{each.device}: {verdict.summary}")
            for each, verdict in zip((smoke, *siblings), (first, *others), strict=True)
        ]
        return worst(*by_device)

    return judge_all
