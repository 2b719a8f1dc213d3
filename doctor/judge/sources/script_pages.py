"""Pages and files on formulas, attention, tables, configurations and the start of trainings."""

from __future__ import annotations

from functools import partial

from doctor.judge.sources.source import Source, thread
from doctor.judge.sources.torch_pages import TORCH

READ = "2026-11-28"
_thread = partial(thread, checked=READ)


def _page(id: str, title: str, address: str, section: str = "") -> Source:
    return Source(id, title, section, address, checked=READ)


def _torch(id: str, title: str, file: str, section: str) -> Source:
    return _page(id, f"torch 2.13: {title}", f"{TORCH}/torch/{file}", section)


SCRIPT_PAGES = (
    _torch("torch-kl-div", "kl_div", "nn/functional.py", "kl_div"),
    _torch("torch-sdpa", "scaled_dot_product_attention", "nn/functional.py",
           "scaled_dot_product_attention"),
    _torch("torch-multihead", "MultiheadAttention", "nn/modules/activation.py",
           "MultiheadAttention"),
    _torch("torch-bce-logits", "BCEWithLogitsLoss", "nn/modules/loss.py", "BCEWithLogitsLoss"),
    _torch("torch-samplers", "samplers", "utils/data/sampler.py", "WeightedRandomSampler"),
    _torch("torch-cross-entropy", "CrossEntropyLoss", "nn/modules/loss.py", "CrossEntropyLoss"),
    _torch("torch-rnn-utils", "pack_padded_sequence", "nn/utils/rnn.py", "pack_padded_sequence"),
    _torch("torch-ctc", "CTCLoss", "nn/modules/loss.py", "CTCLoss"),
    _torch("torch-function", "autograd.Function", "autograd/function.py", "Function"),
    _page("wgan-gp", "Improved Training of Wasserstein GANs", "https://arxiv.org/abs/1704.00028",
          "4 Gradient penalty"),
    _torch("torch-init", "initialization", "nn/init.py", ""),
    _torch("torch-elastic-run", "torchrun", "distributed/run.py", ""),
    _page("torch-dcgan", "PyTorch tutorials: DCGAN",
          "https://docs.pytorch.org/tutorials/beginner/dcgan_faces_tutorial.html"),
    _page("torch-cuda-env", "PyTorch: CUDA environment variables",
          "https://docs.pytorch.org/docs/stable/cuda_environment_variables.html"),
    _page("torchvision-models", "Torchvision: models and pre-trained weights",
          "https://docs.pytorch.org/vision/stable/models.html"),
    _page("diffusers-training", "Diffusers: unconditional image generation",
          "https://huggingface.co/docs/diffusers/training/unconditional_training"),
    _page("simsiam", "Exploring Simple Siamese Representation Learning",
          "https://arxiv.org/abs/2011.10566", "Abstract"),
    _page("trl-grpo", "TRL: GRPO Trainer", "https://huggingface.co/docs/trl/grpo_trainer",
          "Using a custom reward function"),
    _page("trl-dpo", "TRL: DPO Trainer", "https://huggingface.co/docs/trl/dpo_trainer"),
    _page("transformers-token-classification", "Transformers: token classification",
          "https://huggingface.co/docs/transformers/tasks/token_classification"),
    _page("sklearn-pitfalls", "scikit-learn: common pitfalls and recommended practices",
          "https://scikit-learn.org/stable/common_pitfalls.html", "Data leakage"),
    _page("bash-quoting", "Bash: escape character",
          "https://www.gnu.org/software/bash/manual/html_node/Escape-Character.html"),
    _page("slurm-sbatch", "Slurm: sbatch", "https://slurm.schedmd.com/sbatch.html"),
    _page("lightning-slurm", "Lightning: SLURMEnvironment",
          "https://lightning.ai/docs/fabric/latest/api/generated/"
          "lightning.fabric.plugins.environments.slurm.SLURMEnvironment.html"),
    _page("deepspeed-config", "DeepSpeed: configuration JSON",
          "https://www.deepspeed.ai/docs/config-json/", "Batch Size Related Parameters"),
    _page("accelerate-config", "accelerate: plugins and their settings",
          "https://github.com/huggingface/accelerate/blob/main/src/accelerate/utils/dataclasses.py",
          "DeepSpeedPlugin"),
    _page("llama-factory-arguments", "LLaMA-Factory: how arguments are parsed",
          "https://github.com/hiyouga/LLaMA-Factory/blob/main/src/llamafactory/hparams/parser.py"),
    _thread("yaml/pyyaml", 173, "Numbers in scientific notation without dot are parsed as string"),
    _thread("axolotl-ai-cloud/axolotl", 1834, "Quantized models without an adapter", "pull"),
    _thread("divamgupta/image-segmentation-keras", 11, "Resize method for segmentation"),
    _thread("mlabonne/llm-course", 33, "pad_token == eos_token: not learning when to stop"),
    _thread("unslothai/unsloth", 1128, "Most labels of the dataset are -100"),
    _thread("TensorAuto/OpenTau", 498, "Make the split identical on every rank", "pull"),
)  # fmt: skip
