"""Rules on reinforcement learning: environments, returns and the sign of an objective."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.checks.script import evaluate, objects
from doctor.checks.script.loss import gradient_paths, policies, policy_signs
from doctor.checks.script.loss.losses import loss_calls
from doctor.checks.script.loss.time_limits import endless, is_either, time_limits, uncast
from doctor.checks.script.naming import words
from doctor.checks.script.reading import flatten
from doctor.checks.script.rendering import expanded, render
from doctor.checks.script.rule import Match, Rule
from doctor.checks.script.training import Training
from doctor.facts.script import Assignment, Call, Value

DONE = {"done", "dones", "terminal", "terminals", "terminated", "d", "bd", "finished"}
REWARD = {"reward", "rewards", "r", "rew", "rews", "br"}
DECAY = re.compile(r"\b0?\.9\d*\*")
DISCOUNT = {"gamma", "discount"}
VALUES = {"q", "qf", "critic", "target", "net", "network", "model"}
"""Words of networks that a function gets, and asks for values."""
CLIPS = re.compile(r"\bcl(?:amp|ip)\(")
RATIOS = {"ratio", "ratios", "importance", "coef"}
ADVANTAGE = {"adv", "advs", "advantage", "advantages", "gae", "returns", "ret"}


def returns(reading: Training) -> Iterator[Match]:
    yield from _truncated_as_end(reading)
    yield from time_limits(reading)
    yield from _end_ignored(reading)
    yield from policies.advantages(reading)
    yield from gradient_paths.baseline_trained(reading)
    for each in reading.assignments:
        names = {w for n in each.value.all_names for w in words(n)}
        decays = names & DISCOUNT or (names & REWARD and DECAY.search(render(reading, each.value)))
        if each.augmented or not (names & REWARD and decays):
            continue
        next_value = _network(reading, each.value, each.scope, each.position)
        if not next_value or not _is_target(reading, each.target, each.scope, constant=True):
            continue
        done = _unused_done(reading, each.scope)
        ends = done and not names & DONE and "not_done" not in each.value.names
        if ends and not _has_own_discount(reading, each, done) and not endless(reading):
            yield Match(each.span, f"the value after the end is added: {done} is not used", "warn")
        if not _is_target(reading, each.target, each.scope):
            continue
        if not reading.under_no_grad(each.contexts) and _trains(reading, each.value, each):
            yield Match(each.span, f"{each.target} carries gradients of the network that it trains")


def _end_ignored(reading: Training) -> Iterator[Match]:
    """A function that sums discounted rewards gets the ends of episodes, and never reads them."""
    for number, function in enumerate(reading.script.functions):
        given = [p.name for p in function.parameters if set(words(p.name)) & DONE]
        values = reading.values_in(number)
        names = {n for v in values for n in v.all_names}
        spoken = {w for n in names for w in words(n)}
        rewarded = spoken & REWARD or any(set(words(p.name)) & REWARD for p in function.parameters)
        if len(given) != 1 or not rewarded or not spoken & (DISCOUNT | {"lam", "lambda"}):
            continue
        names |= {n for loop in reading.loops
                  if loop.scope == number and loop.iterable is not None
                  for n in loop.iterable.all_names}  # fmt: skip
        here: list[Assignment | Call] = [a for a in reading.assignments if a.scope == number]
        here += reading.calls_in(number)
        names |= {n for each in here for test in reading.tests(each)
                  for n in test.all_names}  # fmt: skip
        if not any(n.partition("[")[0].partition(".")[0] == given[0] for n in names):
            span = next(s for v, s, scope in reading.expressions if scope == number
                        and {w for n in v.names for w in words(n)} & DISCOUNT)  # fmt: skip
            yield Match(
                span, f"{given[0]} is never read: returns go on behind the end of an episode"
            )


def _network(reading: Training, value: Value, scope: int, position: int, depth: int = 3) -> bool:
    """A network was called for a part of it."""
    if any(_is_network(reading, call) for call in reading.inside(value)):
        return True
    return depth > 0 and any(
        _network(reading, each.value, each.scope, each.position, depth - 1)
        for name in value.names
        for each in evaluate.definitions(reading, name, scope, position, ())[:1]
        if each.scope == scope
    )


def _is_network(reading: Training, call: Call) -> bool:
    made = objects.callee(reading, call) if call.args else []
    unknown = all(each is None or each.method == "deepcopy" for each in made)
    own = call.name.startswith("self.") and call.name.count(".") == 1
    if unknown and (own or evaluate.is_parameter(reading, call.scope, call.name)):
        return bool(VALUES & set(words(call.name)))
    return bool(made) and all(m is not None and m.name in reading.modules for m in made)


def _trains(reading: Training, value: Value, at: object, depth: int = 3) -> bool:
    """A part comes from the trained network, with its graph."""
    assert isinstance(at, Assignment)
    names = [name for name in value.all_names if name]
    if any(other.method in ("detach", "item", "no_grad") for other in reading.inside(value)):
        return False
    for n in value.calls:
        call = reading.calls[n]
        key = reading.key(call.name, call.scope)
        if key in reading.stepped_names and not reading.under_no_grad(call.contexts):
            return key in _optimized(reading)
    for name in names if depth else ():
        found = evaluate.definitions(reading, name, at.scope, at.position, at.arms)
        if (
            len(found) == 1
            and found[0].scope == at.scope
            and not reading.under_no_grad(found[0].contexts)
            and _trains(reading, found[0].value, found[0], depth - 1)
        ):
            return True
    return False


def _optimized(reading: Training) -> set[tuple[object, str]]:
    return {key for each in reading.trained for key in each.lineage.names}


def _has_own_discount(reading: Training, each: Assignment, done: str) -> bool:
    """obs, reward, gamma, done = memory.sample(): the discount of each row is 0 at the end."""
    discounts = {name for name in each.value.all_names if set(words(name)) & DISCOUNT}
    here = [a for a in reading.assignments if a.scope == each.scope]
    lines = {a.span.line for a in here if a.target in discounts}
    return any(a.target == done and a.span.line in lines for a in here)


def _is_target(reading: Training, name: str, scope: int, *, constant: bool = False) -> bool:
    """It is the second argument of a loss that compares values; `constant` admits detach()."""
    return any(
        kind == "mse"
        and (call := reading.calls[n]).scope == scope
        and len(call.args) > 1
        and name in (call.args[1].name, *_receivers(reading, call.args[1]))
        and (constant or "detach" not in [c.method for c in reading.inside(call.args[1])])
        for n, kind in loss_calls(reading)
    )


def _receivers(reading: Training, value: Value) -> list[str]:
    """y of y.unsqueeze(1)."""
    return [call.receiver for call in reading.inside(value)]


def _unused_done(reading: Training, scope: int) -> str:
    """A name for the end of episodes that is bound here among others and never read."""
    bound = {
        each.target for each in reading.assignments if each.scope == scope and _marks_ends(each)
    }
    remade = {(a.target, a.span.line) for a in reading.assignments if a.scope == scope}
    read = {n for v, span, s in reading.expressions if s == scope for n in v.all_names
            if (n, span.line) not in remade}  # fmt: skip
    tested = {n for b in reading.branches if b.test is not None for n in b.test.all_names}
    places = "".join(p.target.partition("[")[2] for p in reading.script.parts if p.scope == scope)
    tested |= {name for name in bound if name in places}
    ended = any(set(words(name)) & DONE for name in read | tested)
    unread = [name for name in sorted(bound) if name not in read | tested]
    return next((name for name in unread if set(words(name)) & DONE or not ended), "")


def _marks_ends(each: Assignment) -> bool:
    """done, or mask_batch = cat(batch.mask), which is 0 behind the end."""
    named = set(words(each.target))
    return bool(named & DONE) or (named <= {"mask", "masks", "batch"} and bool(named - {"batch"}))


def _truncated_as_end(reading: Training) -> Iterator[Match]:
    """A replay buffer keeps `terminated or truncated`: the value after a time limit is cut off."""
    for call in reading.named("add", "push", "append", "store", "put"):
        one = call.args[0] if len(call.args) == 1 else None
        row = one.items if one is not None and one.kind == "list" else ()
        values = [uncast(reading, value) for value in row or call.args]
        apart = any(re.match("term", v.name) for v in values)
        if len(values) < (5 if row else 4) or not call.loops or apart:
            continue
        for value in values:
            found = objects.last_definition(reading, value.name, call) if value.name else [value]
            if found and all(is_either(reading, v) for v in found):
                yield Match(
                    call.span,
                    f"{value.name or 'the flag'} is also True at a time limit: store terminated",
                    "warn",
                    fix="Store terminated alone: the value after a time limit still counts.",
                )


def objective(reading: Training) -> Iterator[Match]:
    """The clipped objective of PPO: the minimum of both, with a minus before it."""
    if any("maximize" in reading.calls[n].keywords for n in reading.optimizers):
        return
    for number, call in reading.numbered(reading.methods("min", "max", "minimum", "maximum")):
        if len(call.args) != 2 or not call.name.startswith("torch."):
            continue
        parts = [_defined(reading, value, call) for value in call.args]
        clipped = [bool(CLIPS.search(expanded(reading, v, call))) for v in call.args]
        names = [{w for n in v.names for w in words(n)} for v in parts]
        if sum(clipped) != 1 or not all(n & RATIOS and n & ADVANTAGE for n in names):
            continue
        if any(_is_negative(part) for value in parts for part in flatten([value])):
            continue
        if call.method.startswith("max") and not _is_of_costs(reading, call):
            yield Match(call.span, "PPO takes the minimum of both objectives, this is the maximum")
        elif call.method.startswith("min") and _is_minimized(reading, call, number):
            yield Match(call.span, "the objective is minimized: a minus is missing before it")
    yield from policy_signs.minimized(reading)


def _is_of_costs(reading: Training, call: Call) -> bool:
    """Costs are minimized: the name of the advantage or of the surrogate says so."""
    text = " ".join(expanded(reading, value, call) for value in call.args)
    return re.search(r"cost|\bc_?(?:adv|surr)", text) is not None


def _defined(reading: Training, value: Value, call: Call) -> Value:
    if value.kind != "name":
        return value
    values = objects.last_definition(reading, value.name, call)
    return values[0] if len(values) == 1 else value


def _is_negative(value: Value) -> bool:
    return value.kind == "other" and value.name == "USub"


def _is_minimized(reading: Training, call: Call, number: int) -> bool:
    """Its mean is the loss, or a part that is added to it, and nothing negates it on the way."""
    names, sign = set(call.targets), 1
    for each in reading.assignments:
        if each.scope != call.scope or each.augmented or each.target in names:
            continue
        found = _sign(reading, each.value, names, number)
        if found is None:
            continue
        sign *= found
        names = {each.target}
        if "loss" in words(each.target) and any(
            reading.calls[n].receiver == each.target and reading.calls[n].scope == each.scope
            for n in reading.backwards
        ):
            return sign > 0
    function = reading.function(call.scope)
    signs = [_sign(reading, value, names, number) for value in function.returns]
    own = not reading.callers(call.scope)  # a caller may negate it
    return own and "loss" in words(function.name) and {*signs} == {sign}


def _sign(reading: Training, value: Value, names: set[str], number: int) -> int | None:
    """1 or -1 for how a name, or the result of a call, enters a sum; None where it does not."""
    if value.kind == "name":
        return 1 if value.name in names else None
    if value.kind == "call":
        call = reading.calls[value.call]
        if value.call == number or call.receiver in names:
            return 1 if call.method in ("mean", "sum", "min", "minimum") else None
        inner = Value("call", call=call.receiver_call) if call.receiver_call >= 0 else call.base
        parts = [inner] if inner is not None else list(call.args[:1])
        signs = (s for p in parts if (s := _sign(reading, p, names, number)))
        found = next(signs, None)
        return -found if found and call.method in ("neg", "negative") else found
    if value.kind != "other" or value.name not in ("Add", "Sub", "USub", "Mult", "Div"):
        return None
    for position, item in enumerate(value.items):
        found = _sign(reading, item, names, number)
        if found is not None:
            negated = value.name == "USub" or (value.name == "Sub" and position > 0)
            below = any(isinstance(v.literal, int | float) and v.literal < 0 for v in value.items)
            return -found if negated or (below and value.name in ("Mult", "Div")) else found
    return None


RULES = (
    Rule(
        code="SCR318",
        slug="return-of-values",
        title="Targets of values are constants, and end with the episode",
        severity="fail",
        find=returns,
        why="With gradients through r + gamma * value the network moves its targets towards its "
        "predictions. Without (1 - done) values grow by states after the end.",
        fires=(
            "a target of a value loss that carries gradients of the trained network",
            "terminated or truncated in a replay buffer, or in a rollout of an environment that "
            "only a time limit ends (a warning)",
            "a function of discounted rewards that never reads its parameter done",
            "gae = delta + gamma * lam * gae, where only delta knows the ends of episodes, or "
            "nothing reads what stores them",
            "(reward - value) * log_prob, where value has the gradient of a critic (a warning)",
            "reward + gamma * value, while the flag for the end is read nowhere (a warning)",
        ),
        fix="Compute targets under no_grad: r + gamma * (1 - done) * value.",
        sources=("torch-dqn",),
        needs=(
            "gamma",
            "discount",
            "GAMMA",
            "DISCOUNT",
            "log_prob",
            "mse_loss",
            "MSELoss",
            "smooth_l1_loss",
            "SmoothL1Loss",
            "HuberLoss",
        ),
    ),
    Rule(
        code="SCR319",
        slug="objective-sign",
        title="An objective is maximized",
        severity="warn",
        find=objective,
        why="Optimizers minimize. PPO's objective is the minimum of the plain and the clipped one, "
        "with a minus before its mean; otherwise good actions become rare.",
        fires=(
            "min(ratio * adv, clip(ratio) * adv).mean() as loss, or the maximum of both",
            "(advantage * log_prob).mean() as loss, in a file that speaks of no costs",
        ),
        fix="loss = -torch.min(surrogate, clipped).mean().",
        sources=("torch-ppo",),
        needs=("clamp", "clip", "log_prob"),
    ),
)
