"""Libraries beside torch, and articles: pages and files."""

from __future__ import annotations

from doctor.judge.sources.source import Source, page

HUGGING_FACE = "https://github.com/huggingface"


LIBRARY_PAGES = (
    Source(
        "lightning-tf32",
        "Lightning reads torch.get_float32_matmul_precision() on every GPU with TF32",
        "src/lightning/fabric/accelerators/cuda.py",
        "https://github.com/Lightning-AI/pytorch-lightning/blob/master/src/lightning/fabric/accelerators/cuda.py",
        checked="2026-11-22",
    ),
    Source(
        "rocm-precision",
        "ROCm: data types and precision support",
        "",
        "https://rocm.docs.amd.com/en/latest/reference/precision-support.html",
        checked="2026-11-22",
    ),
    Source(
        "nvidia-tf32-override",
        "NVIDIA TF32: NVIDIA_TF32_OVERRIDE",
        "",
        "https://deeprec.readthedocs.io/en/latest/NVIDIA-TF32.html",
    ),
    Source(
        "cublas-reproducibility",
        "cuBLAS Library",
        "2.1.4 Results Reproducibility",
        "https://docs.nvidia.com/cuda/pdf/CUBLAS_Library.pdf",
        checked="2026-11-21",
    ),
    Source(
        "nccl-troubleshooting",
        "NCCL: troubleshooting GPU-to-GPU communication and ACS",
        "",
        "https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html",
        checked="2026-11-21",
    ),
    Source(
        "nccl-env",
        "NCCL: environment variables",
        "NCCL_P2P_LEVEL: LOC never uses peer-to-peer",
        "https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html",
        checked="2026-11-22",
    ),
    Source(
        "size-mismatch",
        "from_pretrained fails on tensors of other sizes than the configuration's",
        "",
        "https://huggingface.co/mistralai/Mistral-Nemo-Instruct-2407/discussions/35",
        checked="2026-11-23",
    ),
    Source(
        "picklescan",
        "picklescan: globals of pickles that run code",
        "_unsafe_globals of src/picklescan/scanner.py",
        "https://github.com/mmaitre314/picklescan/blob/05c3514d381c1d2233d697e7e77ccee368d2a834/src/picklescan/scanner.py",
        checked="2026-11-22",
    ),
    Source(
        "safetensors-format",
        "safetensors",
        "Format",
        "https://github.com/huggingface/safetensors#format",
    ),
    Source(
        "low-precision-matrix",
        "NVIDIA Transformer Engine: support matrix",
        "",
        "https://nvidia.github.io/TransformerEngine/support_matrix.html",
    ),
    Source(
        "activation-recomputation",
        "Korthikanti et al.: Reducing Activation Recomputation in Large Transformer Models",
        "4",
        "https://arxiv.org/abs/2205.05198",
        checked="2026-11-21",
    ),
    Source(
        "bnb-optimizers",
        "bitsandbytes: optimizers of 8 bits, and Lion's one state",
        "",
        "https://huggingface.co/docs/bitsandbytes/v0.50.0/reference/optim/optim_overview",
        checked="2026-11-21",
    ),
    Source(
        "optimi",
        "torch-optimi: training in pure bf16 with Kahan summation",
        "",
        "https://github.com/warner-benjamin/optimi",
    ),
    Source(
        "utf8-debugging",
        "Python: Unicode HOWTO",
        "Reading and Writing Unicode Data",
        "https://docs.python.org/3/howto/unicode.html",
        checked="2026-11-23",
    ),
    Source(
        "deepspeed-universal",
        "DeepSpeed: Universal Checkpoint examples",
        "",
        "https://github.com/deepspeedai/Megatron-DeepSpeed/blob/main/examples_deepspeed/"
        "universal_checkpointing/README.md",
        checked="2026-11-23",
    ),
    Source(
        "python-hash",
        "Python: Data model",
        "object.__hash__",
        "https://docs.python.org/3/reference/datamodel.html#object.__hash__",
        checked="2026-11-24",
    ),
    Source(
        "sklearn-time-series",
        "scikit-learn: Cross-validation",
        "Cross validation of time series data",
        "https://scikit-learn.org/stable/modules/cross_validation.html",
        checked="2026-11-24",
    ),
    Source(
        "distillation",
        "Hinton, Vinyals and Dean: Distilling the Knowledge in a Neural Network",
        "2",
        "https://arxiv.org/abs/1503.02531",
        checked="2026-11-24",
    ),
    Source(
        "peft-lora",
        "PEFT: LoRA",
        "",
        "https://huggingface.co/docs/peft/v0.8.0/developer_guides/lora",
        checked="2026-11-23",
    ),
    Source(
        "deepspeed-fp16",
        "DeepSpeed Configuration JSON",
        "FP16 training options",
        "https://www.deepspeed.ai/docs/config-json/",
        checked="2026-11-22",
    ),
    Source(
        "python-grammar",
        "The Python Language Reference: Full Grammar specification",
        "",
        "https://docs.python.org/3/reference/grammar.html",
        checked="2026-11-22",
    ),
    Source(
        "ruff-suppression",
        "Ruff: The Ruff Linter",
        "Error suppression",
        "https://docs.astral.sh/ruff/linter/",
        checked="2026-11-22",
    ),
    page(
        "transformers-causal-loss",
        "transformers: ForCausalLMLoss",
        "",
        f"{HUGGING_FACE}/transformers/blob/v5.23.0/src/transformers/loss/loss_utils.py",
    ),
    page(
        "transformers-training-args",
        "transformers: TrainingArguments",
        "",
        f"{HUGGING_FACE}/transformers/blob/v5.23.0/src/transformers/training_args.py",
    ),
    page(
        "transformers-trainer",
        "transformers: Trainer.training_step",
        "",
        f"{HUGGING_FACE}/transformers/blob/v5.23.0/src/transformers/trainer.py",
    ),
    page(
        "accelerate-backward",
        "accelerate: Accelerator.backward",
        "",
        f"{HUGGING_FACE}/accelerate/blob/v1.15.0/src/accelerate/accelerator.py",
    ),
    page(
        "torchfix-rules",
        "torchfix: deprecated and removed symbols",
        "",
        "https://github.com/pytorch-labs/torchfix/blob/0ee382c8bc4d9388fe08d42c8963fba53b73273b/torchfix/deprecated_symbols.yaml",
    ),
)
