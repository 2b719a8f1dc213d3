"""Evidence that several rows share: a setting that is off, one beyond another, two runs."""

from __future__ import annotations

import re
from collections.abc import Callable

from doctor.checks.log.differential.row import Evidence, cited, number
from doctor.checks.log.differential.run import Run

Look = Callable[[Run], Evidence | None]


def off(name: str, *others: str) -> Look:
    """A setting is stated as 0, False or None, and no other one stands for it."""

    def look(run: Run) -> Evidence | None:
        found = run.is_off(name)
        if found is None or any(run.positive(other) for other in others):
            return None
        return Evidence(cited(found), (found,))

    return look


def at_least(name: str, limit: float) -> Look:
    def look(run: Run) -> Evidence | None:
        found = run.positive(name)
        if found is None or (found.number or 0) < limit:
            return None
        return Evidence(cited(found), (found,), {"value": found.text})

    return look


def at_most(name: str, limit: float, *, zero: bool = False) -> Look:
    """A setting is stated and small; 0 counts where it is a value and no "not set"."""

    def look(run: Run) -> Evidence | None:
        found = run.setting(name)
        value = found.number if found else None
        if found is None or value is None or value > limit or run.at_least(name, limit):
            return None
        if value < 0 or (value == 0 and not zero):
            return None
        return Evidence(cited(found), (found,), {"value": found.text})

    return look


def beyond(name: str, other: str, *, least: bool = False) -> Look:
    """One setting is above another, or as high where `least`."""

    def look(run: Run) -> Evidence | None:
        one, two = run.positive(name), run.positive(other)
        if one is None or two is None or (one.number or 0) < (two.number or 0):
            return None
        if one.number == two.number and not least:
            return None
        words = {"value": one.text, "limit": two.text}
        return Evidence(f"{cited(one)} and {cited(two)}", (one, two), words)

    return look


def both(*looks: Look) -> Look:
    """All of them hold."""

    def look(run: Run) -> Evidence | None:
        found = [each(run) for each in looks]
        if not all(found):
            return None
        parts = [each for each in found if each]
        return Evidence(
            "; ".join(each.sentence for each in parts if each.sentence),
            tuple(setting for each in parts for setting in each.settings),
            {name: word for each in parts for name, word in each.words.items()},
        )

    return look


def changed(*names: str) -> Look:
    """A setting has another value in the run that goes on than in the one before."""

    def look(run: Run) -> Evidence | None:
        for name in names:
            values = [each for each in run.all(name) if (each.number or 0) > 0]
            of_one_file = len({each.path for each in values}) == 1
            if of_one_file and values[-1].line > values[0].line + APART:
                before, after = values[0], values[-1]
                factor = (before.number or 1) / (after.number or 1)
                words = {
                    "before": f"{before.name.replace('_', ' ')} {before.text}",
                    "after": after.text,
                    "factor": number(max(factor, 1 / factor)),
                    "fewer": "fewer" if factor > 1 else "more",
                }  # fmt: skip
                sentence = f"{cited(before)} before, {after.text} (line {after.line}) after"
                return Evidence(sentence, (before, after), words)
        return None

    return look


APART = 20
"""Lines between two values of a setting from which on they are of two runs. Our own number."""


def of_family(*words: str) -> Look:
    def look(run: Run) -> Evidence | None:
        found = run.of_kind("family", *words) or run.of_kind("model", *words)
        if found is None:
            return None
        return Evidence(f"{found.text} (line {found.line})", (found,), {"model": found.text})

    return look


def of_method(kind: str) -> Look:
    """How the run trains, by what a line says."""

    def look(run: Run) -> Evidence | None:
        found = run.of_kind("method", kind)
        return Evidence("", (found,)) if found else None

    return look


def in_half(run: Run) -> Evidence | None:
    """The run computes in fp16."""
    found = run.half
    return Evidence(cited(found), (found,)) if found else None


def in_amp(run: Run) -> Evidence | None:
    """The run computes in fp16 or in mixed precision, which is fp16 on a GPU without bf16."""
    found = run.half or run.positive("amp")
    return Evidence(cited(found), (found,)) if found else None


def of_gpu(series: re.Pattern[str]) -> Look:
    def look(run: Run) -> Evidence | None:
        found = next((each for each in run.all("gpu") if series.search(each.text)), None)
        if found is None:
            return None
        return Evidence(f"{found.text} (line {found.line})", (found,), {"gpu": found.text})

    return look


def without_bf16(run: Run) -> Evidence | None:
    found = run.setting("gpu") if run.has_bf16 is False else None
    if found is None:
        return None
    return Evidence(f"{found.text} (line {found.line}) has no bf16", (found,), {"gpu": found.text})
