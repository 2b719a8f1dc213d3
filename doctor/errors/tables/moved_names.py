"""Names that libraries moved or removed, and libraries that are older than the code expects."""

from __future__ import annotations

from doctor._util.owner import Owner
from doctor.errors.cause import Cause, Wording

ROWS = (
    Cause(id="name-moved",
        refines=("import-failed", "name-not-in-package", "api-changed", "attribute-missing",
            "call-arguments", "compiled-part-missing"),
        wordings=(
            Wording(r"cannot import name '(?:AdamW|shard_checkpoint|top_k_top_p_filtering|"
                r"is_torch_greater_or_equal_than_\w{1,10}|is_flash_attn_available|"
                r"is_torch_fx_available|LlamaFlashAttention2|LlamaSdpaAttention|HybridCache|"
                r"SlidingWindowCache|find_pruneable_heads_and_indices|apply_chunking_to_forward|"
                r"prune_linear_layer|AutoModelForVision2Seq|is_tf_available|"
                r"GreedySearchDecoderOnlyOutput|BeamScorer)' from 'transformers",
                "ImportError: cannot import name 'shard_checkpoint' from "
                    "'transformers.modeling_utils' (/opt/transformers/modeling_utils.py)",
                "transformers removed or moved the name, and the package in the frame above, or "
                    "your code, still imports it.",
                "Upgrade the package in the frame above, or uninstall it if nothing needs it "
                    "(autoawq and auto-gptq for shard_checkpoint); else install a transformers of "
                    "its time (shard_checkpoint: <4.47, top_k_top_p_filtering: <4.39). In your own "
                    "code: AdamW is torch.optim.AdamW, AutoModelForVision2Seq is "
                    "AutoModelForImageTextToText, pruning helpers are in "
                    "transformers.pytorch_utils, one attention class per model replaces the Flash "
                    "and Sdpa ones.",
                ("python -m pip show transformers",)),
            Wording(r"cannot import name '(?:prepare_model_for_int8_training|"
                r"DataCollatorForCompletionOnlyLM|AutoModelForCausalLMWithValueHead|"
                r"create_reference_model|PPOTrainer|PPOConfig|KTOTrainer|ORPOTrainer|ORPOConfig|"
                r"CPOTrainer|ConstantLengthDataset|setup_chat_format|get_kbit_device_map|"
                r"SFTScriptArguments|is_deepspeed_available)' from '(?:peft|trl)",
                "ImportError: cannot import name 'prepare_model_for_int8_training' from 'peft' "
                    "(/opt/peft/__init__.py)",
                "PEFT or TRL renamed, moved or removed the name since the code was written.",
                "prepare_model_for_int8_training is prepare_model_for_kbit_training (PEFT 0.10). "
                    "DataCollatorForCompletionOnlyLM: set completion_only_loss=True or "
                    "assistant_only_loss=True of SFTConfig. PPO, KTO, ORPO, CPO and value heads "
                    "moved to trl.experimental. Or install the versions that the code pins "
                    "(trl<0.20, peft<0.10).",
                ("python -m pip show trl peft",)),
            Wording(r"cannot import name '(?:cached_download|HfFolder|Repository|is_offline_mode|"
                r"hf_cache_home|url_to_filename)' from 'huggingface_hub",
                "ImportError: cannot import name 'cached_download' from 'huggingface_hub' "
                    "(/opt/huggingface_hub/__init__.py)",
                "huggingface_hub removed the function (cached_download in 0.26, HfFolder and "
                    "Repository in 1.0), and an older diffusers, transformers or "
                    "sentence-transformers still imports it.",
                "Upgrade the package in the frame above (pip install -U diffusers transformers "
                    "sentence-transformers datasets), or install huggingface_hub<0.26 "
                    "(cached_download) or <1.0 (the others).",
                ('python -m pip install "huggingface_hub<0.26"',)),
            Wording(r"cannot import name '(?:Optional|load_state_dict_from_url|PILLOW_VERSION|"
                r"model_urls|_log_api_usage_once|InterpolationMode|ResNet50_Weights)' from "
                r"'(?:torch|PIL)|No module named 'torchvision\.(?:models\.utils|"
                r"models\.segmentation\.segmentation|prototype)",
                "ImportError: cannot import name 'Optional' from 'torch.jit.annotations' "
                    "(/opt/torch/jit/annotations.py)",
                "torchvision and torch (or Pillow) are of different times: one was upgraded alone, "
                    "or the code uses a place from which a function has moved.",
                "Install torch, torchvision and torchaudio together from one index, in versions "
                    "that belong together (their table in torchvision's README; an old torchvision "
                    "with PILLOW_VERSION needs Pillow<7). In your own code: "
                    "load_state_dict_from_url is in torch.hub.",
                ("python -m pip show torch torchvision Pillow",)),
            Wording(r"No such operator torchvision::nms|operator torchvision::nms does not exist|"
                r"Couldn't load custom C\+\+ ops|"
                r"Could not run 'torchvision::\w{2,40}' with arguments from the 'CUDA' backend",
                "RuntimeError: operator torchvision::nms does not exist",
                "The compiled part of torchvision was built for another torch than the installed "
                    "one: one of the two was upgraded alone.",
                "Reinstall torchvision in the version of this torch, from the same index (0.19 for "
                    "torch 2.4, 0.20 for 2.5 and so on; 0.14 for torch 1.13 down to 0.5 for 1.4; "
                    "torchaudio as well). TOR004 names it where both versions are known.",
                ("python -m pip show torch torchvision",),
                more=("RuntimeError: No such operator torchvision::nms",)),
            Wording(r"module 'torchaudio' has no attribute|No module named 'torchaudio\.|cannot "
                r"import name '\w{1,60}' from 'torchaudio",
                "AttributeError: module 'torchaudio' has no attribute 'list_audio_backends'",
                "torchaudio 2.9 removed its backends, info and much else, which older speech "
                    "libraries (speechbrain, pyannote.audio, demucs) use.",
                "Upgrade the package in the frame above, or install torch<2.9 with torchaudio<2.9. "
                    "In your own code: read files with soundfile or torchcodec.",
                ("python -m pip show torch torchaudio",)),
            Wording(r"cannot import name \'(?:container_abcs|inf|string_classes|int_classes)\' "
                r"from \'torch\._six|No module named \'pytorch_lightning\.utilities\.distributed|"
                r"No module named 'torch\.(?:_six|utils\.model_zoo|"
                r"distributed\.(?:_shard\.checkpoint|_tensor)|onnx\.symbolic_registry)|No module "
                r"named 'torchvision\.transforms\.functional_tensor|cannot import name '(?:log|"
                r"_get_socket_with_port)' from 'torch\.distributed\.elastic",
                "ImportError: cannot import name 'container_abcs' from 'torch._six' (unknown "
                    "location)",
                "A package uses an internal module or name that a newer torch or torchvision "
                    "removed (torch._six in 2.0, functional_tensor in torchvision 0.17, a logger "
                    "of DeepSpeed in torch 2.4).",
                "Upgrade the package whose file stands in the frame above (deepspeed to 0.14.5 or "
                    "newer, apex, timm, basicsr); or install the torch that it was written for; a "
                    "single import can be edited: functional_tensor is transforms.functional, inf "
                    "of torch._six is torch.inf, container_abcs is collections.abc, "
                    "pytorch_lightning.utilities.distributed is ...rank_zero (or "
                    "pytorch-lightning<1.8).",
                ("python -m pip show torch torchvision",)),
            Wording(r"module 'numpy' has no attribute '(?:int|bool|object|float|complex|str|long|"
                r"unicode)'",
                "AttributeError: module 'numpy' has no attribute 'object'.",
                "numpy 1.24 removed np.object, np.bool, np.int, np.float, np.complex and np.str. "
                    "The last line of code above the message still uses one.",
                "If that line is in a package, upgrade the package; else install numpy<1.24 (for "
                    "Python 3.11 and older). In code of your own write int, bool, object, float, "
                    "complex or str.",
                ('python -m pip install "numpy<1.24"', "python -m pip check")),
            Wording(r"module 'numpy' has no attribute '\w{1,40}'|`np\.\w{1,20}` was removed in the "
                r"NumPy 2\.0 release",
                "AttributeError: `np.float_` was removed in the NumPy 2.0 release. Use "
                    "`np.float64` instead.",
                "numpy 2.0 removed np.float_, np.NaN, np.Inf and others. The last line of code "
                    "above the message still uses one.",
                "If that line is in a package, upgrade the package; else install numpy<2. In code "
                    "of your own write np.float64, np.nan and np.inf.",
                ('python -m pip install "numpy<2"', "python -m pip check")),
            Wording(r"module 'PIL\.Image' has no attribute '(?:ANTIALIAS|LINEAR|CUBIC|BICUBIC)'|"
                r"'(?:FreeTypeFont|ImageFont|TransposedFont)' object has no attribute 'getsize'|"
                r"'ImageDraw' object has no attribute '(?:textsize|multiline_textsize)'",
                "AttributeError: module 'PIL.Image' has no attribute 'ANTIALIAS'",
                "Pillow 10 removed these names, and the package in the frame above still uses "
                    "them.",
                "Upgrade that package, or install Pillow<10. In your own code: ANTIALIAS is "
                    "Image.LANCZOS; font.getbbox and draw.textbbox replace getsize and textsize.",
                ('python -m pip install "pillow<10"',)),
            Wording(r"No module named '(?:pkg_resources|distutils)|cannot import name 'packaging' "
                r"from 'pkg_resources'|module 'distutils' has no attribute 'version'",
                "ModuleNotFoundError: No module named 'pkg_resources'",
                "Newer Pythons and setuptools no longer contain these modules: distutils left "
                    "Python in 3.12, pkg_resources lost parts in setuptools 70 and is gone from "
                    "the newest.",
                "Install the setuptools of the program's time: python -m pip install "
                    '"setuptools<70" (59.5.0 for tensorboard of torch 1.10 and older), in a build '
                    "with --no-build-isolation; or upgrade the package in the frame above.",
                ('python -m pip install "setuptools<70"',)),
            Wording(r"load\(\) missing 1 required positional argument: 'Loader'",
                "TypeError: load() missing 1 required positional argument: 'Loader'",
                "PyYAML 6 wants the loader to be named.",
                "Write yaml.safe_load(file), or upgrade the package in the frame above; PyYAML<6 "
                    "accepts the old call.",
                ('python -m pip install "pyyaml<6"',)),
            Wording(r"'_\w{3,40}DataLoaderIter' object has no attribute 'next'",
                "AttributeError: '_MultiProcessingDataLoaderIter' object has no attribute 'next'",
                "Iterators have no method next() since Python 3; torch 1.13 removed its own.",
                "Write next(iterator) in place of iterator.next().",
                owner=Owner.JOB),
            Wording(r"No module named 'numpy\._core",
                "ModuleNotFoundError: No module named 'numpy._core'",
                "The file was pickled with NumPy 2, and this environment has NumPy 1.",
                "Read it with NumPy 2 (python -m pip install 'numpy>=2', with packages that were "
                    "built for it), or with NumPy 1.26.1 or newer of 1.26, which knows the name; "
                    "else save it again as .npy.")),
        why="One package was upgraded alone: a name that the code, or another package, uses was "
            "moved or removed, or is not there yet.",
        owner=Owner.ENVIRONMENT,
    ),
    Cause(id="torch-older-than-library",
        errors=("AttributeError", "NameError", "RuntimeError", "ImportError", "ValueError"),
        refines=("name-undefined", "api-changed"),
        wordings=(
            Wording(r"module 'torch' has no attribute '(?:compiler|float8_e\w{3,12}|uint16|"
                r"uint32|uint64|int1|accelerator|xpu|get_default_device|_grouped_mm|OutOfMemoryError|"
                r"float4\w{0,12})'|module 'torch\.(?:library|compiler|nn\.attention|"
                r"utils\._pytree|amp|_dynamo|distributed)[\w.]{0,60}' has no attribute "
                r"'\w{1,60}'|name '(?:Replicate|DTensor|Shard|DeviceMesh|init_empty_weights)' "
                r"is not defined|PyTorch (?:>=|version) ?[\d.]{1,6} (?:is required|or)|"
                r"requires? the PyTorch library but it was not found",
                "AttributeError: module 'torch' has no attribute 'compiler'",
                "transformers, accelerate, torchao, diffusers or another library needs a newer "
                "torch than the one installed.",
                "Upgrade torch (the library's release notes name the oldest one: transformers "
                "4.50 needs 2.1, transformers 5 needs 2.4) together with torchvision; or "
                "install the library of torch's time, transformers<4.50 for torch 2.0. "
                "init_empty_weights: upgrade accelerate, too.",
                ("python -m pip show torch transformers accelerate",),
                more=("AttributeError: module 'torch.library' has no attribute 'register_fake'",
                    "AttributeError: module 'torch' has no attribute 'OutOfMemoryError'",
                    "NameError: name 'Replicate' is not defined",
                    "Disabling PyTorch because PyTorch >= 2.4 is required but found 2.2.0")),
            Wording(r"serious vulnerability issue in `?torch\.load",
                "ValueError: Due to a serious vulnerability issue in `torch.load`, even with",
                "transformers loads no .bin files with a torch below 2.6 (CVE-2025-32434).",
                "Upgrade torch to 2.6 or newer, or load a repository or revision with "
                "safetensors (use_safetensors=True; another branch, such as refs/pr/N, often "
                "has them).")),
        why="transformers, accelerate, torchao, diffusers or another library needs a newer "
            "torch than the one installed.",
        yields_to=("torchvision-code-missing",),
        sources=("transformers-imports",), owner=Owner.ENVIRONMENT),
    Cause(id="module-hidden-by-own-file",
        refines=("import-failed", "api-changed", "attribute-missing"),
        errors=("AttributeError", "ImportError"),
        messages=(r"partially initialized module '[\w.]{1,100}'|most likely due to a circular "
              r"import",),
        examples=("AttributeError: partially initialized module 'torch' has no attribute 'cuda' "
              "(most likely due to a circular import)",
            "ImportError: cannot import name 'load_dataset' from partially initialized module "
              "'datasets' (most likely due to a circular import) (/home/jo/proj/datasets.py)"),
        wordings=(
            Wording("module 'torch' has no attribute "
                "'(?:__version__|nn|Tensor|tensor|cuda|device|float32|int64|no_grad|utils|optim|l"
                "oad|save|ones|zeros)'",
                "AttributeError: module 'torch' has no attribute '__version__'",
                "What was imported is not torch: a file torch.py or a directory torch in the "
                    "working directory, or what an interrupted or failed installation left in "
                    "site-packages. Every release since 0.4 has this name.",
                "Look at which file it is, with the command. For None or a path of your own, "
                    "rename that file or directory, or start elsewhere. Below site-packages: "
                    "repeat python -m pip uninstall torch until none is left, delete what "
                    "remains of its directory, and install it again.",
                ('python -c "import torch; print(torch)"',),
                owner=Owner.ENVIRONMENT),
            Wording("is not an installed PyTorch",
                "/work/torch/__init__.py is not an installed PyTorch",
                "A file or directory called torch is found before PyTorch.",
                "Another file or directory called torch is found before PyTorch, if "
                    "that is installed: rename it, or remove its directory from "
                    "PYTHONPATH.",
                ('echo "$PYTHONPATH"',),
                owner=Owner.ENVIRONMENT),
        ),
        sources=("python-exceptions",),
        why="A file or directory of your own has the name of a package (torch.py, datasets/, "
            "tokenizers.py) and is imported in its place; or two modules of the program import "
            "each other.",
        fix="Look where it comes from: rename your file or directory and delete its __pycache__. "
            "In a circle move one of the imports into the function that uses it.",
        commands=('python -c "import torch; print(torch.__file__)"',),
    ),
    Cause(id="argument-of-another-release",
        errors=("TypeError", "AttributeError"),
        refines=("api-changed", "arguments-of-forward", "call-arguments"),
        wordings=(
            Wording(r"forward\(\) got an unexpected keyword argument '(?:token_type_ids|"
                r"num_items_in_batch|cache_position|position_ids|labels|inputs_embeds|"
                r"output_attentions|logits_to_keep|use_cache|return_dict|attention_mask)'",
                "TypeError: forward() got an unexpected keyword argument 'token_type_ids'",
                "The trainer, the tokenizer or PEFT passes an argument that this model's "
                "forward does not take: another model's tokenizer, a model class of its own "
                "code from before, or a plain module in a Trainer.",
                "token_type_ids: tokenizer(..., return_token_type_ids=False). "
                "num_items_in_batch: set model.accepts_loss_kwargs = False, or upgrade the "
                "model's code. cache_position and logits_to_keep: the model's remote code is "
                "older than transformers, take its newer revision or an older transformers. "
                "labels and inputs_embeds: use a model class with a head (AutoModelForX), and "
                "the right task_type for PEFT; or add **kwargs to a forward of your own.",
                ("python -m pip show transformers peft",)),
            Wording(r"compute_loss\(\) got an unexpected keyword argument 'num_items_in_batch'|"
                r"training_step\(\) takes .{0,40}positional arguments but 4 were given",
                "TypeError: OwnTrainer.compute_loss() got an unexpected keyword argument "
                "'num_items_in_batch'",
                "Since transformers 4.46 the Trainer passes num_items_in_batch to compute_loss "
                "and training_step, and an overridden one does not take it.",
                "Add it to the override: def compute_loss(self, model, inputs, "
                "return_outputs=False, num_items_in_batch=None), likewise in training_step; or "
                "install transformers<4.46 for code that you cannot change.",
                ("python -m pip show transformers trl unsloth",)),
            Wording(r"\blog\(\) takes 2 positional arguments but 3 were given",
                "TypeError: DPOTrainer.log() takes 2 positional arguments but 3 were given",
                "Where transformers' Trainer calls it: since 4.47 it passes the start time to "
                "log(), which an older trl, or an overridden log(), does not take.",
                "Upgrade trl, or the package in the last frame; else install transformers<4.47. "
                "In a class of your own: def log(self, logs, start_time=None).",
                ("python -m pip show transformers trl",)),
            Wording(r"Accelerator\.(?!__init__)\w{1,40}\(\) got an unexpected keyword|unexpected "
                r"keyword argument '(?:dispatch_batches|keep_torch_compile|use_seedable_sampler|"
                r"even_batches)'",
                "TypeError: Accelerator.unwrap_model() got an unexpected keyword argument "
                "'keep_torch_compile'",
                "transformers calls accelerate with an argument that the installed accelerate "
                "does not know yet, or not any more.",
                "Install releases of one time: upgrade accelerate and transformers together, "
                "and then restart the process (in a notebook the kernel).",
                ("python -m pip install -U accelerate transformers",)),
            Wording(r"unexpected keyword argument \'(?:corda_config|eva_config|exclude_modules|"
                r"lora_bias|trainable_token_indices|layer_replication|use_dora|use_rslora|"
                r"qalora_group_size|use_qalora|target_parameters|arrow_config|"
                r"ensure_weight_tying|alora_invocation_tokens|megatron_config|loftq_config|"
                r"layers_pattern)\'|(?:Lora|Peft|Prompt|IA3|AdaLora|LoHa|LoKr|VeRA|"
                r"Vera)\w{0,20}Config\.__init__\(\) got an unexpected keyword argument",
                "TypeError: __init__() got an unexpected keyword argument 'corda_config'",
                "The adapter was saved by a newer PEFT, which writes fields that this one does "
                "not know.",
                "Upgrade PEFT to the version in the adapter's card (pip install -U peft), or "
                "remove the unknown field from a copy of adapter_config.json where its value is "
                "null or false.",
                ("python -m pip show peft",),
                owner=Owner.ENVIRONMENT),
            Wording(r"Accelerator\.__init__\(\) got an unexpected keyword argument "
                r"'(?!dispatch_batches|even_batches|use_seedable)|keyword argument 'project_dir'",
                "TypeError: Accelerator.__init__() got an unexpected keyword argument "
                "'logging_dir'",
                "The program gives Accelerator an argument that the installed accelerate does not "
                "know any more, or not yet.",
                "logging_dir was removed in favour of project_dir: rename it, or upgrade the "
                "program. project_dir is unknown to an old accelerate: python -m pip install -U "
                "accelerate. For others install the accelerate of the program's requirements.",
                ("python -m pip show accelerate",)),
            Wording("unexpected keyword argument '(?:evaluation_strategy|max_seq_length|"
                "dataset_text_field|tokenizer|no_cuda|logging_dir|overwrite_output_dir|"
                "processing_class|packing|eval_packing|max_prompt_length)'",
                "TypeError: TrainingArguments.__init__() got an unexpected keyword argument "
                "'evaluation_strategy'",
                "The trainers renamed or removed arguments between versions.",
                "Use the new names: eval_strategy for evaluation_strategy, processing_class for "
                "the Trainer's tokenizer, use_cpu for no_cuda; in TRL max_length for "
                "max_seq_length, and dataset_text_field and packing belong to SFTConfig. "
                "processing_class is unknown to transformers below 4.46: upgrade it, or install "
                "an older trl. Where the last frame is a library's own (trl calls "
                "transformers), upgrade that library. Or install the versions that the code was "
                "written for. overwrite_output_dir is gone in transformers 5: leave it out. Of "
                "Accelerator() logging_dir is project_dir.",
                ("python -m pip show transformers trl accelerate",)),
            Wording(r"inputs_tensor\.shape\[0\][\s\S]{0,300}tokenization_utils_base|"
                r"'?BatchEncoding'? object has no attribute '?shape",
                "    batch_size = inputs_tensor.shape[0]\n  File \"transformers/"
                "tokenization_utils_base.py\", line 289, in __getattr__\nAttributeError",
                "generate() got what a tokenizer returned, a BatchEncoding, in place of a tensor. "
                "Since transformers 5 apply_chat_template returns one, too.",
                "Unpack it: model.generate(**inputs); or pass inputs[\"input_ids\"], or "
                "apply_chat_template(..., return_dict=False).",
                ("python -m pip show transformers",),
                more=("AttributeError: 'BatchEncoding' object has no attribute 'shape'",)),
            Wording(r"(?:Cluster|SageMaker)Config\.__init__\(\) got an unexpected keyword",
                "TypeError: ClusterConfig.__init__() got an unexpected keyword argument "
                "'downcase_fp16'",
                "accelerate's own configuration file was written by another release, and has a "
                "key that the installed one does not know.",
                "Remove the line with that key from default_config.yaml (in "
                "~/.cache/huggingface/accelerate, or the file of --config_file), or write the "
                "file anew: accelerate config. With a key that is new, upgrade accelerate.",
                ("accelerate env",),
                owner=Owner.ENVIRONMENT),
            Wording(r"GaussianRasteriz\w{2,20}\.\w{3,12}\(\) (?:got an unexpected|missing \d)",
                "TypeError: GaussianRasterizationSettings.__new__() got an unexpected keyword "
                "argument 'antialiasing'",
                "The compiled rasterizer is that of another repository or commit: forks of "
                "diff-gaussian-rasterization have one name, and the last one that was installed "
                "replaces the others.",
                "git submodule update --init --recursive, then install the repository's own again: "
                "pip uninstall diff-gaussian-rasterization, pip install --no-build-isolation "
                "submodules/diff-gaussian-rasterization (the directory of this repository). Use "
                "an environment of its own for each repository.",
                ("git submodule status",),
                owner=Owner.ENVIRONMENT)),
        told_by="a release renamed, removed or added the argument",
        why="An argument that one library passes, or a file holds, is unknown to the release of "
            "the other one or to the code.",
        sources=("whisper-finetune-112", "transformers-7974", "accelerate-1550",
            "gaussian-splatting-1032", "qwen3-coder-394")),
)  # fmt: skip
