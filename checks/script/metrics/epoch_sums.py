"""Sums over the batches of an epoch that are divided by something else, or reduced twice."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator

from doctor.checks.script.naming import direction, is_held_out, is_loader, is_training, words
from doctor.checks.script.rendering import containing, lines, lines_of, render
from doctor.checks.script.rule import Match
from doctor.checks.script.training import Training
from doctor.facts.script import Assignment, Call, Span, Value, last_part

BY_LENGTH = re.compile(
    r"(?<![\w.])(?P<sum>[\w.]{1,80}?)(?:\.item\(\))?"
    r"/(?:float\()?len\((?P<by>[\w.]{1,80}?)(?:\.dataset)?\)"
)


def by_other_length(reading: Training) -> Iterator[Match]:
    """A sum over val_loader is divided by len(train_loader)."""
    for text, span, scope in _divisions(reading, BY_LENGTH):
        for match in BY_LENGTH.finditer(text):
            loader = _summed_over(reading, match["sum"], scope, span)
            if loader and is_loader(match["by"]) and _are_other_parts(loader, match["by"]):
                short, by = last_part(loader), last_part(match["by"])
                message = f"{match['sum']} is a sum over {short}, and is divided by len({by})"
                yield Match(span, message, fix=f"Divide by len({short}).")


def _divisions(reading: Training, pattern: re.Pattern[str]) -> list[tuple[str, Span, int]]:
    """Statements in which the pattern occurs, and each total /= n as total/n."""
    divided = (a for a in reading.assignments if a.operator == "Div")
    written = [(f"{a.target}/{render(reading, a.value)}", a.span, a.scope) for a in divided]
    return [*containing(reading, pattern), *written]


def _are_other_parts(one: str, other: str) -> bool:
    return (is_training(one) and is_held_out(other)) or (is_held_out(one) and is_training(other))


def _summed_over(reading: Training, name: str, scope: int, span: Span) -> str:
    """The one loader over which a name was summed since it was set, before a place."""
    states = reading.cached(_loaders_of_sums).get((scope, name), [])
    before = bisect_left(states, span.order, key=lambda state: state[0])
    names = states[before - 1][1] if before else frozenset()
    return min(names) if len(names) == 1 else ""


States = dict[tuple[int, str], list[tuple[tuple[int, int, int], frozenset[str]]]]


def _loaders_of_sums(reading: Training) -> States:
    """For each name, after each assignment: the loaders over which it was summed since it was
    set."""
    table: States = {}
    for line in reading.cached(lines):
        states = table.setdefault((line.scope, line.target), [])
        names = states[-1][1] if states and line.augmented else frozenset()
        iterable = reading.loops[line.loops[-1]].iterable if line.loops else None
        if line.augmented and iterable is not None:
            names |= {n for n in iterable.all_names if is_loader(n)}
        states.append((line.span.order, names))
    return table


BY_INDEX = re.compile(r"(?<![\w.])(?P<sum>[\w.]+)/(?P<by>[A-Za-z_]\w*)(?![\w.(\[])")


def by_last_index(reading: Training) -> Iterator[Match]:
    """for i, batch in enumerate(loader): total += loss; and total / i behind the loop."""
    for text, span, scope in _divisions(reading, BY_INDEX):
        for match in BY_INDEX.finditer(text):
            held = [a for a in lines_of(reading, scope, match["sum"]) if a.augmented and a.loops]
            loop = reading.loops[held[-1].loops[-1]] if held else None
            made = reading.call_of(loop.iterable) if loop is not None else None
            counted = made is not None and made.name == "enumerate" and len(made.values) == 1
            if loop is None or not counted or loop.targets[:1] != (match["by"],):
                continue
            inside = [reading.calls[n].span for n in reading.by_loop[held[-1].loops[-1]]]
            if inside and span.order > max(each.order for each in inside):
                message = f"{match['by']} is one less than the batches that {match['sum']} adds"
                yield Match(span, message, fix=f"Divide by {match['by']} + 1.")


def divided_before(reading: Training) -> Iterator[Match]:
    """total += loss of a loss that was divided by the accumulation, and total / len(loader)."""
    for each in reading.assignments:
        if not each.augmented or each.operator != "Add" or not each.loops:
            continue
        named = (*each.value.all_names, *_receivers(reading, each.value))
        for name in {n.partition(".")[0] for n in named}:
            by = _divisor(reading, name, each)
            if by and by not in each.value.all_names:
                yield from _divided_again(reading, each, by)


def _receivers(reading: Training, value: Value) -> list[str]:
    """loss of loss.detach().float()."""
    return [call.receiver for call in reading.inside(value)]


def _divisor(reading: Training, name: str, each: Assignment) -> str:
    """k of loss = loss / k, or loss = model(x) / k, earlier in the same iteration: a number of
    micro batches, not of processes or samples."""
    if not direction(name):
        return ""
    own = [a for a in reading.assigned_to(name, each.scope)
           if a.loops == each.loops and a.span.order < each.span.order]  # fmt: skip
    value = own[-1].value if own and not own[-1].arms else None
    if value is None:
        return ""
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
    later = any(a.operator == "Mult" and a.value.name == by and a.scope == each.scope
                for a in reading.assignments)  # fmt: skip
    if later or any(rescaled.search(t) for t, _, scope in texts if scope == each.scope):
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
    """hits / total or loss / len(loader) in each epoch, of what is set to 0 before the first."""
    for each in reading.assignments:
        if not each.augmented or each.operator != "Add" or len(each.loops) < 2:
            continue
        iterable = reading.iterable_of(each)
        names = iterable.all_names if iterable is not None else ()
        scores = direction(each.target) or RIGHT & set(words(each.target))
        if not scores or not _in_epochs(reading, each) or not _is_kept(reading, each):
            continue
        lengths = [re.escape(f"len({name})") for name in names if name]
        by_what = "|".join([*lengths, r"[\w.]+(?!\()"])
        ratio = re.compile(rf"(?<![\w.]){re.escape(each.target)}\)?/(?P<by>{by_what})")
        for text in reading.cached(_by_loops).get(each.loops[:-1], ()):
            by = ratio.search(text)
            own = lines_of(reading, each.scope, by["by"]) if by else []
            grows = own and all(a.loops == each.loops if a.augmented else not a.loops for a in own)
            if by and (grows or "len(" in by["by"]):
                start = reading.assigned_to(each.target, each.scope)[0].span
                message = f"{each.target} goes on through all epochs"
                yield Match(start, message, fix="Set it to 0 in each epoch.")
                return


MEANS = ("mean", "average", "fmean", "nanmean")


def lists_kept(reading: Training) -> Iterator[Match]:
    """np.mean(losses) in each epoch, of a list that is empty before the first epoch alone."""
    for call in reading.named("append"):
        iterable = reading.iterable_of(call) if len(call.loops) > 1 else None
        if iterable is None or not any(is_loader(name) for name in iterable.all_names):
            continue
        name, epoch = call.receiver, call.loops[:-1]
        one = (name, name.removesuffix("s"), re.sub("ies$", "y", name))
        known = any(map(direction, one)) or RIGHT & set(words(name))
        if not known or _is_emptied(reading, name):
            continue
        made = reading.assigned_to(name, call.scope) if _in_epochs(reading, call) else []
        empty = all(a.value.kind == "list" and not a.value.items and not a.loops for a in made)
        if not made or not empty:
            continue
        reading.step(len(made))
        for each in reading.named(*MEANS):
            reading.step()
            whole = each.first is not None and (each.first.kind, each.first.name) == ("name", name)
            own = set(each.arms) - set(call.arms)
            if whole and each.loops == epoch and each.scope == call.scope and not own:
                message = f"{name} goes on through all epochs, and so does its mean"
                yield Match(made[0].span, message, fix="Set it to [] in each epoch.")
                break


def _is_emptied(reading: Training, name: str) -> bool:
    """losses.clear(), losses[:] = [] and del losses[:]."""
    if any(each.name == f"del {name}[]" for each in reading.script.bare):
        return True
    set_anew = any(each.target.startswith(f"{name}[") for each in reading.script.parts)
    return set_anew or any(c.receiver == name for c in reading.named("clear", "pop"))


RIGHT = {"right", "correct", "corrects", "hits"}


def _in_epochs(reading: Training, each: Assignment | Call) -> bool:
    """for epoch in range(...) is around the loop over batches: not tasks, folds or data sets."""
    around = reading.loops[each.loops[-2]].iterable
    return around is not None and "range(" in render(reading, around)


def _is_kept(reading: Training, each: Assignment) -> bool:
    """Only 0, before the first epoch, is assigned to it."""
    plain = [a for a in reading.assigned_to(each.target, each.scope) if not a.augmented]
    return bool(plain) and all(not a.loops and a.value.literal == 0 for a in plain)


def _by_loops(reading: Training) -> dict[tuple[int, ...], list[str]]:
    """What is assigned and passed, by the loops around it."""
    table: dict[tuple[int, ...], list[str]] = {}
    for line in reading.cached(lines):
        table.setdefault(line.loops, []).append(line.text)
    for call in reading.calls:
        if call.loops and call.values:
            text = ",".join(render(reading, v) for v in call.values)
            table.setdefault(call.loops, []).append(text)
    return table
