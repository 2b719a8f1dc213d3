"""Whether a node is slower than the others of its class, or than it was."""

from __future__ import annotations

from doctor._util.units import counted, shown
from doctor.checks.fleet.words import nodes
from doctor.facts.fleet import Fleet, Slow, Spread
from doctor.judge.check import Check, Owner, Verdict, note, ok, skip, unknown, warn

FEWEST = 4
"""Nodes of a class that can be compared; below, only the floors of GPU005 hold."""
NAMED = 5
"""Slow nodes that a summary names."""
FALLEN = 0.10
"""Share by which a rate may fall. Our own number: another temperature costs a GPU a twentieth."""


def stragglers(fleet: Fleet) -> Verdict:
    spreads = [spread for each in fleet.classes for spread in each.spreads]
    if fleet.since:
        return skip("two files of one machine are compared; FLT013 has its rates")
    if not spreads:
        return _none_measured(fleet)
    compared = [spread for spread in spreads if spread.bound is not None]
    if not compared:
        return unknown(
            f"only floors: no class has {FEWEST} nodes with a measured rate, so nothing is "
            "compared beyond what each node's own checks require"
        )
    accused = [each for each in fleet.slow if each.confirmed or each.certain]
    if accused:
        return warn("; ".join(map(_slow, accused[:NAMED])) + _more(accused) + _once(accused))
    if fleet.slow:
        return note(
            f"{_candidates(fleet.slow)} measured slow, too little for a single measurement; "
            f"{sensitivity(compared)}",
            fix="Measure these nodes again, and compare with those files beside the first ones.",
        )
    return ok(sensitivity(compared))


def _none_measured(fleet: Fleet) -> Verdict:
    if len(fleet.nodes) < 2:
        return skip("one node alone")
    if not fleet.classes:
        return skip("no node has a GPU whose rates were measured")
    return unknown("no rate was measured: facts of doctor run without --quick have them")


def _slow(each: Slow) -> str:
    part = f" ({each.part})" if each.part else ""
    return f"{each.node}{part}: {each.metric} {each.factor:.2f}x slower than its class"


def _more(accused: list[Slow]) -> str:
    return f"; {len(accused) - NAMED} more" if len(accused) > NAMED else ""


def _once(accused: list[Slow]) -> str:
    once = [each for each in accused if not each.confirmed]
    return f" (measured once: {nodes([each.node for each in once])})" if once else ""


def _candidates(slow: tuple[Slow, ...]) -> str:
    return nodes(list(dict.fromkeys(each.node for each in slow)))


def sensitivity(spreads: list[Spread]) -> str:
    """The slowdown that would have been found: of the most and the least sensitive metric."""
    found = [spread for spread in spreads if spread.found is not None]
    if not found:
        return f"{counted(len(spreads), 'metric')} compared"
    least = max(found, key=lambda spread: spread.found or 0.0)
    most = min(found, key=lambda spread: spread.found or 0.0)
    texts = [_found(most)] + ([_found(least)] if least is not most else [])
    return f"found with 95 % probability: a node {' and '.join(texts)}"


def _found(spread: Spread) -> str:
    high = f" to {spread.found_high:.2f}x" if spread.found_high is not None else ""
    return f"{spread.found:.2f}x{high} slower in {spread.metric}"


def one_speed(fleet: Fleet) -> Verdict:
    spreads = [spread for each in fleet.classes for spread in each.spreads]
    if not any(spread.bound is not None for spread in spreads):
        return skip("no class has enough nodes with measured rates")
    split = [spread for spread in spreads if spread.groups]
    if not split:
        return ok("the nodes of each class have one speed in every metric")
    return warn("; ".join(map(_split, split[:3])))


def _split(spread: Spread) -> str:
    fast, slow = sorted(spread.groups, key=lambda group: float(group.value), reverse=True)
    because = f"; the same nodes differ in {spread.explained}" if spread.explained else ""
    return (
        f"{spread.metric}: {counted(slow.count, 'node')} of {spread.nodes} "
        f"{spread.factor:.2f}x slower than the other {fast.count}{because}"
    )


def fallen(fleet: Fleet) -> Verdict:
    if not fleet.changed:
        return skip("no earlier rates are known; --ledger keeps them")
    worse = [each for each in fleet.changed if each.now < each.before * (1 - FALLEN)]
    if not worse:
        return ok(f"{counted(len(fleet.changed), 'rate')} within {FALLEN:.0%} of the earlier ones")
    worse.sort(key=lambda each: each.now / each.before)
    texts = [
        f"{each.node}: {each.metric} {1 - each.now / each.before:.0%} below {each.since}"
        for each in worse[:NAMED]
    ]
    return warn(f"{'; '.join(texts)}; at most {FALLEN:.0%} accepted")


def known(fleet: Fleet) -> Verdict:
    if fleet.ledger_problem:
        return unknown(f"the ledger could not be asked: {shown(fleet.ledger_problem, 200)}")
    if fleet.known is None:
        return skip("no --ledger was named")
    failed = [each for each in fleet.known if each.codes]
    if not failed:
        return ok("the ledger has no earlier failure of these GPUs and hosts")
    texts = []
    for each in failed[:NAMED]:
        what = f"the node of GPU {each.device}" if each.device else "the host"
        under = f", then in {each.earlier_node}" if each.earlier_node else ""
        texts.append(f"{each.node}: {what} failed {', '.join(each.codes)} on {each.day}{under}")
    more = f"; {len(failed) - NAMED} more" if len(failed) > NAMED else ""
    return warn("; ".join(texts) + more)


STRAGGLERS = Check(
    code="FLT011",
    slug="no-stragglers",
    title="No node is slower than the others of its class",
    why="Every step ends when the slowest node is done: one node at 1.3 times the time of the "
    "others costs the whole job a quarter.",
    passes=("no node is slower than chance explains; the sensitivity is printed",),
    notes=("a node was slow in one measurement, which chance alone explains too often",),
    warns=(
        "a node was slow in every one of the required measurements",
        "a node was so slow in a single measurement that chance explains it in less than one of a "
        "hundred fleets",
    ),
    fix="Look for heat, a lower power limit, another process, or a link that trains at half its "
    "width on the node, and compare again. A straggler is returned only where the floor of its "
    "GPU fails too (GPU005).",
    commands=("nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER",),
    limits="that a node which is slow at times only is found.",
    owner=Owner.MACHINE,
    judge=stragglers,
    sources=("superbench-diagnosis", "stragglers-what-if"),
)

ONE_SPEED = Check(
    code="FLT012",
    slug="one-speed",
    title="The nodes of a class have one speed",
    why="Half of the nodes at another speed is no matter of single nodes: a setting, a driver or "
    "a part of the building differs.",
    passes=("no metric divides the nodes of a class into two groups",),
    warns=("a metric divides them into two groups",),
    fix="Compare a node of each group: power limit, clocks, driver, cooling, rack.",
    limits="that groups of less than a fifth of the nodes are found; FLT011 names their nodes.",
    owner=Owner.MACHINE,
    judge=one_speed,
    sources=("superbench-diagnosis",),
)

FALLEN_RATES = Check(
    code="FLT013",
    slug="rates-kept",
    title=f"No rate fell by more than {FALLEN:.0%} since it was measured before",
    why="A GPU that became slower than it was is about to fail, or is cooled worse.",
    passes=(f"every rate is at least {1 - FALLEN:.0%} of the earlier one",),
    warns=("one is lower",),
    fix="Measure again. If it stays, look at temperature, clocks and power of the GPU, and at what "
    "changed since.",
    limits="that the earlier rate was a good one.",
    owner=Owner.MACHINE,
    judge=fallen,
    sources=("superbench-diagnosis",),
)

KNOWN = Check(
    code="FLT014",
    slug="not-known-bad",
    title="The ledger has no earlier failure of these GPUs and hosts",
    why="Providers hand out a machine again that was returned, under another name; a GPU keeps "
    "its UUID.",
    passes=("no GPU and no host in the fleet failed before",),
    warns=("one did",),
    fix="Ask the provider what was done about the earlier failure. `doctor ledger show` prints "
    "the record; `doctor ledger forget` removes it once it is repaired.",
    limits="that machines which no ledger saw were well.",
    owner=Owner.MACHINE,
    judge=known,
    sources=("superbench-diagnosis",),
)

CHECKS = (STRAGGLERS, ONE_SPEED, FALLEN_RATES, KNOWN)
