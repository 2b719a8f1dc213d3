"""Threads and pages about settings that decide between causes."""

from __future__ import annotations

from doctor.judge.sources.source import Source, thread

SETTING_THREADS = (
    thread("huggingface/open-r1", 663, "generation_config takes the template's end of a turn",
        checked="2026-12-01"),
    thread("vllm-project/vllm", 51665, "Tied by config.json, and a head of its own",
        checked="2026-12-01"),
    thread("QwenLM/Qwen3-VL-Embedding", 89, "Not tied by config.json, and no head",
        checked="2026-12-01"),
    thread("huggingface/peft", 345, "A checkpoint of the wrapped model, without its configuration",
        checked="2026-12-01"),
    thread("haotian-liu/LLaVA", 918, "LoRA at 2e-4 diverges; 1e-4 or lower", checked="2026-11-29"),
    thread("huggingface/alignment-handbook", 25, "DPO of all weights takes 5e-7",
        checked="2026-11-29"),
    thread("huggingface/trl", 1627, "DPO with beta 0 stays at 0.6931", checked="2026-11-29"),
    thread("keras-team/keras-hub", 114, "BERT's learning rates, batches and epochs",
        checked="2026-11-29"),
    thread("MIC-DKFZ/nnUNet", 197, "More epochs at a resumption raise the rate again",
        checked="2026-11-29"),
    thread("mosaicml/llm-foundry", 232, "Loss explodes early: rate, warm-up, weight decay",
        checked="2026-11-29"),
    thread("huggingface/transformers", 17089, "Out of memory in the evaluation alone",
        checked="2026-11-29"),
    thread("facebookresearch/deit", 81, "num_workers is for each GPU", checked="2026-11-29"),
    thread("NVIDIA-NeMo/Speech", 1204, "Few loader workers: the GPU idles", checked="2026-11-29"),
    thread("pytorch/pytorch", 77955, "NaN of half precision on GTX 16xx", checked="2026-11-29"),
    Source("mmdetection-rate", "MMDetection: train predefined models",
        "The default learning rate is for a batch of 16",
        "https://github.com/open-mmlab/mmdetection/blob/dev-3.x/docs/en/user_guides/train.md",
        checked="2026-11-29"),
    Source("flan-t5-bf16", "FLAN-T5: trained in bfloat16, worse in float16", "FP16",
        "https://huggingface.co/google/flan-t5-xxl/discussions/5/files", checked="2026-11-29"),
)  # fmt: skip
