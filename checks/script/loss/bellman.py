"""A rule on targets, advantages and ratios of reinforcement learning that are written out."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.checks.script.loss.log_probs import of_several_numbers
from doctor.checks.script.loss.returns import of_normalized, temperature
from doctor.checks.script.naming import words
from doctor.checks.script.rendering import (
    Line,
    expanded,
    lines,
    lines_of,
    render,
    statements,
    written_out,
)
from doctor.checks.script.rendering import formulas as formulas_of_file
from doctor.checks.script.rule import Match, Rule
from doctor.checks.script.training import Training
from doctor.facts.script import Value

GAMMA = r"(?:[\w.]*(?:gamma|GAMMA|discount|DISCOUNT)\w*|0\.9\d*)"
PLACES = re.compile(
    r"\.max\((?:dim=)?-?1\)\[1\]|\.max\((?:dim=)?-?1\)\.indices|(?<!gather)\.argmax\("
)
WHOLE = re.compile(r"\)\.max\(\)|torch\.max\([^,()]*(?:\([^()]*\))?\)")
OLD = r"[\w.]*(?:old|behavio\w*|prev|stored)\w*"
EARLIER = rf"{OLD}|[\w.]*(?:sampling|sampled|sampler|rollout|vllm|inference|ref)\w*"
"""What is of the policy that drew the actions, or of one before it."""
SOFT = re.compile(
    r"\((?:[\w.]*q[\w.]*|torch\.min\(.*\))-\([\w.()]*alpha[\w.()]*\*[\w.\[\]]*log\w*\)\)\.mean\(\)",
    re.IGNORECASE,
)
"""(q - alpha * log_prob).mean(), which a policy raises."""
EXPECTED = re.compile(
    r"\(+\w*prob\w*\*\(.*\balpha(?:\.\w+\(\))*\*\w*log\w*\)+(?P<mean>\.mean\((?:dim=|axis=)?-?1[,)])?"
)
"""probs * (q - alpha * log_probs), over the actions: a mean of what the weights sum up."""
RATIO = re.compile(
    rf"(?:torch\.exp\(\((?P<a>{OLD})-(?P<b>[\w.]+)\)\)|\((?P<c>{OLD})-(?P<d>[\w.]+)\)\.exp\(\))"
)
THIRD = re.compile(r"\(\(?torch\.exp\((?P<x>\((?P<a>[\w.]+)-(?P<b>[\w.]*ref\w*)\))\)-(?P=x)\)?-1\)")
ACTOR = re.compile(
    r"(?:torch\.mean\()?(?P<critic>[\w.]*(?:critic|qf|qnet|q_net|q_network|q1|Q1)\w*)(?:\.\w+)?\("
    r"(?:[^()]*,)?(?P<actor>[\w.]*(?:actor|policy)\w*)\([^()]*\)\)(?:\[0\])?(?:\.mean\(\)|\))",
)


def formulas(reading: Training) -> Iterator[Match]:
    yield from of_normalized(reading)
    yield from temperature(reading)
    table = reading.cached(lines)
    yield from _only_at_ends(reading, table)
    for line in table:
        yield from _own_element(table, line)
        yield from _entropy_kept(line)
        yield from _of_places(reading, table, line)
        yield from _inverse(reading, line)
        yield from _signs(line)
        yield from _weighed(reading, line)
        if "loss" in line.target and SOFT.fullmatch(line.text) and not reading.mentions("maximize"):
            yield Match(
                line.span,
                "the soft value is minimized: the loss is alpha * log_prob - q",
                fix="(alpha * log_prob - q).mean()",
            )
    yield from _worst_action(reading)
    yield from of_several_numbers(reading)
    yield from _whole(reading)


AT_END = re.compile(
    rf"\(?[\w.\[\]]*(?:rew|\br|td)\w*(?:\[\w+\])?\+\(.*{GAMMA}.*\*(?P<done>(?:\w+\.)*"
    r"(?:dones?|terminated|terminals?|terminations|done_batch|batch_dones?)(?:\[\w+\])?)\)"
    rf"|\(?[\w.\[\]]*(?:rew|\br|td)\w*(?:\[\w+\])?\+\(\((?P<first>(?:\w+\.)*"
    rf"(?:dones?|terminated|terminals?)(?:\[\w+\])?)\*{GAMMA}\)"
)
"""r + gamma * v * done, where done is no complement."""


def _only_at_ends(reading: Training, table: list[Line]) -> Iterator[Match]:
    """r + gamma * next_q * done: the future counts where there is none."""
    found = [(line, part) for line in table if (part := AT_END.match(line.text))]
    names = {(part["done"] or part["first"]).partition("[")[0] for _, part in found}
    if not names or _is_turned_elsewhere(reading):
        return
    for line, part in found:
        done = part["done"] or part["first"]
        if re.search(r"termin|last|bonus|final", line.text.replace(done, "")):
            continue
        yield Match(
            line.span,
            f"the value of the next state counts where {done} is 1, and nowhere else",
            fix=f"gamma * next_value * (1 - {done})",
        )


COMPLEMENT = re.compile(
    r"(?:1(?:\.0)?-|~|Not<|not|invert\().*(?:done|termin|end)"
    r"|(?:done|termin)\w*\)*(?:==(?:0|False)|\.logical_not|<)|^\((?:0|1)\|(?:0|1)\)$"
)


def _is_turned_elsewhere(reading: Training) -> bool:
    """1 - done, not done or 0.0 if done else 1.0 in the file: done may be the complement later."""
    if reading.mentions("not_done", "notdone", "nonterminal", "non_terminal", "not_terminal"):
        return True
    texts = [text for text, _, _ in reading.cached(formulas_of_file)]
    texts += [render(reading, v) for c in reading.named("push", "append", "add") for v in c.args]
    return any(COMPLEMENT.search(text) for text in texts)


def _weighed(reading: Training, line: Line) -> Iterator[Match]:
    """v = probs * (q - alpha * log_probs); v.mean(dim=1): the weights add up to 1 already."""
    if "prob" not in line.text and ".mean(" not in line.text:
        return
    found = EXPECTED.match(line.text)
    reduced = re.match(r"(\w+)\.mean\((?:dim=|axis=)?-?1[,)]", line.text)
    if found is None and reduced is not None:
        before = [a for a in lines_of(reading, line.scope, reduced[1])
                  if a.span.order < line.span.order]  # fmt: skip
        found = EXPECTED.fullmatch(before[-1].text) if before else None
    if found is not None and (found["mean"] or reduced is not None):
        yield Match(
            line.span,
            "an expectation over actions is a sum: its weights are probabilities",
            fix="(probs * (q - alpha * log_probs)).sum(dim=1)",
        )


def _signs(line: Line) -> Iterator[Match]:
    """adv = values - returns."""
    named = set(words(line.target))
    if named & {"adv", "advantage", "advantages"} and BASELINE_FIRST.fullmatch(line.text):
        yield Match(
            line.span,
            "an advantage is the return minus the value, not the other way",
            fix="returns - values",
        )


BASELINE_FIRST = re.compile(
    r"\((?:\w+\.)*\w*(?:values?|baseline)(?:\.\w+\(\))*-(?:\w+\.)*\w*(?:returns?|rets?)\)"
)
PENALTY_ADDED = re.compile(
    r"\((?:\w+\.)*\w*(?:rewards?|scores?|rew)\+\((?:\w+\.)*\w*(?:beta|kl_?co\w*|kl_?ctl)\w*\*"
    r"(?:\w+\.)*\w*kl\w*\)\)"
)
CLIPPED_LESS = re.compile(
    r"torch\.(?:min|minimum)\(\(\((?P<v>\w+)-(?P<ret>\w+)\)\*\*2\),\(\(.*(?:clip|clamp).*-(?P=ret)\)\*\*2\)\)"
)


def _whole(reading: Training) -> Iterator[Match]:
    for text, span, scope in reading.cached(statements):
        added = PENALTY_ADDED.search(text)
        if added and not re.search(r"\(\w*ref\w*-", written_out(reading, scope, text)):
            yield Match(
                span,
                "the distance to the reference is rewarded: it is subtracted",
                fix="rewards - beta * kl",
            )
        if "**2" in text and CLIPPED_LESS.search(written_out(reading, scope, text)):
            yield Match(
                span,
                "the clipped value loss is the larger of both: torch.max",
                fix="torch.max(plain, clipped).mean()",
            )


def _own_element(table: list[Line], line: Line) -> Iterator[Match]:
    """adv[t] = delta + gamma * lam * adv[t], where adv[t] is still 0."""
    name, _, index = line.target.partition("[")
    if not index or line.augmented or not line.loops:
        return
    own = (
        rf"\*{re.escape(name)}\[{re.escape(index[:-1])}\]"
        rf"|{re.escape(name)}\[{re.escape(index[:-1])}\]\*"
    )
    decays = re.search(r"gamma|lam|discount|tau", line.text, re.IGNORECASE) or re.search(
        r"adv|gae|return|ret", name
    )
    grows = line.text.startswith("(") and "+" in line.text
    if not decays or not grows or not re.search(own, line.text):
        return
    before = [
        a
        for a in table
        if a.target == line.target and a.loops == line.loops and a.span.order < line.span.order
    ]
    made = [a for a in table if a.target == name and a.scope == line.scope]
    if not before and made and all("zeros" in a.text or "empty" in a.text for a in made):
        yield Match(
            line.span, f"{line.target} is read before it is set: it is to be that of the next step"
        )


def _entropy_kept(line: Line) -> Iterator[Match]:
    """r + gamma * (1 - done) * q - alpha * log_prob: the entropy goes on behind the end."""
    ends = re.fullmatch(
        r"\((?P<first>\(.*\))-\((?P<alpha>[\w.()]*alpha[\w.()]*)\*[\w.()]*(?:log|lp|ent)\w*[\w.()]*\)\)",
        line.text,
    )
    if ends is None or ends["first"].count("(") != ends["first"].count(")"):
        return
    rest = ends["first"]
    if re.search(r"\(1(?:\.0)?-[\w.]*\)|not_done|\bmask", rest) and re.search(GAMMA, rest):
        yield Match(line.span, "the entropy of the next state stands outside of gamma * (1 - done)")


def _of_places(reading: Training, table: list[Line], line: Line) -> Iterator[Match]:
    """gamma * q(next).max(1)[1] is a place, q(next).max() one value for the batch."""
    if not re.search(rf"\+\(?.*{GAMMA}", line.text):
        return
    target = re.search(r"targ|expected|^y$|_y$|backup|td|bell|q_", line.target, re.IGNORECASE)
    reward = re.match(r"\(+(?:[\w.]*(?:rew\w*|_r|\br)\b|r\b|rs?\w?\b)", line.text)
    text = _with_parts(table, line)
    if not target or not reward or "gather" in text:
        return
    if PLACES.search(text):
        yield Match(line.span, "the number of the best action is added, not its value")
    elif WHOLE.search(text):
        batch = any(call.method == "gather" for call in reading.calls_in(line.scope))
        inner = any("zip" in str(reading.loops[n].iterable) for n in line.loops[-1:])
        if batch and not inner:
            yield Match(line.span, "max() of the whole batch: each sample has its own next state")


def _with_parts(table: list[Line], line: Line) -> str:
    """The text with that of the names in it, as they were assigned last."""
    parts = [line.text]
    for name in set(re.findall(r"(?<![\w.])[A-Za-z_]\w*(?![\w(\[])", line.text)) - {line.target}:
        before = [
            a
            for a in table
            if a.target == name and a.scope == line.scope and a.span.order < line.span.order
        ]
        parts += [a.text for a in before[-1:]]
    return " ".join(parts)


def _inverse(reading: Training, line: Line) -> Iterator[Match]:
    """exp(old - new), and the estimator of the KL term with its sign exchanged."""
    found = RATIO.fullmatch(line.text)
    if found is not None and "ratio" in line.target.casefold():
        new = found["b"] or found["d"]
        if not re.fullmatch(EARLIER, new) and reading.mentions("clamp", "clip"):
            yield Match(
                line.span, f"the ratio is new to old: exp({new} - {found['a'] or found['c']})"
            )
    kl = THIRD.search(line.text)
    if kl is not None and "ref" not in kl["a"]:
        yield Match(
            line.span,
            f"the estimator takes exp({kl['b']} - {kl['a']}): its signs are exchanged",
            "warn",
        )


def _worst_action(reading: Training) -> Iterator[Match]:
    """critic(state, actor(state)).mean() is minimized."""
    for number in reading.backwards:
        call = reading.calls[number]
        if not call.receiver or call.args:
            continue
        text = expanded(reading, Value("name", name=call.receiver), call, 3)
        for name in re.findall(r",(\w+)\)", text):
            acted = expanded(reading, Value("name", name=name), call, 1)
            text = text.replace(f",{name})", f",{acted})")
        found = ACTOR.fullmatch(text)
        if found is not None and "cost" not in text:
            yield Match(
                call.span, f"{found['critic']} is minimized by the actor: a minus is missing"
            )


RULES = (
    Rule(
        code="SCR406",
        slug="target-formula",
        title="Targets, advantages and ratios of an agent have their formulas",
        severity="fail",
        find=formulas,
        why="Each of these trains without an error, on numbers that are not what they are named "
        "for: the agent learns nothing, or the opposite.",
        fires=(
            "adv[t] = delta + gamma * lam * adv[t] in a loop backwards",
            "r + gamma * q(next).max(1)[1], the number of an action; q(next).max() over a batch",
            "r + gamma * (1 - done) * q - alpha * log_prob; r + gamma * q * done",
            "ratio = exp(old - new)",
            "critic(state, actor(state)).mean() as the loss of the actor",
            "exp(logp - ref) - (logp - ref) - 1 as the KL term (a warning)",
            "(probs * (q - alpha * log_probs)).mean(dim=1)",
            "returns = adv + values of normalized adv; log_alpha * (log_prob + target_entropy)",
        ),
        fix="adv[t + 1]; q(next).max(1).values; r + gamma * (1 - done) * (q - alpha * log_prob); "
        "exp(new - old); -critic(state, actor(state)).mean(); exp(ref - logp) - (ref - logp) - 1.",
        sources=("cartpole-ppo-1", "stable-baselines3-76"),
        needs=(
            "returns",
            "advantages",
            "adv",
            "clamp",
            "beta",
            "rewards",
            "log_prob",
            "gamma",
            "GAMMA",
            "discount",
            "gae",
            "ratio",
            "actor",
            "kl",
            "lam",
            "lmbda",
            "policy",
            "next_state",
            "next_states",
            "alpha",
            "max",
            "zeros",
            "zeros_like",
        ),
    ),
)
