"""Transitions of a reinforcement learner in the order in which they were collected: whether the
flag
of an episode's end stands where the episodes end."""

from __future__ import annotations

import re
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

import torch

from ..foreign import Foreign, containers, observing
from . import rows
from .documents import host
from .interactions import before_of
from .relations import relation
from .targets import Source, as_batch, size

MOST_ROWS, LEAST_ENDS, LENGTHS = 20_000, 8, 4
"""Rows that are read, ends of episodes, and their different lengths: episodes that a limit of time
ends are of one. Our own numbers."""
MOSTLY = 0.9
"""Share of the rows whose next state is the state of the next row, where they are in order; and of
the ends that are marked late. Our own number."""
ENDED = re.compile(r"(is_)?(done|dones|terminal|terminals|terminated|d)")
JUMP, BETWEEN, REGULAR, NARROW = 5.0, 2.5, 0.3, 0.6
"""Of the usual step: what is none, and what is hardly one; the share of the jumps that are equally
far apart, as a limit of time makes them; and the spread of the states behind them, where episodes
begin, in that of all. Our own numbers."""
DISCOUNTS = re.compile(r"(discount|discounts|gamma|gammas|mask|masks|not_done|nonterminal)")
OTHER_ENDS = re.compile(r".*(trunc|timeout|time_limit|episode_(start|end)|first|last|reset).*")
"""Fields that may say for themselves that an episode ends."""

Named = Dict[str, torch.Tensor]


class Steps(NamedTuple):
    """The rows in order."""

    ended: torch.Tensor
    breaks: torch.Tensor
    """The next row does not go on from this one."""


def of_source(source: Source) -> List[Dict[str, Any]]:
    """A record where the flag is nowhere, or on the first row of the next episode."""
    steps = steps_of(source)
    if steps is None:
        return []
    at = torch.nonzero(steps.breaks)[:, 0]
    count = len(at)
    if count < LEAST_ENDS or count > (1 - MOSTLY) * len(steps.breaks) * 2:
        return []  # too few, or rows that are not in order
    lengths = torch.unique(at[1:] - at[:-1])
    marked = int(steps.ended[at].sum())
    late = steps.ended[(at + 1).clamp(max=len(steps.ended) - 1)] & ~steps.ended[at]
    if int(late.sum()) >= MOSTLY * count and int(steps.ended.sum()) <= 2 * count:
        return [relation("end marked late", int(late.sum()), count, (), (at + 1).tolist())]
    if not bool(steps.ended.any()) and len(lengths) >= LENGTHS:
        return [relation("end not marked", count - marked, count, (), at.tolist())]
    return []


def jumps(source: Source) -> List[Dict[str, Any]]:
    """A record where the next state is always the state of the next row, also where an episode ends
    by its limit of time: it is then the first one of another episode."""
    dataset = rows.dataset_of(source)
    count = min(size(dataset) or 0, MOST_ROWS)
    if count < LEAST_ENDS * 8 or not observing.has(dataset, "__getitem__"):
        return []
    names = marks_of(row_of(dataset, 0))
    if names is None:
        return []
    states, after, ended = [], [], []
    for number in range(count):
        named = {name: host(each) for name, each in row_of(dataset, number).items()}
        states.append(named[names[0]].reshape(-1).float())
        after.append(named[names[1]].reshape(-1).float())
        value = float(named[names[2]].reshape(-1)[0])
        ended.append(value == 0 if DISCOUNTS.fullmatch(names[2].lower()) else value > 0)
    before, behind = torch.stack(states), torch.stack(after)
    if not any(ended) or not torch.equal(behind[:-1], before[1:]):
        return []  # without any mark it may be one task without an end
    found = resets(before, behind)
    lost = [n for n in found if not ended[n]]
    record = relation("next state of another episode", len(lost), len(found), (), lost)
    return [record] if lost else []


def resets(before: torch.Tensor, behind: torch.Tensor) -> List[int]:
    """Rows behind which the state jumps to where all episodes begin, many after one length, as a
    limit of time ends them."""
    steps = (behind - before).norm(dim=1)
    usual = float(steps.median())
    far = torch.nonzero(steps > JUMP * usual)[:, 0]
    hardly = int((steps > BETWEEN * usual).sum()) - len(far)
    if not usual > 0 or not LEAST_ENDS <= len(far) <= len(steps) // 5 or hardly > len(far):
        return []
    lengths = far[1:] - far[:-1]
    regular = int((lengths == lengths.mode().values).sum())
    spreads = behind[far].std(0) / before.std(0).clamp(min=1e-9)
    narrow = bool((spreads <= NARROW).all())
    return far.tolist() if regular >= REGULAR * len(lengths) and narrow else []


def marks_of(named: Named) -> Optional[Tuple[str, str, str]]:
    """State, next state, and the flag of the end or the discount, which is 0 there."""
    names = roles_of(named)
    pair = next((n for n in named if before_of(n, named) is not None), None)
    flag = next((n for n in named if DISCOUNTS.fullmatch(n.lower())), None)
    if names is not None or pair is None or flag is None or named[flag].numel() != 1:
        return names
    if any(OTHER_ENDS.fullmatch(name.lower()) for name in named):
        return None
    before = before_of(pair, named)
    return (before, pair, flag) if before is not None else None


def steps_of(source: Source) -> Optional[Steps]:
    """None where rows are no transitions, or another field may mark what the flag does not."""
    dataset = rows.dataset_of(source)
    count = min(size(dataset) or 0, MOST_ROWS)
    if count < 2 or not observing.has(dataset, "__getitem__"):
        return None
    names = roles_of(row_of(dataset, 0))
    if names is None:
        return None
    state, after, flag = names
    following: Optional[torch.Tensor] = None
    ended: List[bool] = []
    breaks: List[bool] = []
    for number in range(count):
        named = {name: host(each) for name, each in row_of(dataset, number).items()}
        if following is not None:
            breaks.append(not torch.equal(named[state], following))
        following = named[after]
        ended.append(bool(named[flag].reshape(-1)[0] > 0))
    return Steps(torch.tensor(ended[:-1]), torch.tensor(breaks))


def row_of(dataset: Foreign, number: int) -> Named:
    return containers.tensors(as_batch(dataset[number]))


def roles_of(named: Named) -> Optional[Tuple[str, str, str]]:
    """The names of state, next state and flag."""
    if any(OTHER_ENDS.fullmatch(name.lower()) for name in named):
        return None
    for name in named:
        before = before_of(name, named)
        if before is None or named[before].shape != named[name].shape:
            continue
        flag = next((n for n in named if ENDED.fullmatch(n.lower())), None)
        if flag is None and name == "[3]" and len(named) == 5:
            flag = "[4]"
        if flag is not None and named[flag].numel() == 1:
            return before, name, flag
    return None
