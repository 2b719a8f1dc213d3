"""Rules on losses of policies: the sign of an objective, ratios, returns in their order."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.checks.script import evaluate, objects
from doctor.checks.script.loss.negatives import is_distance
from doctor.checks.script.loss.own_reference import (
    distance_rewarded,
    own_reference,
    reference_unused,
    sampled_anew,
)
from doctor.checks.script.naming import words
from doctor.checks.script.reading import flatten
from doctor.checks.script.rendering import (
    containing,
    expanded,
    lines_of,
    render,
    statements,
    with_definitions,
)
from doctor.checks.script.rule import Match, Rule
from doctor.checks.script.training import Training
from doctor.facts.script import Call, Span, Value

GOOD = r"\w*(?:chosen|preferred|winner|win|better|pos|good)\w*|\w*_w|pc|rc|yw"
BAD = r"\w*(?:reject|rejected|loser|lose|worse|neg|bad)\w*|\w*_l|pr|rr|yl"
DIFFERENCE = re.compile(r"\((?P<first>[\w.]+)-(?P<second>[\w.]+)\)")
RATIO = re.compile(
    r"\((?!\w*ref)\w[\w.\[\]]*-\w*ref\w*(?:[\w.\[\]]*)\)$|(?!\w*ref)[\w.]+\([^-+]*\)$"
)
"""policy[0] - reference[0], or what a network returns."""
WEIGHTS = {"ret", "rets", "returns", "return", "advantage", "advantages", "adv", "advs", "reward",
           "rewards", "g", "discounted", "rtg", "rtgs"}  # fmt: skip
LOG_PROBS = ("log_prob", "logp", "log_probs")
LOGS = {"logp", "logps", "log", "logprob", "logprobs"}


def preferred(reading: Training) -> Iterator[Match]:
    """-logsigmoid(rejected - chosen), of DPO and of reward models."""
    yield from _named_the_other(reading)
    yield from _prompt_twice(reading)
    for call in reading.named("logsigmoid", "sigmoid"):
        value = objects.operand(call) if not call.args else call.args[0]
        if value is None or not _is_negated(reading, call):
            continue
        text = " ".join(expanded(reading, value, call, depth) for depth in range(4))
        pairs = [(m["first"], m["second"]) for m in DIFFERENCE.finditer(text)]
        right = sum(bool(_is(GOOD, a) and _is(BAD, b)) for a, b in pairs)
        wrong = sum(bool(_is(BAD, a) and _is(GOOD, b)) for a, b in pairs)
        crossed = re.search(r"\(\(?(\w+)-(\w+)\)?-\((\w+)-(\w+)\)\)", text)
        swapped = crossed and _is(BAD, crossed[1]) and _is(GOOD, crossed[3]) and (
            _is(BAD, crossed[2]) and _is(GOOD, crossed[4])
        )  # fmt: skip
        if _added(reading, call, text):
            yield Match(call.span, "chosen and rejected are added: both are to grow, where their "
                        "difference is")  # fmt: skip
        if _smoothed(reading, call):
            continue
        if (swapped or (wrong and not right)) and not is_distance(reading, call.scope, text):
            yield Match(
                call.span, "the rejected answer is preferred: chosen minus rejected is to grow"
            )


def _smoothed(reading: Training, call: Call) -> bool:
    """Both directions, each with its weight: labels that may be wrong, as in conservative DPO."""
    weighted = [text for text, _, scope in reading.cached(statements) if scope == call.scope
                and re.search(r"\(1(?:\.0)?-[\w.]+\)\*", text)]  # fmt: skip
    both = [c for c in reading.named(call.method) if c.scope == call.scope]
    return bool(weighted) and len(both) > 1


def _added(reading: Training, call: Call, text: str) -> bool:
    """(chosen + rejected), of which neither is negated: outputs, or log-ratios to a reference."""
    for pair in re.finditer(r"\((?P<one>\w+)\+(?P<two>\w+)\)", text):
        one, two = pair["one"], pair["two"]
        if not (_is(GOOD, one) and _is(BAD, two)) and not (_is(BAD, one) and _is(GOOD, two)):
            continue
        held = [lines_of(reading, call.scope, name) for name in (one, two)]
        made = [each[0].text for each in held if len(each) == 1]
        if len(made) == 2 and all(map(RATIO.match, made)):
            return True
    return False


def _named_the_other(reading: Training) -> Iterator[Match]:
    """{"chosen": row["rejected_answer"], "rejected": row["chosen_answer"]}."""
    for value, span, _ in reading.expressions:
        for part in flatten([value]):
            if part.kind != "dict" or not {"chosen", "rejected"} <= set(part.keys):
                continue
            pairs = dict(zip(part.keys, part.items, strict=False))
            texts = [render(reading, pairs[key]).casefold() for key in ("chosen", "rejected")]
            if "reject" in texts[0] and "chosen" in texts[1] and "chosen" not in texts[0]:
                yield Match(
                    span, "the rejected answer is named chosen, and the chosen one rejected"
                )


def _is(pattern: str, name: str) -> bool:
    return re.fullmatch(pattern, name.rpartition(".")[2], re.IGNORECASE) is not None


def _is_negated(reading: Training, call: Call) -> bool:
    """A minus stands before it where it becomes a loss."""
    return any(
        re.search(r"-(?:torch\.log\()?[\w.]*sigmoid\(", text)
        for text, span, scope in reading.cached(statements)
        if scope == call.scope and abs(span.line - call.span.line) < 3
    )


POLICY = re.compile(r"-\(\w*log_?p\w*\*(\w*adv\w*)\)\.(?:mean|sum)\(\)")
JOINING = ("DPOTrainer", "ORPOTrainer", "CPOTrainer", "KTOTrainer", "SFTTrainer")
"""Trainers that join the columns prompt and chosen, or prompt and completion, themselves."""


def _prompt_twice(reading: Training) -> Iterator[Match]:
    """{"prompt": prompt, "chosen": prompt + answer, ...} of a trainer that joins both itself."""
    for value, span, scope in _rows_of_trainers(reading):
        pairs = dict(zip(value.keys, value.items, strict=False)) if value.kind == "dict" else {}
        written = pairs.get("chosen") or pairs.get("completion")
        if written is None or "prompt" not in pairs:
            continue
        place = Call(name="", span=span, scope=scope)
        named = written.kind == "name"
        answer = with_definitions(reading, written, place, 1) if named else written
        if answer.kind != "other":
            continue
        first = answer.items[0] if answer.name in ("Add", "") and answer.items else answer
        while first.kind == "other" and not first.name and len(first.items) == 1:
            first = first.items[0]  # {prompt} of an f-string
        if len(answer.items) > 1 and render(reading, first) == render(reading, pairs["prompt"]):
            fix = "Leave the prompt out of the answers, or omit the column prompt."
            yield Match(span, "the answers begin with the prompt, which is a column, too", fix=fix)


def _rows_of_trainers(reading: Training) -> Iterator[tuple[Value, Span, int]]:
    """Rows of what a trainer trains on: what a function for map() returns, and from_list([...])."""
    for call in reading.named(*JOINING):
        given = evaluate.options(reading, call.keywords.get("train_dataset"), call)
        made = reading.call_of(given[0]) if len(given) == 1 else None
        first = made.first if made is not None else None
        if made is None or first is None or "formatting_func" in call.keywords:
            continue
        if made.method == "from_list":
            yield from ((row, made.span, made.scope) for row in first.items)
        elif made.method == "map":
            for scope in reading.functions_by_name.get(first.name, ()):
                function = reading.function(scope)
                pairs = zip(function.returns, function.exit_spans, strict=False)
                yield from ((value, span, scope) for value, span in pairs)
            yield from ((value, made.span, made.scope) for value in first.items)


def policies(reading: Training) -> Iterator[Match]:
    yield from own_reference(reading)
    yield from reference_unused(reading)
    yield from distance_rewarded(reading)
    if reading.script.identifiers.isdisjoint(LOG_PROBS):
        return
    yield from _same_policy(reading)
    yield from sampled_anew(reading)
    yield from _minimized(reading)


def _same_policy(reading: Training) -> Iterator[Match]:
    """Old log-probabilities of the distribution that the new ones come from."""
    for each in reading.assignments:
        if not any(call.method == "exp" for call in reading.inside(each.value)):
            continue
        text = render(reading, each.value)
        found = re.fullmatch(r"(?:torch\.exp\(\((\w+)-(\w+)\)\)|\((\w+)-(\w+)\)\.exp\(\))", text)
        if found is None:
            continue
        new, old = (found[1], found[2]) if found[1] else (found[3], found[4])
        here = [a for a in reading.assignments if a.scope == each.scope
                and a.loops == each.loops and a.position <= each.position]  # fmt: skip
        texts = {a.target: render(reading, a.value) for a in here}
        base = texts.get(new, "")
        same = {f"{base}.detach()", f"{new}.detach()"}
        root, _, rest = base.partition(".")
        targets = [a.target for a in here]
        whole = f"{texts.get(root, root)}.{rest}"
        if all(targets.count(name) < 2 for name in {root, *re.findall(r"[A-Za-z_]\w*", whole)}):
            same |= {base, whole, f"{whole}.detach()"}
        again = texts.get(old, "") in same
        if "log_prob" in base and again and reading.mentions("clamp", "clip"):
            fix = "Compute the old log-probabilities once, before the epochs over these data."
            yield Match(each.span, f"the ratio is always 1: {old} is {new} without its graph",
                        fix=fix)  # fmt: skip


def _minimized(reading: Training) -> Iterator[Match]:
    """(log_prob * returns).sum() as the loss."""
    for number in reading.backwards:
        backward = reading.calls[number]
        if not backward.receiver:
            continue
        found = objects.last_definition(reading, backward.receiver, backward)
        text = render(reading, found[0]) if len(found) == 1 else ""
        product = re.fullmatch(
            r"(?:torch\.(?:sum|mean)\()?\((?P<one>[\w.()]+)\*(?P<other>[\w.()]+)\)"
            r"(?:\)|\.(?:sum|mean)\([\w=]*\))", text
        )  # fmt: skip
        if product is None:
            continue
        one, other = (set(_words(part)) for part in (product["one"], product["other"]))
        logs = [part for part in (one, other) if part & LOGS]
        if logs and (one | other) & WEIGHTS and not _negative_before(reading, text):
            yield Match(backward.span, "the return is minimized: a minus is missing before it")


def _words(text: str) -> list[str]:
    return [w for part in re.split(r"[.()]", text) for w in words(part)]


def _negative_before(reading: Training, text: str) -> bool:
    """A part was made negative before: -dist.log_prob(action)."""
    names = set(re.findall(r"\w+", text))
    for other, _, _ in reading.cached(statements):
        if re.search(r"-[\w.]*log_?probs?\b|-[\w.()]*\.log_prob\(|-\w*(?:logp|reward|adv)", other):
            return True
    appended = [render(reading, v) for made in reading.named("append") for v in made.args]
    return any(t.startswith("-") for t in appended) or not names


def chooses(reading: Training) -> Iterator[Match]:
    """random() > epsilon explores, and a small epsilon does so nearly always."""
    for call in reading.calls:
        drawn = call.method == "sample" and call.receiver.endswith("action_space")
        drawn |= (
            call.method in ("randrange", "randint", "choice")
            and bool(call.targets)
            and (set(words(call.targets[0])) & {"action", "a", "act"} != set())
        )
        drawn |= call.method in ("randrange", "randint") and _is_returned_action(reading, call)
        for branch, arm in call.arms if drawn else ():
            test = reading.test_of(branch)
            text = test.text if test is not None else ""
            found = re.fullmatch(
                r"\(?[\w.]*rand\w*(?:\.\w+)?\(\)\s*([<>])=?\s*([\w.]*eps\w*)\)?", text
            )
            if found and ((found[1] == ">") == (arm == 0)):
                yield Match(
                    call.span, f"{found[2]} is the share of chosen actions here, not of random ones"
                )
            elif found and (rate := _fixed(reading, found[2], call)):
                yield Match(call.span, f"{found[2]} stays {rate:g}: nearly all actions are random")
    yield from _state_stays(reading)
    yield from _critic_moved(reading)


def _fixed(reading: Training, name: str, call: Call) -> float:
    """An exploration rate of 0.5 and more that nothing changes, 0 for any other."""
    if not name.isidentifier():
        return 0
    found = reading.assigned_to(name, call.scope)
    number = found[0].value.literal if len(found) == 1 else None
    return number if isinstance(number, float) and 0.5 <= number <= 1 else 0


def _state_stays(reading: Training) -> Iterator[Match]:
    """s2, r, done = env.step(a) in a loop that chooses by s and never sets it."""
    for call in reading.named("step"):
        if "env" not in call.receiver.casefold() or not call.loops or len(call.targets) < 4:
            continue
        following, loop = call.targets[0], call.loops[-1]
        named = re.fullmatch(r"(?:next_|new_)(\w+)|(\w+?)(?:2|_next|_new|_|p|_prime|1)", following)
        state = (named[1] or named[2]) if named else ""
        starts = [a for a in reading.assigned_to(state, call.scope)
                  if state and a.scope == call.scope]  # fmt: skip
        inside = [a for a in starts if loop in a.loops]
        reset = any(".reset(" in render(reading, a.value) for a in starts)
        read = any(
            state in v.all_names
            for m in reading.by_loop.get(loop, ())
            for v in reading.calls[m].args
        )
        if starts and not inside and reset and read:
            yield Match(call.span, f"{state} is never set to {following}: every step starts there")


def _critic_moved(reading: Training) -> Iterator[Match]:
    """-(log_prob * (returns - value)).mean() with the graph of the value."""
    for text, span, scope in containing(reading, POLICY):
        for name in POLICY.findall(text):
            found = [a for a in reading.assigned_to(name, scope) if not a.augmented]
            if len(found) != 1 or found[0].contexts:
                continue
            made = render(reading, found[0].value)
            parts = re.fullmatch(r"\(\w*(?:ret|target|reward)\w*-(\w*val\w*)\)", made)
            values = reading.assigned_to(parts[1], scope) if parts else ()
            texts = [render(reading, v.value) for v in values]
            if (
                texts
                and all("(" in t and "detach" not in t for t in texts)
                and not any(v.contexts for v in values)
            ):
                yield Match(
                    span, f"{name} carries gradients of the value: the policy's loss moves it, too"
                )


def _is_returned_action(reading: Training, call: Call) -> bool:
    """return random.randrange(n) in act(state)."""
    function = reading.function(call.scope)
    named = set(words(function.name)) & {"act", "action", "policy", "select", "choose", "step"}
    return bool(named) and any(reading.call_of(v) is call for v in function.returns)


def in_order(reading: Training) -> Iterator[Match]:
    """r + gamma * running over rewards from the first to the last."""
    if reading.mentions("filter", "runningmean", "running_stat", "ret_rms", "return_rms"):
        return  # rewards are divided by the spread of the running return, which is of the past
    for each in reading.assignments:
        if not each.loops or each.augmented or each.value.name != "Add":
            continue
        loop = reading.loops[each.loops[-1]]
        text = render(reading, each.value)
        name = re.escape(each.target)
        factor = r"(?:[\w.\[\]']+|\(1-[\w.\[\]]+\))\*"
        found = re.fullmatch(rf"\((\w+(?:\[\w+\])?)\+\((?:{factor})+{name}\)\)", text)
        if found is None or loop.iterable is None or loop.kind != "for":
            continue
        over = render(reading, loop.iterable)
        forward = re.fullmatch(r"(?:self\.)?\w*rew\w*|range\(\(?len\(\w*rew\w*\)(?:-1\))?\)", over)
        variable = found[1].partition("[")[0]
        if (
            forward
            and (variable in loop.targets or re.search("rew|delta", variable))
            and not _turned(reading, each.scope)
        ):
            yield Match(
                each.span, "returns are summed from the start: the loop is to run backwards"
            )


def _turned(reading: Training, scope: int) -> bool:
    """Rewards are reversed by something else in this function."""
    texts = [t for t, _, where in reading.cached(statements) if where == scope]
    calls = {call.method for call in reading.calls_in(scope)}
    return bool(calls & {"reverse", "reversed", "flip", "appendleft"}) or any(
        "::-1" in t for t in texts
    )


RULES = (
    Rule(
        code="SCR352",
        slug="preference-sign",
        title="The chosen answer is preferred to the rejected one",
        severity="fail",
        find=preferred,
        why="-logsigmoid falls as its argument grows. With rejected - chosen the policy or the "
        "reward model learns the opposite of the preferences.",
        fires=(
            "-logsigmoid(rejected - chosen), also of log-ratios; -logsigmoid(chosen + rejected)",
            "answers that begin with the prompt, beside a column prompt, for DPO and the like",
        ),
        fix="Name the better answer chosen; the loss is "
        "-logsigmoid(beta * ((pi_chosen - ref_chosen) - (pi_rejected - ref_rejected))).",
        sources=("trl-dpo",),
        needs=("logsigmoid", "sigmoid", "RewardTrainer", *JOINING),
    ),
    Rule(
        code="SCR353",
        slug="policy-gradient",
        title="A policy is trained on ratios to the old one, and its return is maximized",
        severity="fail",
        find=policies,
        why="Optimizers minimize: the loss is minus the return. Old log-probabilities are those of "
        "the collected data; computed in the same step their ratio is always 1, and nothing clips.",
        fires=(
            "(log_prob * returns).sum() as the loss, without a minus",
            "exp(new - old) with old = new.detach() of the same step, or computed there again",
            "exp(new - old) with new of a function that draws an action, unless it is given one",
            "rewards = kl_coef * (logp - ref_logp), without a minus",
            "ref_logits of the policy, where nothing runs the copy self.ref",
            "ref = logps(model, batch) beside pol = logps(model, batch), without disable_adapter()",
        ),
        fix="loss = -(log_prob * returns).mean(); store log-probabilities with the actions.",
        sources=("torch-ppo",),
        needs=(*LOG_PROBS, "logsigmoid", "kl_div", "beta", "ref", "reference", "ref_model", "kl"),
    ),
    Rule(
        code="SCR375",
        slug="policy-explores",
        title="Exploration and advantages are what they are named for",
        severity="fail",
        find=chooses,
        why="With epsilon as the share of random actions an agent explores less as it learns. An "
        "advantage is a constant in the loss of the policy: through its value the policy's loss "
        "trains the critic to be wrong.",
        fires=(
            "a random action where random() > epsilon",
            "-(log_prob * (returns - value)).mean() without detach()",
        ),
        fix="if random() < epsilon: sample; advantage = (returns - value).detach().",
        sources=("torch-dqn", "torch-ppo"),
        needs=("action_space", "reset", "log_prob", "logp", "randrange"),
    ),
    Rule(
        code="SCR354",
        slug="returns-from-the-start",
        title="Returns are summed from the last reward to the first",
        severity="fail",
        find=in_order,
        why="A return holds the rewards that follow. Summed from the start it holds those that "
        "came before, which no action changes any more.",
        fires=("running = reward + gamma * running in a loop over rewards",),
        fix="for reward in reversed(rewards): ..., and reverse the result.",
        sources=("torch-ppo",),
        needs=("gamma", "discount", "rewards"),
    ),
)
