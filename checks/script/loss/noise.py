"""A rule on the noise that data get."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.checks.script import objects
from doctor.checks.script.kinds.clashes import clashes
from doctor.checks.script.loss.losses import loss_calls
from doctor.checks.script.reading import flatten
from doctor.checks.script.rendering import expanded, render
from doctor.checks.script.rule import Match, Rule
from doctor.checks.script.training import Training
from doctor.facts.script import Call, Value

MIXED = re.compile(r"sqrt.*\*|add_noise\(|q_sample\(")
"""How samples and noise are mixed at a step."""
SHARE = re.compile(
    r"^\(1-[^()]*\)(?:\.\w+\([-\d,None]*\))*\.sqrt\(\)|sqrt\(\(1-|^\(1-[^()]*\)\*\*0\.5"
    r"|sqrt_?(?:one|1)_?(?:minus|m)|(?:one|1)_?minus_?\w*sqrt"
)
"""The factor of the noise where a diffusion's mixture is written out."""


def blended(reading: Training) -> Iterator[Match]:
    """Draws of the wrong distribution, and results of diffusers taken for tensors."""
    turned = reading.mentions("erfinv", "cauchy", "quantile")  # draws by an inverse distribution
    for number, call in reading.numbered([] if turned else reading.methods("rand_like", "rand")):
        if call.name.startswith("torch.") and _is_scaled_by_std(reading, call, number):
            yield Match(call.span, f"{call.method}() is uniform: randn is needed here")
    yield from reading.cached(clashes).get("SCR322", ())
    yield from _of_diffusion(reading)
    yield from _not_a_tensor(reading)
    yield from _copied_input(reading)


def _of_diffusion(reading: Training) -> Iterator[Match]:
    """add_noise() of a scheduler of diffusers."""
    for call in reading.named("add_noise"):
        if len(call.args) == 3 and call.args[0].name in ("noise", "eps", "epsilon"):
            yield Match(call.span, "add_noise takes the samples first, then the noise")
        elif len(call.args) == 3 and call.args[1].kind == "name":
            values = objects.last_definition(reading, call.args[1].name, call)
            if values and all(
                v.kind == "call" and reading.calls[v.call].name in ("torch.rand_like", "torch.rand")
                for v in values
            ):
                yield Match(call.span, f"{call.args[1].name} is uniform: add_noise needs randn")


def _is_scaled_by_std(reading: Training, call: Call, number: int) -> bool:
    """mu + std * rand_like(std)."""
    stds = {"std", "sigma", "stddev"}
    names = {n for n in call.targets if len(reading.assigned_to(n, call.scope)) == 1}
    for value, _, scope in reading.expressions:
        inside = scope == call.scope and (number in value.calls or names & {*value.all_names})
        for part in flatten([value]) if inside else ():
            if part.kind != "other" or part.name != "Mult":
                continue
            if number not in part.calls and not names & {v.name for v in part.items}:
                continue
            if stds & {v.name for v in part.items} or _is_share(reading, part, number, names):
                return True
    return False


def _is_share(reading: Training, product: Value, number: int, names: set[str]) -> bool:
    """(1 - a).sqrt() * noise, and sqrt_one_minus_alphas_cumprod[t] * noise."""
    drawn = any(v.call == number if v.kind == "call" else v.name in names for v in product.items)
    return drawn and any(SHARE.search(render(reading, each)) for each in product.items)


def _not_a_tensor(reading: Training) -> Iterator[Match]:
    """pred = unet(...) of diffusers is an object: .sample is the tensor."""
    for number, call in enumerate(reading.calls):
        if len(call.targets) != 1 or len(call.args) < 2 or "return_dict" in call.keywords:
            continue
        made = objects.callee(reading, call) if "unet" in call.name.casefold() else []
        unet = made and all(
            each is not None and each.name.startswith("diffusers.UNet") for each in made
        )
        name = call.targets[0]
        if unet and any(
            (reading.calls[n].receiver == name and reading.calls[n].method in ("float", "to"))
            or (
                reading.calls[n].method == "mse_loss"
                and name in [v.name for v in reading.calls[n].args]
            )
            for n in reading.scope_calls(call.scope)
            if n > number
        ):
            yield Match(call.span, f"{name} is an output of diffusers: .sample is the tensor")


def _copied_input(reading: Training) -> Iterator[Match]:
    """mse_loss(pred, x_t) of pred = net(x_t, t): the noisy samples are no target."""
    for number, kind in loss_calls(reading):
        call = reading.calls[number]
        if kind != "mse" or len(call.args) < 2:
            continue
        for made, target in (call.args[:2], reversed(call.args[:2])):
            found = objects.last_definition(reading, made.name, call) if made.name else [made]
            whole = found[0] if len(found) == 1 else None
            if whole is not None and whole.kind == "other" and len(whole.items) == 1:
                whole = whole.items[0]  # unet(x_t, t).sample
            run = reading.call_of(whole)
            given = [v.name for v in run.args] if run is not None else []
            if target.kind != "name" or target.name not in given[:1] or len(given) < 2:
                continue
            text = expanded(reading, target, call, 3)
            if MIXED.search(text) and ("randn" in text or "noise" in text):
                message = f"{target.name} is what the network gets: it learns to copy it"
                yield Match(call.span, message, "fail", fix=f"Compare {made.name} with the noise.")
                break


RULES = (
    Rule(
        code="SCR322",
        slug="noise-of-another-kind",
        title="Noise is normal, and meets samples in their order",
        severity="warn",
        find=blended,
        why="Variational autoencoders and diffusion models are derived for normal noise of the "
        "stated deviation: with uniform noise, or the variance in its place, another model is "
        "trained.",
        fires=(
            "std * torch.rand_like(std); (1 - a).sqrt() * noise of torch.rand_like",
            "std = torch.exp(logvar)",
            "add_noise(noise, samples, t), or noise of torch.rand_like",
            "the output of a UNet of diffusers in a loss, without .sample",
            "mse_loss(pred, x_t) of pred = net(x_t, t)",
        ),
        fix="Use torch.randn_like, std = torch.exp(0.5 * logvar), add_noise(samples, noise, t).",
        sources=("torch-vae",),
        needs=("rand_like", "rand", "exp", "add_noise", "randn_like", "q_sample"),
    ),
)
