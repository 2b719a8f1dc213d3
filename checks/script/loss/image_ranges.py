"""A rule on the range of images that pretrained networks and generators expect."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.checks.script import evaluate, objects
from doctor.checks.script.loss.losses import loss_calls
from doctor.checks.script.rendering import expanded, statements
from doctor.checks.script.rule import Match, Rule
from doctor.checks.script.training import Training
from doctor.facts.script import Call, Value

TO_UNIT = (
    "ToTensor", "to_tensor", "ToDtype", "to_image", "ConvertImageDtype", "convert_image_dtype",
)  # fmt: skip
CENTERED = re.compile(
    r"\*2(?:\.0)?\)-1|2(?:\.0)?\*[\w.()\[\]]+\)-1|-0\.5\)|127\.5|\*2\.?0?-1|sub_\(0\.5|\.sub\("
)
UNIT = re.compile(r"sigmoid\(|clamp\((?:min=)?0(?:\.0)?,(?:max=)?1(?:\.0)?\)|/255")


def ranges(reading: Training) -> Iterator[Match]:
    unit = reading.cached(from_zero_to_one)
    yield from _perceptual(reading, unit)
    yield from _centered_targets(reading)
    if unit:
        yield from _encoded(reading)


def from_zero_to_one(reading: Training) -> bool:
    """Images come from ToTensor(), and nothing in the file centers them."""
    scaled = any(name in reading.by_method for name in TO_UNIT)
    if not scaled or reading.mentions(
        "normalize", "image_processor", "vaeimageprocessor", "preprocess"
    ):
        return False
    texts = [text for text, _, _ in reading.cached(statements)]
    texts += [
        expanded(reading, value, call, 0)
        for call in reading.calls
        for value in call.values
        if value.kind in ("other", "call")
    ]
    return not any(CENTERED.search(text) for text in texts)


def _perceptual(reading: Training, unit: bool) -> Iterator[Match]:
    """lpips.LPIPS()(output, target) of images from 0 to 1, without normalize=True."""
    for call in reading.calls if reading.mentions("lpips", "perceptualimagepatch") else ():
        made = objects.known_callees(reading, call)
        kinds = {m.method for m in made}
        if len(kinds) != 1 or not kinds <= {"LPIPS", "LearnedPerceptualImagePatchSimilarity"}:
            continue
        given = [c.keywords["normalize"] for c in (call, *made) if "normalize" in c.keywords]
        if given or len(call.args) < 2 or any("piq" in m.name for m in made):
            continue
        texts = [expanded(reading, v, call, 3) for v in call.args[:2]]
        if any(CENTERED.search(t) for t in texts):
            continue
        if unit or all(UNIT.search(t) for t in texts):
            message = "LPIPS takes images from -1 to 1, and gets them from 0 to 1"
            yield Match(call.span, message)
            return


def _centered_targets(reading: Training) -> Iterator[Match]:
    """binary_cross_entropy(reconstruction, x) of images that Normalize(0.5, 0.5) centers."""
    made = [c for c in reading.named("Compose") if c.name.startswith("torchvision.")]
    centered = [c for c in made if any(_centers(reading, m) for v in c.args
                                       for m in reading.inside(v))]  # fmt: skip
    if not made or len(centered) < len(made):
        return
    for number, kind in loss_calls(reading):
        call = reading.calls[number]
        if kind not in ("bce", "bce_logits") or len(call.args) < 2 or not call.loops:
            continue
        images = {loop.targets[-2] for n in call.loops
                  if len((loop := reading.loops[n]).targets) > 1}  # fmt: skip
        text = expanded(reading, call.args[1], call, 3)
        moves = r"\.(?:to|cuda|float|view|flatten|reshape)\([^()]*(?:\([^()]*\)[^()]*)*\)"
        target = re.fullmatch(rf"(\w+)(?:{moves})*", text)
        if target and target[1] in images:
            message = f"{target[1]} is normalized to -1 to 1: this loss takes targets from 0 to 1"
            yield Match(call.span, message, "fail", fix="Omit Normalize, or compare by mse_loss.")


def _centers(reading: Training, call: Call) -> bool:
    mean = call.given("mean", 0) if call.method == "Normalize" else None
    numbers = [v.literal for v in (mean.items or (mean,))] if mean is not None else []
    return bool(numbers) and all(isinstance(n, float) and 0.1 < n < 0.9 for n in numbers)


def _encoded(reading: Training) -> Iterator[Match]:
    """vae.encode(image) of an AutoencoderKL of diffusers."""
    for call in reading.named("encode"):
        if not call.receiver or not call.args:
            continue
        owner = Value("name", name=call.receiver)
        made = evaluate.options(reading, owner, call)
        names = [reading.calls[v.call].name for v in made if v.kind == "call"]
        if names and all("Autoencoder" in n and "diffusers" in n for n in names):
            yield Match(call.span, "the VAE takes images from -1 to 1, and gets them from 0 to 1")
            return


RULES = (
    Rule(
        code="SCR409",
        slug="range-of-images",
        title="Images have the range that networks and losses were made for",
        severity="warn",
        find=ranges,
        why="LPIPS and the VAEs of latent diffusion take images from -1 to 1. ToTensor() "
        "alone makes "
        "0 to 1, half of the range: distances and latents are those of grey images.",
        fires=(
            "lpips.LPIPS()(x, y) of images from ToTensor() or sigmoid, without normalize=True",
            "vae.encode() of images from ToTensor()",
            "binary_cross_entropy(reconstruction, x) of images that Normalize centers (a failure)",
        ),
        fix="transforms.Normalize([0.5], [0.5]) behind ToTensor(), or loss(x, y, normalize=True).",
        sources=("pixelsplat-19",),
        needs=("LPIPS", "LearnedPerceptualImagePatchSimilarity", "encode", "Normalize"),
    ),
)
