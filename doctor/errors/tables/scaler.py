"""Losses and loss scales that logs report."""

from __future__ import annotations

from doctor.errors.cause import Cause, Wording

ROWS = (
    Cause(id="latents-not-finite", sources=("sliders-30",),
        errors=("RuntimeError",),
        messages=("NaN detected in latents|tensor with all NaNs was produced",
            r"\b[Ll]atents?\b[^\n]{0,60}\bnan\b"),
        examples=("RuntimeError: NaN detected in latents: /data/img/a.png",
            "modules.devices.NansException: A tensor with all NaNs was produced in Unet.",
            "[encode] 187 / 240 latents contain nan"),
        why="The VAE or the UNet overflowed in fp16, or a picture is empty or damaged.",
        fix="Keep the VAE in fp32 (--no_half_vae, upcast_vae; for SDXL "
            "madebyollin/sdxl-vae-fp16-fix), or compute in bf16. If one file alone is named "
            "each time, open and replace it; if a LoRA gives it, the LoRA's weights are NaN: "
            "train it again with a lower rate. Encode latents that are cached again. NaN before "
            "the first step does not come from the learning rate.",
        explains=("loss-nonfinite", "loss-zero-gradnorm-nan", "gradient-nonfinite")),
    Cause(id="scaler-collapse",
        messages=("Current loss scale already at minimum",
            "Minimum loss scale reached",
            r"(?:setting|reducing) loss scale to:? (?:0\.\d{1,30}|\d[\d.]{0,20}e-\d{1,3})",
            r"ttempt(?:ed|ing) loss scale: 0(?:\.0{1,6})?\b|reducing loss scale to:? 1(?:\.0)?$",
            r"(?:OVERFLOW!|Overflow detected\.).{0,80}ttempt(?:ed|ing) loss scale: "
            r"1(?:\.0{1,6})?, (?:reducing to|but hysteresis) 1\b"),
        examples=("Exception: Current loss scale already at minimum - cannot decrease scale "
            "anymore. Exiting run.",
            "FloatingPointError: Minimum loss scale reached (0.0001). Your loss is probably "
            "exploding.",
            "| WARNING: overflow detected, setting loss scale to: 0.25",
            "Gradient overflow.  Skipping step, loss scaler 0 reducing loss scale to 1.5e-05",
            "[deepspeed] OVERFLOW! Rank 0 Skipping step. Attempted loss scale: 0, reducing to 0",
            "[deepscale] OVERFLOW! Rank 0 Skipping step. Attempted loss scale: 1, reducing to 1"),
        why="A loss scale is halved at each overflow and doubled after a while without one. Up "
            "to sixteen halvings at the start are its calibration; one at its minimum, or below "
            "1, means that gradients are NaN or infinite at any scale.",
        fix="Train in bf16 where the GPU supports it. Otherwise lower the learning rate, clip "
            "gradients, and look for the first NaN in the loss or the data.",
        title="The loss scale does not collapse",
        sources=("chinese-llama-alpaca-534", "apex-318"), next_check="SMK002", code="LOG070"),
    Cause(id="stopped-at-nan",
        messages=("Loss became infinite or NaN at iteration",
            "[Ll]oss is (?:nan|inf|NaN), stopping training",
            "[Ff]ound (?:NaN|nan|Inf|inf) in (?:the )?(?:forward loss|loss|grad)",
            "loss returned in `training_step` is (?:nan|inf|NaN)",
            "(?:halted|stopp(?:ed|ing)|abort(?:ed|ing)|terminat(?:ed|ing)) due to NaN",
            "ERROR: loss (?:is )?nan|NaN (?:loss|gradient) detected",
            "total norm of order .{1,12}for gradients from .{1,40}is non-finite"),
        examples=("FloatingPointError: Loss became infinite or NaN at iteration=2137!",
            "Loss is nan, stopping training",
            "found NaN in grad norm at iteration 7",
            "ValueError: The loss returned in `training_step` is nan.",
            "RuntimeError: NaN loss detected at step 12",
            "ValueError: Training halted due to NaN/Inf loss values",
            "RuntimeError: The total norm of order 2.0 for gradients from `parameters` is "
            "non-finite, so it cannot be clipped."),
        wordings=(
            Wording("[Ff]ound (?:NaN|nan|Inf|inf) in local (?:forward loss|loss|grad)",
                "AssertionError: Rank 11: found NaN in local grad norm in backward pass before "
                "data-parallel communication collective. Device: 3, node: n1",
                "The gradients of the named ranks were NaN or infinite before anything was "
                "exchanged: their own micro-batches, or their GPUs, are the reason.",
                "Look at the batch of that step on the named ranks first: a sample without a "
                "token of loss (an empty answer, a prompt as long as the limit) is a division "
                "by zero; drop such samples, or divide by max(tokens, 1). If it comes back with "
                "other data on the same rank, examine that GPU (doctor run on its node; dmesg "
                "for Xids) and leave the node out. If loss or gradient norm rose before, lower "
                "the learning rate."),),
        why="The framework compares the loss or the gradients with infinity and stops: they "
            "were NaN or infinite at the step that is named. The reason lies in the steps "
            "before.",
        fix="Lower the learning rate or lengthen the warm-up, clip the gradient norm, use bf16 "
            "with fp32 weights, and look at the batch of that step: labels outside the range, "
            "empty targets, a division by zero.",
        title="No check for NaN ended the training", sources=("detectron2-550",),
        next_check="SMK002", yields_to=("xid-hardware",), code="LOG071"),
)  # fmt: skip
