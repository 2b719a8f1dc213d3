"""The GradScaler of an fp16 training, and the dtype of the weights."""

from __future__ import annotations

from doctor.facts.own_model import OwnModel, Scaler
from doctor.facts.training import HALVES
from doctor.job.job import Chosen, Target
from doctor.judge.check import Check, Owner, Verdict, fail, ok, skip, unknown, warn
from doctor.judge.combine import worst

PRETRAINED = "from_pretrained returns by default"


def scaler_fits_weights(own: OwnModel, chosen: Chosen, target: Target) -> Verdict:
    if chosen.precision != "fp16":
        return skip(f"{chosen.precision} needs no GradScaler")
    if not own.scalers:
        return unknown("no GradScaler was tried: " + (own.built.detail or "it was not recorded"))
    return worst(*(_verdict(scaler, own, target) for scaler in own.scalers))


def _verdict(scaler: Scaler, own: OwnModel, target: Target) -> Verdict:
    trained = scaler.of == "the model"
    source = f"{own.description}: trainable weights are" if trained else PRETRAINED
    weights = f"{source} {scaler.dtype}"
    if not scaler.ended.ok:
        summary = f"{weights}, and GradScaler raises {scaler.ended.detail}"
        return (fail if trained else warn)(f"{summary}; float32 weights required")
    if scaler.dtype in HALVES:
        summary = f"{weights}: a GradScaler unscales it on {target.kind}, and raises on CUDA"
        return warn(f"{summary} up to torch 2.15; float32 weights required")
    return ok(f"{weights}, and a GradScaler unscales their gradients")


SCALER = Check(
    code="NUM005",
    slug="scaler-fits-weights",
    title="The GradScaler can unscale the gradients of these weights",
    why="fp16 training multiplies the loss by a GradScaler, which then divides the gradients, but "
    "only fp32 ones. For bf16 weights it raises on every CUDA GPU up to torch 2.15, old or new; "
    "for fp16 weights it raises everywhere. transformers 5 loads in the directory's dtype by "
    "default, which is often half precision.",
    passes=(
        "a GradScaler on this device unscales a gradient of the trainable weights' dtype",
        "that dtype is not a half-precision one",
    ),
    warns=(
        "from_pretrained returns half-precision weights by default",
        "this device's scaler accepts half-precision weights that CUDA's rejects",
    ),
    fails=("the scaler raises for the dtype of the trainable weights",),
    fix="Load the weights with dtype=torch.float32 (torch_dtype before transformers 4.56) and use "
    "fp16 autocast. On a GPU with bf16, train with bf16=True and no GradScaler instead.",
    limits="that the scale settles: a few steps are too short for that.",
    owner=Owner.JOB,
    judge=scaler_fits_weights,
    sources=("titan-why", "ps-P6", "pytorch-127176"),
    after=("TOR001", "NUM001"),
)

CHECKS = (SCALER,)
