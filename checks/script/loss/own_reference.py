"""Log-probabilities of a reference that are those of the policy itself."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.checks.script import objects
from doctor.checks.script.naming import words
from doctor.checks.script.rendering import Line, formulas, lines, render, statements
from doctor.checks.script.rule import Match
from doctor.checks.script.training import Training
from doctor.facts.script import Parameter

REFERENCE = {"ref", "refs", "reference", "references"}
OTHERS = ("disable_adapter", "set_adapter", "adapter_name", "functional_call", "load_state_dict",
          "swap", "disable_lora", "unload", "eval_adapter", "copy_", "precompute")  # fmt: skip
"""By these one object is another network for a while."""
NEEDED = ("logsigmoid", "kl", "beta", "ratio")


def own_reference(reading: Training) -> Iterator[Match]:
    """ref = logps(model, batch) without a graph, beside pol = logps(model, batch)."""
    if not reading.mentions(*NEEDED) or reading.mentions(*OTHERS):
        return
    table = reading.cached(lines)
    for line in table:
        if not line.loops or not set(words(line.target)) & REFERENCE or "(" not in line.text:
            continue
        if any(line.target == other.target and other is not line for other in table):
            continue
        same = [other for other in table if other is not line and _is_policy(reading, line, other)]
        if same and not _is_updated_between(reading, line, same[0]):
            yield Match(
                line.span,
                f"{line.target} comes from the policy itself, like {same[0].target}: nothing holds "
                "it to a reference",
                fix="Compute it under model.disable_adapter(), or by a frozen copy.",
            )
            return


def reference_unused(reading: Training) -> Iterator[Match]:
    """self.ref = deepcopy(model) that nothing runs, and ref_logits of the policy."""
    if reading.mentions(*OTHERS) or not reading.backwards:
        return
    table = reading.cached(lines)
    held = [line for line in table if _is_kept(reading, line)]
    for network in held:
        read = any(network.target in (n, n.rpartition(".")[0]) for n in _read_names(reading))
        again = [line for line in table if line.target == network.target]
        for line in table if not read and len(again) == 1 else ():
            named = set(words(line.target)) & set(words(network.target)) & REFERENCE
            if named and line.scope != network.scope and _is_part_of_policy(reading, line):
                message = f"{line.target} comes from the policy, and nothing runs {network.target}"
                yield Match(line.span, message, fix=f"Compute it by {network.target}.")
                return


def _is_kept(reading: Training, line: Line) -> bool:
    """self.ref = copy.deepcopy(model), or another network that is loaded."""
    made = [call.method for call in objects.chained(reading, line.value)]
    named = line.target.startswith("self.") and set(words(line.target)) & REFERENCE
    return bool(named) and bool({"deepcopy", "from_pretrained"} & set(made))


def _is_part_of_policy(reading: Training, line: Line) -> bool:
    """What trains computes it, or self.policy.lm of a self.policy that trains."""
    for call in reading.inside(line.value):
        parts = call.name.split(".")
        names = (".".join(parts[:n]) for n in range(1, len(parts) + 1))
        if any(reading.key(name, call.scope) in reading.stepped_names for name in names if name):
            return True
    return _trained(reading, line)


def _read_names(reading: Training) -> Iterator[str]:
    """All names that are called, passed or read, but for what they are assigned."""
    for call in reading.calls:
        yield call.name
        yield call.receiver
    for value, _, _ in reading.expressions:
        yield from value.all_names


DISTANCE = re.compile(
    r"\((?P<weight>[\w.]*kl\w*(?:\.value)?)\*\((?P<new>[\w.]*log\w*)-(?P<ref>[\w.]*ref\w*)\)\)",
    re.IGNORECASE,
)
"""kl_coef * (logp - ref_logp): the penalty, without its minus."""


def distance_rewarded(reading: Training) -> Iterator[Match]:
    """rewards = kl_coef * (logp - ref_logp), to which scores are added."""
    if reading.mentions("logsigmoid"):
        return
    for line in reading.cached(lines):
        found = DISTANCE.search(line.text)
        if found is None or "ref" in found["new"].casefold() or line.augmented:
            continue
        rewards = set(words(line.target)) & {"reward", "rewards"}
        before = line.text[: found.start()]
        weight = found["weight"]
        if _is_negative(reading, weight) or _is_negative(reading, line.target):
            continue
        if rewards and (
            before.endswith("+") or (line.text == found[0] and _is_added(reading, line))
        ):
            message = f"{weight} * KL is added to the reward: the policy is paid for its distance"
            yield Match(line.span, message, fix=f"Subtract it: - {weight} * (...).")


def _is_added(reading: Training, line: Line) -> bool:
    """rewards[:, -1] += score, or score + rewards."""
    grows = any(a.augmented and a.operator == "Add" and a.scope == line.scope
                and a.target.partition("[")[0] == line.target for a in reading.stores)  # fmt: skip
    sides = re.compile(rf"\+{re.escape(line.target)}\b|(?<![\w.]){re.escape(line.target)}\+")
    texts = reading.cached(formulas)
    return grows or any(scope == line.scope and sides.search(text) for text, _, scope in texts)


def _is_negative(reading: Training, name: str) -> bool:
    """Something takes the negative of it, or sets it to a negative number."""
    own = name.rpartition(".")[2].removesuffix(".value")
    minus = re.compile(rf"-\(*(?:[\w.]+\*)?(?:\w+\.)*{re.escape(own)}\b")
    given = [a.text for a in reading.cached(lines) if a.target.rpartition(".")[2] == own]
    given += [render(reading, c.keywords[own]) for c in reading.calls if own in c.keywords]
    given += [render(reading, p.default) for function in reading.script.functions
              for p in function.parameters if p.name == own and p.default is not None]  # fmt: skip
    negative = any(text.startswith("-") for text in given)
    return negative or any(minus.search(text) for text, _, _ in reading.cached(formulas))


def sampled_anew(reading: Training) -> Iterator[Match]:
    """exp(new - old), where new comes of a function that draws an action unless it is given one."""
    for number, function in enumerate(reading.script.functions):
        given = [p.name for p in function.parameters if _is_optional_action(p)]
        drawn = any(
            each.method in ("sample", "rsample") and each.target in given
            for each in reading.calls_in(number)
        )
        for site in reading.methods(function.name) if given and drawn else ():
            call = reading.calls[site]
            place = [p.name for p in function.parameters if p.name != "self"].index(given[0])
            if call.given(given[0], place) is not None or call.unpacked:
                continue
            ratio = re.compile(r"\((\w+)-[\w.\[\]]*(?:old|b_|mb_|logp|prob)")
            texts = [x for x, _, s in reading.cached(statements) if s == call.scope and "exp(" in x]
            if any((m := ratio.search(x)) and m[1] in call.targets for x in texts):
                yield Match(
                    call.span,
                    f"{given[0]} is not passed: the new log-probabilities are of other actions",
                    fix="Pass the stored actions.",
                )


def _is_optional_action(parameter: Parameter) -> bool:
    default = parameter.default
    none = default is not None and default.kind == "literal" and default.literal is None
    return none and bool(set(words(parameter.name)) & {"action", "actions", "act", "a"})


def _is_policy(reading: Training, line: Line, other: Line) -> bool:
    """The same call of a trained model in the same iteration, with its graph."""
    if other.loops != line.loops or other.scope != line.scope or other.arms != line.arms:
        return False
    given = _trained(reading, other)
    if not given or set(words(other.target)) & (REFERENCE | {"old"}):
        return False
    detached = line.text in (f"{other.target}.detach()", f"{other.text}.detach()")
    plain = line.text.removesuffix(".detach()") == other.text
    quiet = detached or line.text.endswith(".detach()") or _without_graph(reading, line)
    return (plain or detached) and quiet and not _without_graph(reading, other)


def _trained(reading: Training, line: Line) -> bool:
    """The model that is trained computes it: a call of it, or a function that gets it."""
    for call in reading.inside(line.value):
        names = [call.name, *(v.name for v in call.values)]
        if any(reading.key(name, call.scope) in reading.stepped_names for name in names if name):
            return True
    return False


def _without_graph(reading: Training, line: Line) -> bool:
    return any(reading.is_without_graph(call) for call in reading.inside(line.value))


def _is_updated_between(reading: Training, one: Line, other: Line) -> bool:
    """An optimizer steps between them: the first are those of older weights."""
    first, last = sorted((one.position, other.position))
    return any(first <= n <= last for n in reading.methods("step"))
