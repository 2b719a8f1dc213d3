"""What a training script does not mention: reported once per run, as a note."""

from __future__ import annotations

from collections.abc import Iterator

from doctor.checks.script.rule import Find, Match, Rule
from doctor.checks.script.training import Training
from doctor.facts.script import Span

WHOLE_FILE = Span(1, 1)


def _absent(message: str, *words: str, own_loop: bool = False) -> Find:
    """A rule that no identifier of the file contains one of the words."""

    def find(reading: Training) -> Iterator[Match]:
        if own_loop and not any(
            reading.calls[n].method == "backward" and reading.calls[n].loops
            for n in reading.backwards
        ):
            return
        if not own_loop and not reading.backwards and not reading.trainers:
            return
        if not reading.mentions(*words):
            yield Match(WHOLE_FILE, message)

    return find


ROWS = (
    (
        "SCR171",
        "tf32-not-set",
        "The script sets TF32",
        _absent("nothing sets TF32", "tf32", "float32_matmul_precision", "fp32_precision"),
        "fp32 matrix products use no tensor cores unless TF32 is on; it is off by default.",
        "nothing in the script sets TF32",
        'Call torch.set_float32_matmul_precision("high") once.',
        "ps-P2",
    ),
    (
        "SCR172",
        "seed-not-set",
        "The script sets a seed",
        _absent("nothing sets a seed", "seed"),
        "Without a seed a fault of one run cannot be repeated in the next.",
        "nothing in the script sets a seed",
        "Seed torch, numpy and random, for example with transformers.set_seed(seed).",
        "ps-P19",
    ),
    (
        "SCR173",
        "finiteness-not-tested",
        "The loop tests the loss for NaN",
        _absent(
            "nothing tests the loss for NaN",
            "isfinite",
            "isnan",
            "isinf",
            "scaler",
            "nan",
            own_loop=True,
        ),
        "One step with NaN gradients ruins the weights for good.",
        "a loop with backward() and no test for NaN and no GradScaler",
        "Skip the step unless torch.isfinite(loss), and count what was skipped.",
        "ps-P11",
    ),
    (
        "SCR174",
        "warm-up-not-set",
        "The learning rate warms up",
        _absent(
            "nothing warms the learning rate up",
            "warmup",
            "warm_up",
            "onecycle",
            "linearlr",
            own_loop=True,
        ),
        "A full learning rate at the first step is a common cause of early divergence.",
        "a loop without warm-up",
        "Warm up over 1 to 10 % of the steps.",
        "ps-P12",
    ),
    (
        "SCR175",
        "clipping-not-set",
        "Gradients are clipped",
        _absent(
            "nothing clips gradients",
            "clip_grad",
            "clip_norm",
            "max_norm",
            "clipping",
            "gradient_clip",
            own_loop=True,
        ),
        "Clipping to a norm of 1 keeps one bad batch from throwing the weights far away.",
        "a loop without clipping",
        "Call torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0) before each step.",
        "ps-P13",
    ),
    (
        "SCR176",
        "gradient-norm-not-logged",
        "The gradient norm is logged",
        _absent(
            "nothing logs the gradient norm",
            "grad_norm",
            "total_norm",
            "gradnorm",
            "gradient_norm",
            own_loop=True,
        ),
        "The norm rises several steps before the loss does.",
        "a loop that never names a gradient norm",
        "Log what clip_grad_norm_ returns.",
        "ps-P18",
    ),
)

RULES = tuple(
    Rule(
        code=code,
        slug=slug,
        title=title,
        severity="note",
        find=find,
        training=True,
        why=f"{why} Reported for the first script of a run only.",
        fires=(fires,),
        fix=fix,
        sources=(source,),
        limits="that a module that the script imports does it.",
        once=True,
    )
    for code, slug, title, find, why, fires, fix, source in ROWS
)
