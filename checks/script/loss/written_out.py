"""A rule on losses that a script writes out itself, by their formulas."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.checks.script import evaluate, objects
from doctor.checks.script.loss import critics, policies
from doctor.checks.script.loss.bellman import GAMMA as DISCOUNT
from doctor.checks.script.loss.changed_before import changed_before
from doctor.checks.script.loss.directions import gaussians, quantiles
from doctor.checks.script.loss.exchanged import exchanged_axes
from doctor.checks.script.loss.negatives import negatives
from doctor.checks.script.loss.overlaps import of_logits, unclamped
from doctor.checks.script.loss.signs import signs_hold
from doctor.checks.script.naming import words
from doctor.checks.script.rendering import containing, expanded, render, statements
from doctor.checks.script.rule import Match, Rule
from doctor.checks.script.training import Training
from doctor.facts.script import Call, Function

GAMMA = re.compile(DISCOUNT)
FOCAL = re.compile(r"(?<!-)\b(?:pt|p_t|prob_?t|true_prob\w*)\*\*[\w.]*gamma\b")
TWINS = re.compile(
    r"torch\.(?:max|maximum)\((?P<one>[\w.]*q\w*?)1(?P<rest>\w*)\(.*,(?P=one)2(?P=rest)\(",
    re.IGNORECASE,
)
LARGER = re.compile(
    r"\*torch\.(?:max|maximum)\((?P<one>\w+),(?P<two>\w+)\)"
    r"|\(torch\.(?:max|maximum)\((?P<first>\w+),(?P<second>\w+)\)"
    r"-\([\w.()]*(?:alpha|temp)[\w.()]*\*[\w.\[\]]*(?:log|lp)\w*\)\)"
)
"""gamma times the larger value, or the larger value less the entropy's term."""
CRITIC = re.compile(r"critic|(?:^|[._])(?:q|qf|q_?net)\w{0,9}$|q[12]", re.IGNORECASE)
SOFT_VALUE = re.compile(
    r"\(torch\.(?:min|minimum)\([^()]*(?:\([^()]*\)[^()]*)*\)\+\([\w.]*alpha[\w.()]*\*\w*(?:log|lp)\w*\)\)|"
    r"\((?:min_?q\w*|q_?min\w*|q_?next\w*|next_?q\w*)\+\([\w.]*alpha[\w.()]*\*\w*(?:log|lp)\w*\)\)",
    re.IGNORECASE,
)
HINGE = re.compile(
    r"relu\(\(1\+(?P<one>[\w.]*(?:real)\w*|[\w.]+\((?:\w*real\w*|x|imgs?|images?)\))\)\)|"
    r"relu\(\(1-(?P<two>[\w.]*(?:fake)\w*|[\w.]+\(\w*fake\w*(?:\.detach\(\))?\))\)\)"
)
SIGNED = {"CosineEmbeddingLoss": 2, "cosine_embedding_loss": 2, "MarginRankingLoss": 2,
          "margin_ranking_loss": 2, "HingeEmbeddingLoss": 1, "hinge_embedding_loss": 1,
          "SoftMarginLoss": 1, "soft_margin_loss": 1}  # fmt: skip
"""Losses whose targets are 1 and -1, and where the target stands."""


def formulas_hold(reading: Training) -> Iterator[Match]:
    for text, span, scope in containing(reading, FOCAL, TWINS, LARGER, SOFT_VALUE, HINGE):
        if FOCAL.search(text) and _is_focal(reading.function(scope)):
            message = "the factor of a focal loss is (1 - pt) ** gamma: here easy samples count"
            yield Match(span, message)
        larger = TWINS.search(text) or _is_larger_of_twins(reading, text, scope)
        if larger and not reading.mentions("cost"):  # a cost is to be overestimated
            yield Match(span, "the larger of two critics is overestimated: their minimum is used")
        if SOFT_VALUE.search(text):
            yield Match(span, "the soft value of a state is q - alpha * log_prob, not a sum")
        signs = {key for m in HINGE.finditer(text) for key, v in m.groupdict().items() if v}
        if signs == {"one", "two"}:
            yield Match(span, "the hinge is relu(1 - real) and relu(1 + fake): signs are exchanged")
    yield from of_logits(reading)
    yield from unclamped(reading)
    yield from _mixed_apart(reading)
    yield from _variances(reading)
    yield from _bounds(reading)
    yield from _signed(reading)
    yield from gaussians(reading)
    yield from quantiles(reading)
    yield from signs_hold(reading)
    yield from negatives(reading)
    yield from policies.formulas(reading)
    yield from changed_before(reading)
    yield from critics.written(reading)


def _is_larger_of_twins(reading: Training, text: str, scope: int) -> bool:
    """r + gamma * max(t1, t2), where a critic, or two of them, returned both."""
    found = LARGER.search(text) if text.startswith("(") else None
    if found is None or not (found["first"] or GAMMA.search(text)):
        return False
    pair = (found["one"] or found["first"], found["two"] or found["second"])
    held = [reading.assigned_to(name, scope)[-1:] for name in pair]
    made = [reading.calls[n].name for group in held for a in group for n in a.value.calls[:1]]
    return len(made) == 2 and all(CRITIC.search(name) for name in made)


def _is_focal(function: Function) -> bool:
    return "focal" in f"{function.owner} {function.name}".casefold() or "gamma" in {
        parameter.name for parameter in function.parameters
    }


DRAWN = re.compile(r"\(\(1-(?P<lam>\w+)\)\*(?P<x>\w+)\[torch\.randperm\(")
LABELS = {"y", "target", "targets", "label", "labels", "onehot", "hot"}
"""Words of what belongs to an input; two views may be mixed apart."""


def _mixed_apart(reading: Training) -> Iterator[Match]:
    """lam of one image, and 1 - lam of its label; images and labels of two permutations."""
    drawn: dict[tuple[int, str], str] = {}
    for text, span, scope in containing(reading, DRAWN):
        for mix in DRAWN.finditer(text):
            first = drawn.setdefault((scope, mix["lam"]), mix["x"])
            if first != mix["x"] and LABELS & {*words(first), *words(mix["x"])}:
                yield Match(
                    span,
                    f"{mix['x']} is mixed by a permutation of its own",
                    fix="Draw one permutation, and index both with it.",
                )
    inputs = re.compile(r"\(\((?P<lam>\w+)\*(?P<x>\w+)\)\+\(\(1-(?P=lam)\)\*(?P=x)\[(?P<perm>\w+)")
    texts = reading.cached(statements)
    found = [(m, scope) for text, _, scope in texts if (m := inputs.search(text))]
    for mixed, scope in found:
        lam, perm = re.escape(mixed["lam"]), re.escape(mixed["perm"])
        swapped = re.compile(
            rf"\(\(\(1-{lam}\)\*[\w.]+\(\w+,(?P<y>\w+)\)\)\+\({lam}\*[\w.]+\(\w+,(?:(?P=y)\[{perm}\]|"
            rf"(?P<other>\w+))\)\)\)"
        )
        for text, span, where in texts:
            loss = swapped.search(text) if where == scope else None
            if loss and (not loss["other"] or _is_permuted(reading, loss["other"], perm)):
                yield Match(
                    span, f"{mixed['lam']} is the share of the first image: labels get the other"
                )


def _is_permuted(reading: Training, name: str, perm: str) -> bool:
    return any(
        a.target == name and f"[{perm}]" in render(reading, a.value) for a in reading.assignments
    )


def _variances(reading: Training) -> Iterator[Match]:
    """GaussianNLLLoss(mean, target, log_var)."""
    for call in _calls_of(reading, {"GaussianNLLLoss", "gaussian_nll_loss"}):
        value = call.given("var", 2)
        if value is not None and value.kind == "name" and re.fullmatch(
            r"(?:\w+\.)*log_?(?:var|sigma|std|s2)\w*", value.name.casefold()
        ):  # fmt: skip
            yield Match(call.span, f"{value.name} is a logarithm: this loss takes the variance")


def _bounds(reading: Training) -> Iterator[Match]:
    """ratio.clamp(1 + eps, 1 - eps)."""
    for call in reading.named("clamp", "clip", "clamp_"):
        if call.method == "clip" and not call.name.startswith(("torch.", "numpy.")):
            continue  # of a video or a table
        given = call.args[call.name.startswith(("torch.", "numpy.")) :]
        texts = [render(reading, v) for v in given]
        low, high = (v.literal for v in given) if len(given) == 2 else (None, None)
        turned = evaluate.is_number(low) and evaluate.is_number(high) and low > high
        parts = re.fullmatch(r"\(1\+([\w.]+)\) \(1-\1\)", " ".join(texts))
        if turned or parts:
            yield Match(call.span, f"the bounds {' and '.join(texts)} are exchanged: all is one")


def _signed(reading: Training) -> Iterator[Match]:
    """CosineEmbeddingLoss()(a, b, torch.zeros(n))."""
    for call in _calls_of(reading, set(SIGNED)):
        names = {call.method, *(m.method for m in objects.callee(reading, call) if m is not None)}
        place = next((SIGNED[name] for name in names if name in SIGNED), 0)
        value = call.args[place] if len(call.args) > place else call.keywords.get("target")
        if value is None:
            continue
        text = expanded(reading, value, call, 2)
        if re.match(r"torch\.zeros(?:_like)?\(", text):
            yield Match(call.span, "targets of this loss are 1 and -1: with 0 it is no pair")


def _calls_of(reading: Training, losses: set[str]) -> Iterator[Call]:
    """Calls of a function of torch, or of an object of a class of torch.nn."""
    for call in reading.calls if not losses.isdisjoint(reading.by_method) else ():
        if call.method in losses and not call.method[:1].isupper():
            yield call
            continue
        made = objects.callee(reading, call) if call.args else []
        if made and all(m is not None and m.method in losses for m in made):
            yield call


RULES = (
    Rule(
        code="SCR383",
        slug="loss-formula",
        title="Losses that are written out have their formulas",
        severity="fail",
        find=formulas_hold,
        why="A loss with a factor, a sign or an argument of another kind trains without an error, "
        "towards something else.",
        fires=(
            "pt ** gamma as the factor of a focal loss",
            "(1 - exp(-ce)) ** gamma * ce of a ce that is the mean of the batch",
            "a dice loss of the output of a layer, without a sigmoid",
            "the maximum of two critics in a target; min(q1, q2) + alpha * log_prob",
            "relu(1 + real) and relu(1 - fake)",
            "inputs mixed with lam, and losses with 1 - lam",
            "relu(d_negative - d_positive + margin); equal pairs that a margin pushes apart",
            "tanh(u) as action with the log_prob of u; Normal(mu, std).sample() in a VAE",
            "log(1 - tanh(a) ** 2) of a = tanh(u)",
            "mse_loss(z_q, z.detach()) of z_q = z + (q - z).detach()",
            "GaussianNLLLoss of a log variance; CosineEmbeddingLoss with targets of 0",
            "a squared error times exp(logvar) beside logvar; a dice loss that returns the overlap",
            "-logsigmoid(negative - positive); -logsigmoid(negative); log_softmax(x)[:, y].mean()",
            "cross_entropy(x, y) * mask of a loss that is reduced",
            "a focal loss or negative log-likelihood without a minus; inter / (area_a + area_b)",
            "max(q * e, (q - 1) * e) of e = prediction - target",
            "(rb - lt).prod(-1) as the intersection of boxes, without clamp(min=0)",
        ),
        fix="(1 - pt) ** gamma; dice of sigmoid(logits); min(q1, q2) - alpha * log_prob; "
        "lam * loss(out, y) + (1 - lam) * loss(out, y[perm]); log_var.exp(); targets of 1 and -1; "
        "error ** 2 * exp(-logvar) + logvar; relu(d_pos - d_neg + margin); 1 - overlap; "
        "area_a + area_b - inter.",
        sources=("torch-bce-logits",),
    ),
    Rule(
        code="SCR384",
        slug="axes-exchanged-by-view",
        title="Axes are exchanged by transpose()",
        severity="fail",
        find=exchanged_axes,
        why="view() and reshape() keep the order of the numbers and cut them into other rows: each "
        "row of the result mixes several rows of the tensor.",
        fires=(
            "x.view(x.size(0), x.size(2), x.size(1))",
            "b, d, t = x.shape, and x.reshape(b, t, d)",
            "B, T = x.shape, and x.view(T, B, 1)",
            "n, c, h, w = x.size(), and x.view(-1, c)",
            "h.view(b, t, -1) of (b, channels, t, width), where a convolution makes the channels",
        ),
        fix="x.transpose(1, 2), or permute() with the axes in their new order.",
        sources=("torch-tensor-docs",),
        needs=("view", "reshape"),
    ),
)
