"""What takes the place of a name in a message: the package of a module, the wheel of a library, the
new name of an argument."""

from __future__ import annotations

PACKAGES = {
    "transformer_engine": '"transformer_engine[pytorch]" --no-build-isolation',
    "transformer_engine_torch": '"transformer_engine[pytorch]" --no-build-isolation',
    "cv2": "opencv-python-headless", "sklearn": "scikit-learn", "PIL": "pillow", "yaml": "pyyaml",
    "skimage": "scikit-image", "dotenv": "python-dotenv", "attr": "attrs",
    "flash_attn": "flash-attn --no-build-isolation", "pkg_resources": '"setuptools<81"',
    "hydra": "hydra-core", "pytorch_lightning": "pytorch-lightning", "umap": "umap-learn",
    "huggingface_hub": "huggingface-hub", "git": "gitpython", "Crypto": "pycryptodome",
    "open_clip": "open-clip-torch", "segmentation_models_pytorch": "segmentation-models-pytorch",
    "SentencePiece": "sentencepiece", "Protobuf": "protobuf", "Tiktoken": "tiktoken",
    "google.protobuf": "protobuf", "google.cloud.storage": "google-cloud-storage",
    "google.generativeai": "google-generativeai", "grpc": "grpcio", "faiss": "faiss-cpu",
    "fitz": "pymupdf", "torch_geometric": "torch-geometric",
}  # fmt: skip
"""Module -> what pip installs where the names differ, and the names in sentences of libraries."""
_PLAIN = """
    accelerate albumentations bitsandbytes datasets decord deepspeed diffusers einops evaluate
    fire ftfy gradio h5py imageio jinja2 jsonlines librosa liger_kernel lightning lmdb loguru
    matplotlib mpi4py ninja nltk numpy omegaconf onnx pandas peft protobuf psutil pyarrow
    pycocotools ray regex rich rouge_score sacrebleu safetensors scipy seaborn sentencepiece
    soundfile spacy tabulate tensorboard tensorboardX termcolor tiktoken timm tokenizers torch
    torchao torchaudio torchmetrics torchvision tqdm transformers triton trl ultralytics unsloth
    vllm wandb webdataset xformers zstandard
"""
PLAIN = frozenset(_PLAIN.split())
"""Modules that pip installs under their own name; any other may be the program's own."""
WHEELS = {
    "libcudnn": "cudnn", "libcublas": "cublas", "libcublasLt": "cublas", "libcusparse": "cusparse",
    "libcurand": "curand", "libcufft": "cufft", "libcusolver": "cusolver", "libnccl": "nccl",
    "libnvrtc": "cuda-nvrtc", "libcudart": "cuda-runtime", "libcupti": "cuda-cupti",
    "libnvJitLink": "nvjitlink", "libcusparseLt": "cusparselt",
    "libcudss": "cudss", "libcufile": "cufile", "libnvshmem_host": "nvshmem",
}  # fmt: skip
OF_ANY_CUDA = {"cudnn", "nccl", "cusparselt"}
"""Their number does not tell the CUDA version that they are built for."""
OF_CUDA = {"cublas", "cuda-runtime", "cuda-nvrtc", "cuda-cupti", "nvjitlink"}
"""Packages whose libraries have the number of their CUDA; since 13 their names have none."""
OWN_NUMBERS = {
    "cusparse": {"11": "-cu11", "12": "-cu12 (without -cu12 for a torch of CUDA 13)"},
    "cufft": {"10": "-cu11", "11": "-cu12", "12": ""},
    "cusolver": {"11": "-cu12 (-cu11 for a torch of CUDA 11)", "12": ""},
    "curand": {"10": "-cu12 (-cu11 or no ending for a torch of CUDA 11 or 13)"},
}
"""Packages whose libraries have numbers of their own -> the number -> how their names end."""
RENAMED = {
    "tokenizer": "processing_class=", "evaluation_strategy": "eval_strategy=",
    "no_cuda": "use_cpu=", "per_gpu_train_batch_size": "per_device_train_batch_size=",
    "per_gpu_eval_batch_size": "per_device_eval_batch_size=", "push_to_hub_token": "hub_token=",
    "max_seq_length": "max_length= of SFTConfig", "max_prompt_length": "an argument of the "
    "trainer's Config, or removed in this TRL", "dataset_text_field": "an argument of SFTConfig",
    "packing": "an argument of SFTConfig", "dataset_kwargs": "an argument of SFTConfig",
    "dataset_num_proc": "an argument of SFTConfig", "neftune_noise_alpha": "an argument of the "
    "trainer's Config", "beta": "an argument of DPOConfig", "load_in_8bit":
    "quantization_config=BitsAndBytesConfig(load_in_8bit=True), and from_pretrained takes it",
    "load_in_4bit":
    "quantization_config=BitsAndBytesConfig(load_in_4bit=True), and from_pretrained takes it",
    "use_flash_attention_2": 'attn_implementation="flash_attention_2"', "torch_dtype": "dtype=",
    "dtype": "torch_dtype= in transformers below 4.56", "use_auth_token": "token=",
    "ignore_mismatched_size": "ignore_mismatched_sizes=", "bnb_config": "quantization_config=",
    "processing_class": "tokenizer= in transformers below 4.46; or upgrade it",
    "eval_strategy": "evaluation_strategy= in transformers below 4.41; or upgrade it",
    "gpus": "accelerator='gpu', devices=", "tpu_cores": "accelerator='tpu', devices=",
    "progress_bar_refresh_rate": "a callback, TQDMProgressBar(refresh_rate=...)",
    "checkpoint_callback": "enable_checkpointing=", "resume_from_checkpoint":
    "trainer.fit(..., ckpt_path=...)",
    "group_by_length": 'train_sampling_strategy="group_by_length"',
    "correct_bias": "torch.optim.AdamW, which corrects always",
    "verbose": "print(scheduler.get_last_lr()); the schedulers of torch print no more",
    "device": "torch.amp.GradScaler(device) of torch 2.3 or newer",
    "dispatch_batches": "dataloader_config=DataLoaderConfiguration(...); or upgrade transformers, "
    "which passes it to a newer accelerate",
    "split_batches": "dataloader_config=DataLoaderConfiguration(...)",
    "keep_torch_compile": "a newer accelerate, python -m pip install -U accelerate",
    "weights_only": "a newer Lightning, whose fit, validate, test and predict take it since 2.6",
    "offload_index": "a newer accelerate, python -m pip install -U accelerate",
    "config": "the release of transformers that the code was written for: its classes take config "
    "since 4.4x",
}  # fmt: skip
"""Argument -> what takes its place."""
OWNERS = {
    "device": "GradScaler", "verbose": "LR|Lambda|Warm", "beta": "Trainer", "packing": "Trainer",
    "config": "Rotary|Attention", "gpus": "Trainer|^__init__", "tokenizer": "Trainer",
    "resume_from_checkpoint": "Trainer|^__init__", "dtype": "Model|For[A-Z]|^from_pretrained",
    "checkpoint_callback": "Trainer|^__init__",
    "weights_only": r"^Trainer\.(?:fit|validate|test|predict)$",
}  # fmt: skip
"""Arguments with names of their own in many programs -> the callees that had them."""
