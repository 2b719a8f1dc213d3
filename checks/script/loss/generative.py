"""Rules on formulas of generative models: the KL term, samples of a latent, noise by steps."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.checks.script import evaluate
from doctor.checks.script.loss import steps_of_noise
from doctor.checks.script.reading import Reading
from doctor.checks.script.rendering import containing, lines, lines_in, render, statements
from doctor.checks.script.rule import Match, Rule
from doctor.checks.script.training import Training
from doctor.facts.script import Span

LOGVAR = r"[\w.\[\]]*(?:log_?var|lv|log_?sigma_?sq|log_?sigma2)\w*"
EXP = rf"(?:torch\.exp\({LOGVAR}\)|{LOGVAR}\.exp\(\))"
POSITIVE = re.compile(rf"\(\(1\+{LOGVAR}\)-[^()]*(?:\([^()]*\))?[^()]*-{EXP}\)")
"""1 + logvar - mu² - exp(logvar), of which half the negative sum is the divergence."""
NOISE = re.compile(rf"{EXP}\*(?:eps|epsilon|noise|torch\.randn)|(?:eps|epsilon|noise|torch\.randn"
                   rf"(?:_like)?\([\w.=,()]*\))\*{EXP}")  # fmt: skip
OF_STD = re.compile(
    r"\(1\+\(2\*(?P<s>[\w.]*log_?(?:std|sigma)\w*)\)\)-[^+]*-(?:torch\.exp\((?P=s)\)|(?P=s)\.exp\(\))"
    r"(?!\.(?:pow|square)\(|\*\*)"
)
"""1 + 2 * logstd - mu² - exp(logstd), whose last term lacks its square."""
PER_SAMPLE = re.compile(r"(?:dim|axis)=|,-?1\)|mean\(")
SUMMED = re.compile(rf"-0\.5\*(?:torch\.sum\(\(\(1\+{LOGVAR}\)|"
                    rf"\(\(1\+{LOGVAR}\).*\)\.sum\(\)\)?$)")  # fmt: skip
AVERAGED = re.compile(
    r"(?:mse_loss|binary_cross_entropy(?:_with_logits)?|l1_loss)\((?!.*reduction=(?!'mean'))"
)
WEIGHED = re.compile(r"/(?:\w+\.(?:size|shape|numel)|len\(|\w*batch|n\b|b\b)|beta|kld?_?w|"
                     r"\*[\w.]*(?:weight|lambda|lamb)|1e-|0\.0")  # fmt: skip
PLAIN = r"[\w.]*(?:abar|bar|cumprod|alpha|alphas)\w*(?:\.to\([\w.]*\))?(?:\[[^\]]*\])*"
MIXED = re.compile(rf"\(\(({PLAIN})\*[\w.]+\)\+\(\(1-({PLAIN})\)\*([\w.]+)\)\)")


def of_latents(reading: Training) -> Iterator[Match]:
    if not reading.mentions(
        "logvar", "log_var", "lv", "log_sigma", "logsigma", "log_std", "logstd"
    ):
        return
    for text, span, scope in containing(reading, POSITIVE, NOISE, OF_STD):
        if OF_STD.search(text):
            message = "exp() of the log of a deviation is no variance: it is squared"
            yield Match(span, message, fix="1 + 2 * logstd - mu**2 - exp(logstd)**2.")
        found = POSITIVE.search(text)
        wrong = found is not None and not _negated(text, found.start())
        if wrong and not _negated_later(reading, span, scope):
            message = "the KL term has the wrong sign: it is -0.5 times this sum"
            yield Match(span, message, fix="kl = -0.5 * sum(1 + logvar - mu**2 - exp(logvar)).")
        if NOISE.search(text):
            message = "exp(logvar) is the variance: noise is scaled by exp(0.5 * logvar)"
            yield Match(span, message, fix="z = mu + eps * exp(0.5 * logvar).")
    yield from _summed_and_averaged(reading)


def _negated(text: str, place: int) -> bool:
    """A minus stands before the sum: of its factor, or of the whole product."""
    before = text[:place]
    opened = re.split(r"\+", before)[-1]
    return "-" in opened


def _negated_later(reading: Reading, span: Span, scope: int) -> bool:
    """The sum is assigned, and its name is negated or subtracted."""
    names = [a.target for a in reading.assignments if a.span == span and a.scope == scope]
    pattern = "|".join(map(re.escape, names))
    return bool(names) and any(
        re.search(rf"-[\w.*()+]*\b(?:{pattern})\b", text)
        for text, _, where in reading.cached(statements)
        if where == scope
    )


def _summed_and_averaged(reading: Training) -> Iterator[Match]:
    """The reconstruction is a mean over all elements, and the divergence a sum over them."""
    for number, function in enumerate(reading.script.functions):
        own = [(t, s) for t, s, scope in reading.cached(statements) if scope == number]
        sums = [s for text, s in own if SUMMED.search(text) and not PER_SAMPLE.search(text)]
        means = any(AVERAGED.search(text) for text, _ in own)
        weighs = any(WEIGHED.search(text) for text, _ in own)
        if function.returns and sums and means and not weighs:
            yield Match(
                sums[0],
                "the KL term is a sum over the batch, the reconstruction a mean over it",
                fix="Reduce both terms alike: sum each over its features, and divide both by the "
                "batch size.",
            )


def of_diffusion(reading: Training) -> Iterator[Match]:
    for text, span, scope in containing(reading, MIXED) if reading.mentions("cumprod") else ():
        found = MIXED.search(text)
        if found and found[1] == found[2] and _is_noise(reading, found[3], scope):
            yield Match(span, "noise is added with alpha and 1 - alpha: their roots are needed")
    yield from _of_one_level(reading)
    yield from _clean_target(reading)
    yield from _noise_for_velocity(reading)
    yield from steps_of_noise.of_steps(reading)
    yield from steps_of_noise.flow(reading)


def _is_noise(reading: Training, name: str, scope: int) -> bool:
    """By its name, or drawn."""
    drawn = (render(reading, a.value) for a in reading.assigned_to(name, scope))
    return bool(re.search(r"noise|eps", name)) or any("rand" in text for text in drawn)


def _of_one_level(reading: Training) -> Iterator[Match]:
    """The same with names: a * x0 + (1 - a) * noise, where a is taken from the products."""
    if not reading.mentions("cumprod"):
        return
    for text, span, scope in reading.cached(statements):
        found = re.search(r"^\(\((\w+)\*[\w.]+\)\+\(\(1-\1\)\*[\w.]+\)\)$", text)
        values = reading.assigned_to(found[1], scope) if found else ()
        texts = [t for v in values for t, s, _ in reading.cached(statements) if s == v.span]
        if (
            len(values) == 1
            and texts
            and re.match(rf"{PLAIN}", texts[0])
            and "sqrt" not in texts[0]
        ):
            yield Match(span, "noise is added with alpha and 1 - alpha: their roots are needed")


def _clean_target(reading: Training) -> Iterator[Match]:
    """The loss compares the prediction with the samples, of a scheduler that predicts noise."""
    yield from _clean_for_noise(reading)
    calls = reading.methods("add_noise")
    if not calls or reading.mentions("prediction_type", "get_velocity", "original_samples"):
        return
    for number in calls:
        call = reading.calls[number]
        if len(call.args) < 2 or call.args[0].kind != "name" or call.args[1].kind != "name":
            continue
        if reading.target_function(call) is not None:
            continue  # which has its own order of arguments
        clean, noise = call.args[0].name, call.args[1].name
        for loss in reading.named("mse_loss", "l1_loss", "smooth_l1_loss"):
            names = {name for value in loss.args[:2] for name in value.all_names}
            given = evaluate.is_parameter(reading, call.scope, noise)
            if loss.scope == call.scope and clean in names and noise not in names and not given:
                yield Match(loss.span, f"the model is to predict {noise}, not {clean}")


PREDICTS_NOISE = re.compile(r"(?:^|_)(?:eps|epsilon|noise)(?:_|$)")


def _clean_for_noise(reading: Training) -> Iterator[Match]:
    """mse_loss(model(x_t, t), x0), where the sampler takes model(x, t) for the noise."""
    if not reading.mentions("cumprod") or reading.mentions("pred_x0", "predict_x0", "x0_pred"):
        return
    losses = reading.named("mse_loss", "l1_loss", "smooth_l1_loss")
    for loss in losses if len(losses) == 1 else ():
        if [value.kind for value in loss.args] != ["name", "name"] or loss.arms:
            continue
        clean, predicted = loss.args[1].name, loss.args[0].name
        noisy = re.compile(
            rf"\w*(?:q_sample|noise\w*|diffuse|forward\w*)\((?:{clean},.*|.*\b{clean}\b.*noise.*)\)"
        )
        own = lines_in(reading, loss.scope)
        drawn = any(re.search(r"randn", line.text) for line in own)
        made = [line.text for line in own if line.target == predicted]
        network = re.match(r"[\w.]+\(", made[0]) if len(made) == 1 else None
        mixed = any(noisy.search(line.text) for line in own)
        if drawn and mixed and network and _samples_by_noise(reading, network[0], loss.scope):
            message = (
                f"the sampler takes the output for noise, and the loss compares it with {clean}"
            )
            yield Match(loss.span, message, fix="Compare the prediction with the noise.")


def _samples_by_noise(reading: Training, network: str, scope: int) -> bool:
    """eps = model(x, t) in another function."""
    return any(
        line.scope != scope
        and not line.arms
        and line.text.startswith(network)
        and PREDICTS_NOISE.search(line.target.casefold())
        for line in reading.cached(lines)
    )


def _noise_for_velocity(reading: Training) -> Iterator[Match]:
    """The loss compares with the noise, of a scheduler that predicts velocities for certain."""
    made = [c for c in reading.calls if c.name.startswith("diffusers.")
            and (v := c.keywords.get("prediction_type")) is not None
            and evaluate.literals(reading, v, c) == {"v_prediction"}]  # fmt: skip
    if not made or reading.mentions("velocity", "sigma", "alphas_cumprod", "prediction_type_"):
        return
    noises = {c.args[1].name for n in reading.methods("add_noise")
              if len((c := reading.calls[n]).args) == 3 and c.args[1].kind == "name"}  # fmt: skip
    for loss in reading.named("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss"):
        names = {name for value in loss.args[:2] for name in value.all_names}
        if noises & names:
            message = "the scheduler predicts velocities, and the target is the noise"
            own = "Compare the prediction with scheduler.get_velocity(samples, noise, t)."
            yield Match(loss.span, message, fix=own)


RULES = (
    Rule(
        code="SCR339",
        slug="latent-formula",
        title="The KL term and the sampling of a VAE have their formulas",
        severity="fail",
        find=of_latents,
        why="With the wrong sign the divergence grows without bound. Noise that is scaled by the "
        "variance has another distribution than the KL term assumes. A sum beside a mean makes "
        "the KL term thousands of times too heavy, and the latent collapses.",
        fires=(
            "+0.5 * sum(1 + logvar - mu**2 - exp(logvar)) in a loss",
            "mu + eps * exp(logvar)",
            "a reconstruction with reduction='mean' beside a KL term that is summed",
        ),
        fix="kl = -0.5 * sum(1 + logvar - mu**2 - exp(logvar)); z = mu + eps * exp(0.5 * logvar); "
        "reduce both terms alike.",
        sources=("torch-vae",),
        needs=("exp",),
    ),
    Rule(
        code="SCR340",
        slug="diffusion-formula",
        title="Noise is added with roots, and the loss compares what is predicted",
        severity="fail",
        find=of_diffusion,
        why="x_t = sqrt(a) * x_0 + sqrt(1 - a) * noise keeps the variance at 1; schedulers divide "
        "by these roots when they sample. A scheduler of diffusers takes the output for noise "
        "unless its prediction_type says otherwise.",
        fires=(
            "a * x0 + (1 - a) * noise, where a is a cumulative product",
            "mse_loss(prediction, samples) beside add_noise(samples, noise, t)",
            "mse_loss(prediction, noise) of a scheduler with prediction_type='v_prediction'",
            "a target that randn_like() draws anew; sqrt(1 - beta[t]) without a cumulative product",
            "randint(0, steps + 1, ...); steps of a sampler that go up",
            "x = (1 - t) * a + t * b, and a - b as its velocity",
            "one step that is drawn for the whole batch (a warning)",
        ),
        fix="Multiply by a.sqrt() and (1 - a).sqrt(); compare the prediction with the noise, "
        "or with scheduler.get_velocity(samples, noise, t).",
        sources=("diffusers-training",),
        needs=("cumprod", "add_noise", "randn_like", "randn", "randint"),
    ),
)
