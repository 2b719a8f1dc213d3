"""What the numbers and names of a message add to the remedy of a row: one sentence, before it."""

from __future__ import annotations

import functools
import re

Said = tuple[str, str, str]
"""Ids of rows, an expression with named groups, and the sentence with their names in braces."""

PACKAGES = {
    "cv2": "opencv-python-headless", "sklearn": "scikit-learn", "PIL": "pillow", "yaml": "pyyaml",
    "skimage": "scikit-image", "dotenv": "python-dotenv", "google": "protobuf", "attr": "attrs",
    "flash_attn": "flash-attn --no-build-isolation", "pkg_resources": '"setuptools<81"',
    "hydra": "hydra-core", "pytorch_lightning": "pytorch-lightning", "umap": "umap-learn",
    "huggingface_hub": "huggingface-hub", "git": "gitpython", "Crypto": "pycryptodome",
    "open_clip": "open-clip-torch", "segmentation_models_pytorch": "segmentation-models-pytorch",
    "mpi4py": "mpi4py", "tensorboard": "tensorboard", "sentencepiece": "sentencepiece",
    "SentencePiece": "sentencepiece", "Protobuf": "protobuf", "Tiktoken": "tiktoken",
    "grpc": "grpcio", "faiss": "faiss-cpu", "fitz": "pymupdf", "imageio": "imageio",
    "pycocotools": "pycocotools", "torch_geometric": "torch-geometric",
}  # fmt: skip
"""Module -> what pip installs where the names differ, and the names in sentences of libraries."""
PLAIN = frozenset(
    [
        "accelerate",
        "albumentations",
        "bitsandbytes",
        "datasets",
        "decord",
        "deepspeed",
        "diffusers",
        "einops",
        "evaluate",
        "fire",
        "ftfy",
        "gradio",
        "h5py",
        "jsonlines",
        "lightning",
        "lmdb",
        "loguru",
        "matplotlib",
        "nltk",
        "ninja",
        "numpy",
        "omegaconf",
        "onnx",
        "pandas",
        "peft",
        "psutil",
        "pyarrow",
        "ray",
        "regex",
        "rich",
        "rouge_score",
        "sacrebleu",
        "safetensors",
        "scipy",
        "seaborn",
        "spacy",
        "tabulate",
        "tensorboardX",
        "termcolor",
        "tiktoken",
        "timm",
        "tokenizers",
        "torch",
        "torchaudio",
        "torchmetrics",
        "torchvision",
        "tqdm",
        "transformers",
        "triton",
        "trl",
        "ultralytics",
        "unsloth",
        "vllm",
        "wandb",
        "webdataset",
        "xformers",
        "zstandard",
        "jinja2",
        "liger_kernel",
        "librosa",
        "soundfile",
        "torchao",
    ]
)
"""Modules that pip installs under their own name; any other may be the program's own."""
WHEELS = {
    "libcudnn": "cudnn", "libcublas": "cublas", "libcublasLt": "cublas", "libcusparse": "cusparse",
    "libcurand": "curand", "libcufft": "cufft", "libcusolver": "cusolver", "libnccl": "nccl",
    "libnvrtc": "cuda-nvrtc", "libcudart": "cuda-runtime", "libcupti": "cuda-cupti",
    "libnvJitLink": "nvjitlink", "libcusparseLt": "cusparselt",
}  # fmt: skip
OF_CUDA = {"cublas", "cuda-runtime", "cuda-nvrtc", "cuda-cupti", "nvjitlink"}
"""Packages whose libraries have the number of their CUDA; since 13 their names have none."""
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
    "processing_class": "tokenizer= in transformers below 4.46",
    "eval_strategy": "evaluation_strategy= in transformers below 4.41",
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
    "offload_index": "a newer accelerate, python -m pip install -U accelerate",
    "config": "the release of transformers that the code was written for: its classes take config "
    "since 4.4x",
    "num_items_in_batch": "an argument that transformers since 4.46 passes to compute_loss: add "
    "num_items_in_batch=None to your compute_loss, and **kwargs to forward if it is refused there",
}  # fmt: skip
"""Argument -> what takes its place."""
OWNERS = {
    "device": "GradScaler", "verbose": "LR|Lambda|Warm", "beta": "Trainer", "packing": "Trainer",
    "config": "Rotary|Attention", "gpus": "Trainer|__init__", "tokenizer": "Trainer",
    "resume_from_checkpoint": "Trainer|__init__", "dtype": "Model|For[A-Z]|from_pretrained",
    "checkpoint_callback": "Trainer|__init__",
}  # fmt: skip
"""Arguments with names of their own in many programs -> the callees that had them."""

SAID: tuple[Said, ...] = (
    (
        "import-failed",
        r"No module named '(?P<module>\w+)[.'\w]*|requires the (?P<name>\S+) library but it was",
        "python -m pip install {package}, and restart.",
    ),
    (
        "import-failed package-version-refused quantizer-absent",
        r"Using [`'][\w.-]+[`'].{0,60}?requires.{0,80}?`?pip install (?P<wanted>[^`\n]{1,60})`",
        "python -m pip install {wanted}, and restart.",
    ),
    (
        "name-not-in-package",
        r"'is_torch_tpu_available'",
        "is_torch_xla_available since transformers 4.41: upgrade the package that imports it.",
    ),
    (
        "name-not-in-package",
        r"'LLaMATokenizer'",
        "It is LlamaTokenizer: correct the name, also in tokenizer_config.json.",
    ),
    (
        "weights-only-load",
        r"Unsupported global: GLOBAL (?P<name>[\w.]+)",
        "torch.serialization.add_safe_globals([{name}]) before torch.load allows what the file "
        "holds, if it is your own.",
    ),
    (
        "monitored-metric-missing",
        r"(?:metric `|monitor=')(?P<name>[\w/.-]+)[`']\)?`? .{0,160}?(?:following: |metrics: \[)"
        r"(?P<valid>[^\]\n]{1,200})",
        "{name} is not among the logged names: {valid}. Monitor one of these, or log it under "
        "that name.",
    ),
    (
        "cuda-toolkit-mismatch",
        r"(?:detected CUDA version \(|Installed CUDA version )(?P<toolkit>[\d.]+\d)\)?.{0,80}?"
        r"compile(?:d with| PyTorch) \(?(?P<torch>[\d.]+\d)",
        "The toolkit is {toolkit} and torch was built with {torch}: install toolkit {torch} and "
        "set CUDA_HOME to it. Within one major version DS_SKIP_CUDA_CHECK=1 lets DeepSpeed build.",
    ),
    (
        "model-type-unknown architecture-unknown missing-key",
        r"model type `(?P<name>[\w.-]+)`|KeyError: '(?P<type>(?:(?:qwen|llama|gemma|phi|glm)\d|"
        r"mistral|mixtral|deepseek_v\d|minicpm|internvl)\w*)'",
        "The type is newer than the installed transformers: python -m pip install -U transformers.",
    ),
    (
        "trainer-argument-renamed api-changed call-arguments",
        r"(?P<callee>\w+)(?:\.\w+)?\(\) got an unexpected keyword argument '(?P<argument>\w+)'",
        "Instead of {argument}: {renamed}.",
    ),
    (
        "library-does-not-fit extension-abi-mismatch cudnn-libraries-not-found",
        r"(?P<library>lib\w+?)(?:_\w+)?\.so\.(?P<major>\d+)[\d.]*(?:: cannot open|,)",
        "{library}.so.{major} is part of {wheel}.",
    ),
    (
        "no-kernel-image",
        r"capability (?P<sm>sm_1[0-3]\d)a?",
        "{sm} needs torch 2.7 or newer from the index cu128 or newer: python -m pip install -U "
        "torch --index-url https://download.pytorch.org/whl/cu128.",
    ),
    (
        "no-kernel-image",
        r"capability (?P<sm>sm_[3-7]\d) is not compatible",
        "{sm} is in no wheel of CUDA 13; below sm_50 only torch of before 2.0 has it: take a wheel "
        "of the index cu126.",
    ),
    (
        "driver-too-old",
        r"found version (?P<driver>\d{4,5})\)",
        "This driver runs CUDA up to {cuda}: upgrade it, or install a torch wheel for {cuda} or "
        "an older CUDA.",
    ),
    (
        "generation-length-too-short",
        r"is (?P<length>\d+), but `?max_length`? is set to (?P<limit>\d+)",
        "The prompt alone has {length} tokens of the {limit}.",
    ),
    (
        "kernel-needs-more-shared-memory",
        r"Required: (?P<need>\d+), Hardware limit: (?P<limit>\d+)",
        "A block asks for {need} bytes of a multiprocessor's {limit}: head dimension, block sizes "
        "and num_stages multiply into it.",
    ),
    (
        "no-room-for-cache",
        r"max seq len \((?P<need>\d+)\).{0,120}?\((?P<fits>\d+)\)",
        "max_model_len={fits} fits.",
    ),
    (
        "device-mismatch",
        r"at least two devices, (?P<first>[\w:]+) and (?P<second>[\w:]+)!"
        r"(?:.{0,60}argument (?P<name>\w+) in method (?:wrapper_\w*?_?_)?(?P<method>[a-z]\w*))?",
        "{operand} on {first} and on {second} meet.",
    ),
    (
        "index-out-of-range assert-labels",
        r"Target (?P<label>(?!255\b)\d{1,6}) is out of bounds",
        "A label is {label}: it needs at least {classes} classes in the last layer, or labels that "
        "begin with 0.",
    ),
    (
        "pod-evicted",
        r"(?:exceeds the total limit of containers|ephemeral-storage) ?(?P<limit>\w*)",
        "It wrote more into the container's own file system than its ephemeral-storage limit "
        "({limit}): write checkpoints and caches to a volume, keep fewer (save_total_limit), or "
        "raise limits.ephemeral-storage.",
    ),
    (
        "hf-auth",
        r"(?:huggingface\.co/(?:api/models/|api/(?=datasets/))?|model |repo )"
        r"(?P<repo>(?:datasets/)?(?!api/|datasets/)[\w.-]+/[\w.-]+)"
        r"(?:/resolve| is restricted|\b)",
        "Request access at huggingface.co/{repo} with the account of the token.",
    ),
    (
        "checkpoint-of-other-sizes",
        r"(?P<name>\S*(?:embed|lm_head|wte)\S*): copying a param with shape torch\.Size\(\["
        r"(?P<saved>\d+), \d+\]\) from checkpoint, the shape in current model is torch\.Size\(\["
        r"(?P<own>\d+),",
        "The checkpoint has {saved} rows and the model {own}: "
        "model.resize_token_embeddings({saved}) before loading.",
    ),
    (
        "libstdcxx-too-old",
        r"(?P<version>(?:GLIBCXX|CXXABI)_[\d.]+)'? not found \(required by (?P<by>[^)\n]{1,200})",
        "{by} needs {version}. One that was compiled here (torch_extensions) can be built again "
        "instead, after its cache was emptied.",
    ),
    (
        "deepspeed-batch-arithmetic",
        r"(?P<total>\d+) != (?P<micro>\d+) \* (?P<steps>\d+) \* (?P<ranks>\d+)",
        "{total} is not micro-batch {micro} x accumulation {steps} x ranks {ranks}: leave "
        'train_batch_size out or set it to "auto".',
    ),
    (
        "dtype-mismatch",
        r"same dtype, but got:? (?P<first>\w+) (?:!=|and) (?P<second>[\w:]+)",
        "The first operand, the input in a Linear, is {first}, the weight {second}.",
    ),
    (
        "locked-memory-limit nccl-system-error",
        r"max locked memory \(kbytes, -l\) (?P<limit>\d+)",
        "The log shows the limit of locked memory: {limit} KiB.",
    ),
    (
        "package-version-refused",
        r"(?P<wanted>[\w-]+[<>=!~][\w.,<>=!~]+) is required .{0,80}but found",
        'python -m pip install "{wanted}", and restart.',
    ),
    (
        "package-version-refused",
        r"incompatible version of (?P<wanted>[\w-]+)\.",
        "python -m pip install -U {wanted}, and restart.",
    ),
    (
        "no-tensor",
        r"not BatchEncoding",
        'Unpack what the tokenizer gave: model(**batch), or batch["input_ids"].',
    ),
    (
        "no-tensor module-returns-tuple",
        r"'list' object has no attribute '(?:to|cuda|size|shape)'",
        "The batch is a list: move each member with .to(device), or let a collate_fn stack them.",
    ),
    (
        "attribute-missing",
        r"'\w{0,40}Output\w{0,40}' object has no attribute 'backward'",
        "Call output.loss.backward(); the output has a loss if labels were passed.",
    ),
    (
        "attribute-missing",
        r"'Tensor' object has no attribute '(?:loss|logits)'",
        "The model returns the tensor itself: compute the loss from it.",
    ),
    (
        "name-not-in-package",
        r"'load_metric' from 'datasets",
        "It is evaluate.load now: python -m pip install evaluate.",
    ),
    ("compile-failed", r"Ninja is required", "python -m pip install ninja."),
    (
        "api-changed attribute-missing",
        r"has no attribute '(?P<name>merge_and_unload|print_trainable_parameters|merge_adapter)'",
        "The object is no PeftModel: call {name} on what get_peft_model or "
        "PeftModel.from_pretrained returned.",
    ),
    (
        "attribute-missing",
        r"'Namespace' object has no attribute '(?P<name>\w+)'",
        "No argument --{name} was added to the parser, or it has another dest.",
    ),
    (
        "sequence-beyond-positions sequence-too-long",
        r"\((?P<length>\d+) > (?P<limit>\d+)\)",
        "{length} tokens are given, {limit} fit: truncation=True, max_length={limit}.",
    ),
    (
        "name-not-in-package",
        r"(?:cannot import name '\w+' from|No module named) '(?P<module>\w+)",
        "The installed {module} is older, or newer, than the code that imports it. If the name is "
        "new: python -m pip install -U {module}.",
    ),
)


def sentence(id: str, text: str) -> str:
    """What the text's own words add to the remedy of the row; "" where they add nothing."""
    for expression, template in _of(id):
        if match := re.search(expression, text, re.DOTALL):
            groups = {name: value for name, value in match.groupdict().items() if value}
            words = {**groups, **_derived(groups)}
            try:
                return template.format_map(words)
            except KeyError:  # the words mean nothing that is known
                continue
    return ""


@functools.cache
def _of(id: str) -> tuple[tuple[str, str], ...]:
    return tuple((each, said) for ids, each, said in SAID if id in ids.split())


def _derived(groups: dict[str, str]) -> dict[str, str]:
    """What follows from the words of the text, where it is known."""
    words: dict[str, str] = {}
    module = groups.get("module", groups.get("name", ""))
    if package := PACKAGES.get(module) or (module if module in PLAIN else ""):
        words["package"] = package.replace("_", "-") if module in PLAIN else package
    argument, callee = groups.get("argument", ""), groups.get("callee", "")
    if argument in RENAMED and re.search(OWNERS.get(argument, "\\w"), callee):
        words["renamed"] = RENAMED[argument]
    if wheel := WHEELS.get(groups.get("library", "")):
        major = groups["major"]
        cuda = major if wheel in OF_CUDA and major in ("11", "12") else "12"
        later = wheel in OF_CUDA and int(major) > 12
        words["wheel"] = f"the package nvidia-{wheel}" + ("" if later else f"-cu{cuda}")
    if driver := groups.get("driver"):
        words["cuda"] = f"{int(driver) // 1000}.{int(driver) % 1000 // 10}"
    if label := groups.get("label"):
        words["classes"] = str(int(label) + 1)
    method = groups.get("method", "").removesuffix("_")
    words["operand"] = f"Operands of {method}" if method else "Operands"
    return words
