"""Settings of the training loop: checkpointing, clipping, warm-up, determinism."""

from __future__ import annotations

from doctor._util.records import Unknown
from doctor.prescribe.citations import CITED, RESTS_ON
from doctor.prescribe.context import PrescriptionContext, Setting


def checkpointing(context: PrescriptionContext) -> Setting | None:
    """Non-reentrant checkpointing, if the job asks for it or the model does not fit."""
    requested = bool(context.facts.job.checkpointing)
    if not requested and not context.is_problem("gradient checkpointing"):
        return None
    call = "model.gradient_checkpointing_enable"
    return Setting(
        name="gradient checkpointing",
        value="on, non-reentrant",
        why="the non-reentrant variant works before and after LoRA in every version",
        code=RESTS_ON["gradient checkpointing" + ", requested" * requested],
        sources=CITED["gradient checkpointing"],
        prepare=(f'{call}(gradient_checkpointing_kwargs={{"use_reentrant": False}})',),
        trainer={
            "gradient_checkpointing": True,
            "gradient_checkpointing_kwargs": {"use_reentrant": False},
        },
    )


CLIP = 1.0
"""The upper end of what P13 calls typical for transformers."""

WARM_UP = 100
"""Steps: our own number; P12 asks for 1 to 10 % of the run's, which is not known here."""


def clipping(context: PrescriptionContext) -> Setting | None:
    """Clipping of the gradient norm."""
    chosen = context.facts.chosen
    scaled = not isinstance(chosen, Unknown) and chosen.precision == "fp16"
    scaled = scaled and context.mode != "diagnostic"
    return Setting(
        name="gradient clipping",
        value=f"norm {CLIP:g}, in every step" + ", after scaler.unscale_(optimizer)" * scaled,
        why="one bad batch cannot throw the weights off; log the norm that it returns",
        code=RESTS_ON["gradient clipping"],
        sources=CITED["gradient clipping" + " fp16" * scaled],
        trainer={"max_grad_norm": CLIP},
    )


def warm_up(context: PrescriptionContext) -> Setting | None:
    """Warm-up of the learning rate."""
    return Setting(
        name="warm-up",
        value=f"{WARM_UP} steps; 1 to 10 % of the run's are usual",
        why="early updates are too large before the optimizer's second moments have settled",
        code=RESTS_ON["warm-up"],
        sources=CITED["warm-up"],
        trainer={"warmup_steps": WARM_UP},
    )


SEEDED = (
    "import random",
    "import numpy",
    "random.seed(0)",
    "numpy.random.seed(0)",
    "torch.manual_seed(0)",
    "torch.use_deterministic_algorithms(True)",
    "torch.backends.cudnn.benchmark = False",
    "generator = torch.Generator().manual_seed(0)",
    "def seed_worker(worker):",
    "    random.seed(torch.initial_seed())",
    "    numpy.random.seed(torch.initial_seed() % 2**32)",
    "# DataLoader(..., generator=generator, worker_init_fn=seed_worker)",
)
"""Every generator: a loader's workers have numpy's and random's state of their own."""


def deterministic(context: PrescriptionContext) -> Setting | None:
    """Seeds and repeatable kernels, if requested."""
    if not context.deterministic:
        return None
    return Setting(
        name="determinism",
        value="every generator seeded, deterministic algorithms",
        why="requested; slower, it disables cuDNN attention, and operations without such a form "
        "raise",
        code=RESTS_ON["determinism"],
        sources=CITED["determinism"],
        python=SEEDED,
        env=("CUBLAS_WORKSPACE_CONFIG=:4096:8",)
        * (context.on_cuda and not context.torch_since(2, 10)),
        trainer={"seed": 0, "data_seed": 0},
        beside_trainer=True,
    )
