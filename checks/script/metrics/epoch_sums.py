"""Sums over the batches of an epoch that are divided by something else, or reduced twice."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.checks.script.naming import direction, is_held_out, is_loader, is_training
from doctor.checks.script.rendering import containing, lines, lines_of, render
from doctor.checks.script.rule import Match
from doctor.checks.script.training import Training
from doctor.facts.script import Assignment, Span, Value

BY_LENGTH = re.compile(
    r"(?P<sum>[\w.]+?)(?:\.item\(\))?/(?:float\()?len\((?P<by>[\w.]+?)(?:\.dataset)?\)"
)


def by_other_length(reading: Training) -> Iterator[Match]:
    """A sum over val_loader is divided by len(train_loader)."""
    found = [(t, s, scope) for t, s, scope in containing(reading, BY_LENGTH)]
    found += [(f"{a.target}/{render(reading, a.value)}", a.span, a.scope)
              for a in reading.assignments if a.operator == "Div"]  # fmt: skip
    for text, span, scope in found:
        for match in BY_LENGTH.finditer(text):
            loader = _summed_over(reading, match["sum"], scope, span)
            if loader and is_loader(match["by"]) and _are_other_parts(loader, match["by"]):
                message = f"{match['sum']} is a sum over {loader}, and is divided by the length of "
                yield Match(span, f"{message}{match['by']}", fix=f"Divide by len({loader}).")


def _are_other_parts(one: str, other: str) -> bool:
    return (is_training(one) and is_held_out(other)) or (is_held_out(one) and is_training(other))


def _summed_over(reading: Training, name: str, scope: int, span: Span) -> str:
    """The one loader over which a name was summed last before a place."""
    before = [a for a in lines_of(reading, scope, name)
              if a.augmented and a.loops and a.span.order < span.order]  # fmt: skip
    iterable = reading.loops[before[-1].loops[-1]].iterable if before else None
    names = {n for n in iterable.all_names if is_loader(n)} if iterable is not None else set()
    return names.pop() if len(names) == 1 else ""


def divided_before(reading: Training) -> Iterator[Match]:
    """total += loss of a loss that was divided by the accumulation, and total / len(loader)."""
    for each in reading.assignments:
        if not each.augmented or each.operator != "Add" or not each.loops:
            continue
        for name in {n.partition(".")[0] for n in (*each.value.all_names, *_receivers(reading, each.value))}:  # fmt: skip
            by = _divisor(reading, name, each)
            if by and by not in each.value.all_names:
                yield from _divided_again(reading, each, by)


def _receivers(reading: Training, value: Value) -> list[str]:
    """loss of loss.detach().float()."""
    return [call.receiver for call in reading.inside(value)]


def _divisor(reading: Training, name: str, each: Assignment) -> str:
    """k of loss = loss / k, or loss = model(x) / k, earlier in the same iteration."""
    if not direction(name):
        return ""
    own = [a for a in reading.assigned_to(name, each.scope)
           if a.loops == each.loops and a.span.order < each.span.order]  # fmt: skip
    value = own[-1].value if own and not own[-1].arms else None
    if value is None:
        return ""
    if own[-1].operator == "Div":
        return value.name if value.kind == "name" else ""
    by = value.items[1] if value.name == "Div" and len(value.items) == 2 else value
    return by.name if by.kind == "name" and re.search(r"accum|micro", by.name, re.I) else ""


def _divided_again(reading: Training, each: Assignment, by: str) -> Iterator[Match]:
    iterable = reading.iterable_of(each)
    names = iterable.all_names if iterable is not None else ()
    lengths = "|".join(re.escape(f"len({n})") for n in names if is_loader(n))
    again = rf"{re.escape(by)}|{lengths}" if lengths else re.escape(by)
    total = re.escape(each.target)
    pattern = re.compile(rf"(?<![\w.]){total}(?:\.item\(\))?/(?:{again})(?![\w.])")
    plain = re.compile(rf"(?:{again})")
    rescaled = re.compile(rf"{total}[^,]*\*{re.escape(by)}|{re.escape(by)}\*{total}")
    texts = containing(reading, pattern, rescaled)
    if any(rescaled.search(t) for t, _, scope in texts if scope == each.scope):
        return
    places = [s for t, s, scope in texts if scope == each.scope and pattern.search(t)]
    places += [a.span for a in reading.assigned_to(each.target, each.scope)
               if a.operator == "Div" and plain.fullmatch(render(reading, a.value))]  # fmt: skip
    for span in places[:1]:
        yield Match(
            span,
            f"{each.target} adds losses that were divided by {by} already",
            fix=f"Add up the loss before it is divided by {by}, or divide once.",
        )


def counters_kept(reading: Training) -> Iterator[Match]:
    """hits / total in each epoch, of counters that are set to 0 before the first."""
    for each in reading.assignments:
        if not each.augmented or each.operator != "Add" or len(each.loops) < 2:
            continue
        plain = [a for a in reading.assigned_to(each.target, each.scope) if not a.augmented]
        iterable = reading.iterable_of(each)
        batches = iterable is not None and any(is_loader(n) for n in iterable.all_names)
        if not batches or not plain or any(a.loops or a.value.literal != 0 for a in plain):
            continue
        epoch = each.loops[:-1]
        ratio = re.compile(rf"\(?{re.escape(each.target)}\)?/(?P<by>[\w.]+)")
        for text, span in _in_epoch(reading, epoch):
            by = ratio.search(text)
            own = lines_of(reading, each.scope, by["by"]) if by else []
            if by and all(a.loops == each.loops for a in own if a.augmented) and (
                own and all(not a.loops for a in own if not a.augmented)
            ):  # fmt: skip
                yield Match(span, f"{each.target} and {by['by']} go on through all epochs",
                            fix="Set both to 0 in each epoch.")  # fmt: skip
                return


def _in_epoch(reading: Training, loops: tuple[int, ...]) -> Iterator[tuple[str, Span]]:
    """What the loop over epochs computes behind its batches."""
    for line in reading.cached(lines):
        if line.loops == loops:
            yield line.text, line.span
    for number in reading.by_loop.get(loops[-1], ()):
        call = reading.calls[number]
        if call.loops == loops:
            yield ",".join(render(reading, v) for v in call.values), call.span
