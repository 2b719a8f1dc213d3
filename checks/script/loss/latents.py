"""A rule on diffusion: what noise is added to."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.checks.script import evaluate, objects
from doctor.checks.script.rendering import render
from doctor.checks.script.rule import Match, Rule
from doctor.checks.script.training import Training
from doctor.facts.script import Call, Value

KEEPS = {
    "to", "float", "half", "bfloat16", "detach", "cuda", "contiguous", "type", "clone", "squeeze",
    "reshape", "view", "unsqueeze", "repeat", "flatten",
}  # fmt: skip
"""Methods that leave the size of the numbers as it is."""


def latents_unscaled(reading: Training) -> Iterator[Match]:
    """add_noise() of what a VAE of diffusers returned, without a factor on the way."""
    yield from _unshifted(reading)
    for call in reading.named("add_noise"):
        value = call.given("original_samples", 0)
        if value is not None and _is_latent(reading, value, call, 6):
            yield Match(call.span, "the latents are not multiplied by vae.config.scaling_factor")
            return


SHIFTED = re.compile(r"stable-diffusion-3|flux|sd3|lumina-image|sana", re.IGNORECASE)
"""Models whose VAE has a shift_factor."""


def _unshifted(reading: Training) -> Iterator[Match]:
    """latents * vae.config.scaling_factor for Stable Diffusion 3 or FLUX."""
    if reading.mentions("shift_factor", "latents_mean", "shift"):
        return
    given = [str(v.literal) for v, _, _ in reading.expressions if isinstance(v.literal, str)]
    classes = {"SD3Transformer2DModel", "FluxTransformer2DModel"} & reading.script.identifiers
    if not classes and not any("/" in text and SHIFTED.search(text) for text in given):
        return
    for value, span, _ in reading.expressions:
        text = render(reading, value)
        if re.fullmatch(r"\(.*\*[\w.]*scaling_factor\)", text):
            message = "the latents of this model are shifted, too: minus vae.config.shift_factor"
            yield Match(span, message)
            return


def _is_latent(reading: Training, value: Value, call: Call, depth: int) -> bool:
    """Each thing that the value may be is vae.encode(x).latent_dist.sample(), cast or not."""
    found = evaluate.options(reading, value, call) if depth else []
    return bool(found) and all(_is_drawn(reading, each, depth) for each in found)


def _is_drawn(reading: Training, value: Value, depth: int) -> bool:
    if value.kind != "call":
        return False
    made = reading.calls[value.call]
    on = objects.receiver_of(made)
    if made.method in KEEPS:
        return _is_latent(reading, on, made, depth - 1)
    return made.method in ("sample", "mode") and any(
        each.name.endswith("latent_dist") for each in evaluate.options(reading, on, made)
    )


RULES = (
    Rule(
        code="SCR335",
        slug="latents-not-scaled",
        title="Latents are scaled before noise is added",
        severity="warn",
        find=latents_unscaled,
        why="Pretrained networks of latent diffusion know latents times vae.config.scaling_factor, "
        "0.18215 for Stable Diffusion. Unscaled ones are 5.5 times as large: the noise hardly "
        "shows, and images sampled later are wrong.",
        fires=(
            "add_noise() of vae.encode(x).latent_dist.sample() without a factor",
            "latents of Stable Diffusion 3 or FLUX without shift_factor",
        ),
        fix="latents = latents * vae.config.scaling_factor; of models with a shift_factor "
        "(latents - vae.config.shift_factor) * vae.config.scaling_factor.",
        sources=("diffusers-437", "diffusers-8917"),
        needs=("latent_dist",),
    ),
)
