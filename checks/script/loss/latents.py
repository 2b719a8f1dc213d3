"""A rule on diffusion: what noise is added to."""

from __future__ import annotations

from collections.abc import Iterator

from doctor.checks.script import evaluate
from doctor.checks.script.rule import Match, Rule
from doctor.checks.script.training import Training
from doctor.facts.script import Call, Value
from doctor.facts.script_machine import ScriptMachine

KEEPS = {
    "to", "float", "half", "bfloat16", "detach", "cuda", "contiguous", "type", "clone", "squeeze",
    "reshape", "view", "unsqueeze", "repeat", "flatten",
}  # fmt: skip
"""Methods that leave the size of the numbers as it is."""


def latents_unscaled(reading: Training, machine: ScriptMachine) -> Iterator[Match]:
    """add_noise() of what a VAE of diffusers returned, without a factor on the way."""
    for number in reading.methods("add_noise"):
        call = reading.calls[number]
        value = call.args[0] if call.args else call.keywords.get("original_samples")
        if value is not None and _is_latent(reading, value, call, 6):
            yield Match(call.span, "the latents are not multiplied by vae.config.scaling_factor")
            return


def _is_latent(reading: Training, value: Value, call: Call, depth: int) -> bool:
    """Each thing that the value may be is vae.encode(x).latent_dist.sample(), cast or not."""
    found = evaluate.options(reading, value, call) if depth else []
    return bool(found) and all(_is_drawn(reading, each, depth) for each in found)


def _is_drawn(reading: Training, value: Value, depth: int) -> bool:
    if value.kind != "call":
        return False
    made = reading.calls[value.call]
    on = made.base or Value("name", name=made.receiver)
    if made.receiver_call >= 0:
        on = Value("call", call=made.receiver_call)
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
        fires=("add_noise() of vae.encode(x).latent_dist.sample() without a factor",),
        fix="latents = latents * vae.config.scaling_factor",
        sources=("diffusers-437",),
        needs=("latent_dist",),
    ),
)
