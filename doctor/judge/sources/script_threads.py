"""Threads and pages about mistakes in training scripts."""

from __future__ import annotations

from doctor.judge.sources.source import Source

READ = "2026-11-23"


def _thread(repository: str, number: int, title: str, kind: str = "issues") -> Source:
    address = f"https://github.com/{repository}/{kind}/{number}"
    name = repository.split("/")[1].lower().replace("_", "-")
    return Source(f"{name}-{number}", title, f"#{number}", address, checked=READ)


def _page(id: str, title: str, address: str) -> Source:
    return Source(id, title, "", address, checked=READ)


SCRIPT_THREADS = (
    _page("peft-new-tokens", "PEFT: train new tokens with LoRA",
          "https://huggingface.co/docs/peft/developer_guides/lora"),
    _page("torch-iterable-dataset", "PyTorch: torch.utils.data, iterable-style datasets",
          "https://docs.pytorch.org/docs/stable/data.html"),
    _page("transformers-tokenizer", "Transformers: tokenizers",
          "https://huggingface.co/docs/transformers/main_classes/tokenizer"),
    _page("accelerate-accumulation", "Accelerate: gradient accumulation",
          "https://huggingface.co/docs/accelerate/usage_guides/gradient_accumulation"),
    _page("python-listdir", "Python: os.listdir",
          "https://docs.python.org/3/library/os.html#os.listdir"),
    _page("lightning-hardware-agnostic", "Lightning: hardware agnostic training",
          "https://lightning.ai/docs/pytorch/stable/accelerators/accelerator_prepare"),
    _page("argparse-type", "Python: argparse, type",
          "https://docs.python.org/3/library/argparse.html#type"),
    _page("torch-vae", "PyTorch examples: variational autoencoder",
          "https://github.com/pytorch/examples/blob/main/vae/main.py"),
    _page("gymnasium-interface", "Gymnasium: Env.step and Env.reset",
          "https://gymnasium.farama.org/api/env/"),
    _page("torch-dqn", "PyTorch tutorials: Reinforcement Learning (DQN)",
          "https://docs.pytorch.org/tutorials/intermediate/reinforcement_q_learning.html"),
    _page("torch-ppo", "PyTorch tutorials: Reinforcement Learning (PPO)",
          "https://docs.pytorch.org/tutorials/intermediate/reinforcement_ppo.html"),
    _thread("mit-ll-responsible-ai/equine", 206, "Results of to(device) are discarded"),
    _thread("huggingface/diffusers", 437, "Explanation of the 0.18215 factor"),
    _thread("KrishnaDN/x-vector-pytorch", 8, "The training data are used for validation"),
    _thread("HuCaoFighting/Swin-Unet", 135, "The validation loader reads the training data"),
    _thread("ratschlab/aestetik", 8, "The training loader reads the whole data"),
    _thread("torchgeo/torchgeo", 257, "Transforms of a split are those of its dataset", "pull"),
    _thread("campusx-official/100-days-of-machine-learning", 75, "Fitted on test data"),
    _thread("Niketkumardheeryan/ML-CaPsule", 1574, "A scaler is fitted before the split"),
    _thread("scikit-learn-contrib/DESlib", 126, "A second split of all data"),
    _thread(
        "machine-perception-robotics-group/MPRGDeepLearningLectureNotebook", 4,
        "Correct answers are divided by the number of batches",
    ),
    _thread("mlflow/mlflow-torchserve", 56, "The same, in an accuracy of 12 to 13", "pull"),
    _thread("namiyousef/argument-mining", 45, "F1 scores of batches are averaged"),
    _thread("thunlp/Few-NERD", 2, "The F1 score depends on the batch size"),
    _thread("emadeldeen24/AttnSleep", 13, "Prediction and truth are exchanged in f1_score"),
    _thread("sorenbouma/keras-oneshot", 13, "The model is never saved", "pull"),
    _thread("ebagdasa/backdoors101", 25, "An accuracy is compared as a loss"),
    _thread("royerlab/cytoself", 29, "Early stopping does not count consecutive epochs"),
    _thread("modelscope/ms-swift", 5326, "The patience counter is not reset", "pull"),
    _thread("OlgaChernytska/2D-Hand-Pose-Estimation-RGB", 2, "The loss is of the last batch"),
    _thread("L1aoXingyu/pytorch-beginner", 40, "The loss is of all epochs", "pull"),
    _thread("pytorch/pytorch", 148259, "clip_grad_norm_ receives an exhausted generator"),
    _thread("PixArt-alpha/PixArt-alpha", 160, "Parameters to clip are an iterator", "pull"),
    _thread("Lornatang/ESRGAN-PyTorch", 39, "Both schedulers hold the generator's optimizer"),
    _thread("Lornatang/SRGAN-PyTorch", 85, "The discriminator's optimizer is not used"),
    _thread("Lornatang/SRGAN-PyTorch", 92, "The scheduler is not saved"),
    _thread("line/open-universe", 5, "Parameters of one discriminator twice"),
    _thread("pytorch/tutorials", 1430, "The optimizer of another model"),
    _thread("pytorch/examples", 64, "The rate is set in a copy of the groups"),
    _thread("pytorch/examples", 1142, "torch.cuda.set_device in the DDP examples", "pull"),
    _thread("yaoppeng/U-Net_v2", 10, "One layer in a list, four times"),
    _thread("zalandoresearch/pytorch-vq-vae", 2, "Residual blocks share their weights"),
    _thread("linkedin/Liger-Kernel", 269, "One ResBlock for all layers of a head", "pull"),
    _thread("jmclong/random-fourier-features-pytorch", 2, "A random tensor stays on the CPU"),
    _thread("lyuwenyu/RT-DETR", 677, "A positional embedding is no buffer"),
    _thread("Goingqs/PyramidBox", 7, "No loss.backward() in the training"),
    _thread("kuanghuei/SCAN", 19, "The epoch at which a run resumes", "pull"),
    _thread("catalyst-team/catalyst", 764, "Resuming repeats the last epoch"),
    _thread("huggingface/transformers", 12685, "load_best_model_at_end without evaluation"),
    _thread("huggingface/transformers", 31142, "The worst model was kept", "pull"),
    _thread("huggingface/transformers", 23325, "resume_from_checkpoint of TrainingArguments"),
    _thread("huggingface/transformers", 23530, "The collator masks the end token"),
    _thread("huggingface/transformers", 22794, "The model does not learn the end token"),

    _thread("huggingface/transformers", 22634, "Decoding of labels with -100"),
    _thread("huggingface/transformers", 26098, "Adapters do not require gradients"),
    _thread("huggingface/peft", 282, "No trainable parameters after from_pretrained"),
    _thread("ymcui/Chinese-LLaMA-Alpaca-2", 577, "is_trainable=True to go on training", "pull"),
    _thread("OpenRLHF/OpenRLHF", 393, "Two BOS tokens"),
    _thread("YangRui2015/Generalizable-Reward-Model", 6, "Two BOS tokens"),
    _thread("NVIDIA/workbench-example-llama3-finetune", 1, "SFTTrainer lacks dataset_text_field"),
    _thread("unslothai/unsloth", 2985, "Arguments of SFTTrainer and SFTConfig", "pull"),
    _thread("Lightning-AI/pytorch-lightning", 7750, "training_step must return loss"),
    _thread("Lightning-AI/pytorch-lightning", 17801, "optimizer_idx is not passed"),
    _thread("lightly-ai/lightly", 1113, "Hooks that Lightning 2 removed"),
    _thread("ContextualAI/HALOs", 15, "Gradient clipping for FSDP"),
    _thread("PrimeIntellect-ai/OpenDiloco", 6, "Gradient norm of FSDP", "pull"),
    _thread("microsoft/nni", 4692, "shuffle=True for the training loader"),
    _thread("NVlabs/LongLive", 71, "Ranks use divergent sampler seeds"),
    _thread("jadore801120/attention-is-all-you-need-pytorch", 14, "Dropped batches", "pull"),
    _thread("RogerQi/human-policy", 3, "The same data on each GPU"),
    _thread("yg211/bert_nli", 3, "Padding of attention masks", "pull"),
    _thread("huggingface/transformers", 16243, "Results without an attention mask", "pull"),
    _page(
        "torch-autograd-backward", "PyTorch: torch.Tensor.backward",
        "https://docs.pytorch.org/docs/stable/generated/torch.Tensor.backward.html",
    ),
    _page(
        "torch-randomness", "PyTorch: Reproducibility",
        "https://docs.pytorch.org/docs/stable/notes/randomness.html",
    ),
    _thread("TorchDSP/torchsig", 343, "Workers draw the same random numbers"),
    _thread("NVIDIA-NeMo/Automodel", 2468, "DDP ranks skip a backward together", "pull"),
    _thread("pytorch/audio", 3749, "DDP hangs when a rank's loss is invalid"),
    _thread("pytorch/pytorch", 65417, "OneCycleLR is updated once per epoch"),
    _thread("Lightning-AI/pytorch-lightning", 19774, "interval step in an example", "pull"),
    _thread("Lightning-AI/pytorch-lightning", 4668, "The mode of a score is taken for min"),
    _thread("galilai-group/stable-pretraining", 246, "Clipping and manual optimization"),
    _thread("huggingface/transformers", 26569, "Results depend on the padding side"),
    _thread("huggingface/accelerate", 226, "Metrics and gather"),
    _thread("huggingface/accelerate", 574, "evaluate with accelerate"),
    _page(
        "lightning-optimization", "Lightning: Optimization",
        "https://lightning.ai/docs/pytorch/latest/common/optimization.html",
    ),
    _page(
        "lightning-upgrade", "Lightning: 2.0 Upgrade Guide",
        "https://lightning.ai/docs/pytorch/latest/upgrade/migration_guide.html",
    ),
    _page(
        "accelerate-migration", "Accelerate: Migrating your code",
        "https://huggingface.co/docs/accelerate/basic_tutorials/migration",
    ),
    _page(
        "datasets-image-process", "Datasets: Process image data",
        "https://huggingface.co/docs/datasets/image_process",
    ),
    _page(
        "torch-optim-closure", "PyTorch: torch.optim.Optimizer.step",
        "https://docs.pytorch.org/docs/stable/generated/torch.optim.Optimizer.step.html",
    ),
)  # fmt: skip
