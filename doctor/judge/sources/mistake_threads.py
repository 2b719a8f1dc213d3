"""Threads about mistakes in training scripts that run without an error."""

from __future__ import annotations

from functools import partial

from doctor.judge.sources.source import Source, thread

READ = "2026-11-29"
_thread = partial(thread, checked=READ)

MISTAKE_THREADS = (
    Source("python-faq-lists", "Python: Programming FAQ", "How do I create a multidimensional "
                                                          "list?",
        "https://docs.python.org/3/faq/programming.html", checked=READ),
    _thread("pytorch/pytorch", 11929, "HDF5 files and several workers"),
    _thread("facebookresearch/SLIP", 31, "Features are gathered without gradients"),
    _thread("modelscope/FunASR", 3472, "no_sync and accumulation", "pull"),
    _thread("baidu-baige/LoongForge", 163, "The forward pass belongs into no_sync", "pull"),
    _thread("kkraoj/lfmc_from_sar", 5, "State goes on from fold to fold"),
    _thread("BMEII-AI/RadImageNet", 5, "Weights of an earlier fold"),
    _thread("ServiceNow/Fast-LLM", 253, "Labels are cloned before they are masked", "pull"),
    _thread("4kasha/CartPole_PPO", 1, "Advantages of the next step"),
    _thread("DLR-RM/stable-baselines3", 76, "The entropy term and the end of an episode"),
    _thread("StarsfieldAI/R1-V", 67, "Groups of different prompts"),
    _thread("XU-YIJIE/grpo-flat", 2, "Advantages by group"),
    _thread("pyg-team/pytorch_geometric", 7306, "A graph layer behind a pooling"),
    _thread("pyg-team/pytorch_geometric", 7931, "The first nodes of a NeighborLoader", "pull"),
    _thread("dcharatan/pixelsplat", 19, "LPIPS takes images from -1 to 1"),
    _thread("huggingface/diffusers", 8917, "Training of Stable Diffusion 3", "pull"),
    _thread("eriklindernoren/PyTorch-GAN", 5, "One number per sample in a gradient penalty"),
    _thread("pytorch/vision", 1952, "Labels of Faster R-CNN begin at 1"),
    _thread("d2l-ai/d2l-en", 2707, "A masked loss is averaged over padding", "pull"),
    _thread("lightly-ai/lightly", 1341, "kl_div takes the logarithm of probabilities", "pull"),
    _thread("uzh-rpg/deep_uncertainty_estimation", 5, "A variance as the scale of a normal"),
    _thread("alankbi/detecto", 37, "The validation loss is that of the training set"),
    _thread("pixelite1201/CameraHMR", 20, "BGR of OpenCV for a model that takes RGB"),
    _thread("stevebottos/owl-vit-object-detection", 14, "Centre boxes for generalized_box_iou"),
    _thread("huggingface/setfit", 137, "Warmup steps of one epoch"),
    _thread("meta-llama/llama-cookbook", 90, "A global rank as the number of a GPU"),
    _thread("KevinMusgrave/pytorch-metric-learning", 454, "A triplet loss of similarities"),
    _thread("librosa/librosa", 1057, "power_to_db takes what is squared already", "pull"),
    _thread("awslabs/slapo", 64, "torchrun passes no local_rank", "pull"),
    _thread("deepspeedai/DeepSpeed", 7665, "loss.backward() of an engine's loss", "pull"),
)  # fmt: skip
