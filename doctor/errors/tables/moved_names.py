"""Names that libraries moved or removed, and libraries that are older than the code expects."""

from __future__ import annotations

from doctor._util.owner import Owner
from doctor.errors.cause import Cause

ROWS = (
    Cause(
        id="transformers-name-removed",
        refines=("import-failed", "name-not-in-package"),
        errors=("ImportError",),
        messages=(
            r"cannot import name '(?:AdamW|shard_checkpoint|top_k_top_p_filtering|"
            r"is_torch_greater_or_equal_than_\w{1,10}|is_flash_attn_available|"
            r"is_torch_fx_available|LlamaFlashAttention2|LlamaSdpaAttention|HybridCache|"
            r"SlidingWindowCache|find_pruneable_heads_and_indices|apply_chunking_to_forward|"
            r"prune_linear_layer|AutoModelForVision2Seq|is_tf_available|"
            r"GreedySearchDecoderOnlyOutput|BeamScorer)' from 'transformers",
        ),
        examples=(
            "ImportError: cannot import name 'shard_checkpoint' from "
            "'transformers.modeling_utils' (/opt/transformers/modeling_utils.py)",
        ),
        why="transformers removed or moved the name, and the package in the frame above, or your "
        "code, still imports it.",
        fix="Upgrade the package in the frame above, or uninstall it if nothing needs it (autoawq "
        "and auto-gptq for shard_checkpoint); else install a transformers of its time "
        "(shard_checkpoint: <4.47, top_k_top_p_filtering: <4.39). In your own code: AdamW is "
        "torch.optim.AdamW, AutoModelForVision2Seq is AutoModelForImageTextToText, pruning "
        "helpers are in transformers.pytorch_utils, one attention class per model replaces the "
        "Flash and Sdpa ones.",
        owner=Owner.ENVIRONMENT,
        commands=("python -m pip show transformers", "python -m pip uninstall autoawq auto-gptq"),
    ),
    Cause(
        id="trainer-name-removed",
        refines=("import-failed", "name-not-in-package"),
        errors=("ImportError",),
        messages=(
            r"cannot import name '(?:prepare_model_for_int8_training|"
            r"DataCollatorForCompletionOnlyLM|AutoModelForCausalLMWithValueHead|"
            r"create_reference_model|PPOTrainer|PPOConfig|KTOTrainer|ORPOTrainer|ORPOConfig|"
            r"CPOTrainer|ConstantLengthDataset|setup_chat_format|get_kbit_device_map|"
            r"SFTScriptArguments|is_deepspeed_available)' from '(?:peft|trl)",
        ),
        examples=(
            "ImportError: cannot import name 'prepare_model_for_int8_training' from 'peft' "
            "(/opt/peft/__init__.py)",
            "ImportError: cannot import name 'DataCollatorForCompletionOnlyLM' from 'trl' "
            "(/opt/trl/__init__.py)",
        ),
        why="PEFT or TRL renamed, moved or removed the name since the code was written.",
        fix="prepare_model_for_int8_training is prepare_model_for_kbit_training (PEFT 0.10). "
        "DataCollatorForCompletionOnlyLM: set completion_only_loss=True or "
        "assistant_only_loss=True of SFTConfig. PPO, KTO, ORPO, CPO and value heads moved to "
        "trl.experimental. Or install the versions that the code pins (trl<0.20, peft<0.10).",
        owner=Owner.ENVIRONMENT,
        commands=("python -m pip show trl peft",),
    ),
    Cause(
        id="torchvision-name-moved",
        refines=("import-failed", "name-not-in-package"),
        errors=("ImportError", "ModuleNotFoundError", "RuntimeError"),
        messages=(
            r"cannot import name '(?:Optional|load_state_dict_from_url|PILLOW_VERSION|model_urls|"
            r"_log_api_usage_once|InterpolationMode|ResNet50_Weights)' from '(?:torch|PIL)",
            r"No module named 'torchvision\.(?:models\.utils|models\.segmentation\.segmentation|"
            r"prototype)",
            r"operator torchvision::nms does not exist",
        ),
        examples=(
            "ImportError: cannot import name 'Optional' from 'torch.jit.annotations' "
            "(/opt/torch/jit/annotations.py)",
            "ModuleNotFoundError: No module named 'torchvision.models.utils'",
            "RuntimeError: operator torchvision::nms does not exist",
        ),
        why="torchvision and torch (or Pillow) are of different times: one was upgraded alone, or "
        "the code uses a place from which a function has moved.",
        fix="Install torch, torchvision and torchaudio together from one index, in versions that "
        "belong together (their table in torchvision's README; an old torchvision with "
        "PILLOW_VERSION needs Pillow<7). In your own code: load_state_dict_from_url is in "
        "torch.hub.",
        owner=Owner.ENVIRONMENT,
        commands=("python -m pip show torch torchvision Pillow",),
    ),
    Cause(
        id="torch-older-than-library",
        refines=("name-undefined", "api-changed"),
        errors=("AttributeError", "NameError", "RuntimeError", "ImportError"),
        messages=(
            r"module 'torch' has no attribute '(?:compiler|float8_e\w{3,12}|uint16|uint32|uint64|"
            r"int1|accelerator|xpu|get_default_device|_grouped_mm|float4\w{0,12})'",
            r"module 'torch\.(?:library|compiler|nn\.attention|utils\._pytree|amp|_dynamo|"
            r"distributed)[\w.]{0,60}' has no attribute '\w{1,60}'",
            r"name '(?:Replicate|DTensor|Shard|DeviceMesh|init_empty_weights)' is not defined",
            r"PyTorch (?:>=|version) ?[\d.]{1,6} (?:is required|or)|requires? the PyTorch library "
            r"but it was not found",
        ),
        examples=(
            "AttributeError: module 'torch' has no attribute 'compiler'",
            "AttributeError: module 'torch.library' has no attribute 'register_fake'",
            "NameError: name 'Replicate' is not defined",
            "Disabling PyTorch because PyTorch >= 2.4 is required but found 2.2.0",
        ),
        why="transformers, accelerate, torchao, diffusers or another library needs a newer torch "
        "than the one installed.",
        fix="Upgrade torch (the library's release notes name the oldest one: transformers 4.50 "
        "needs 2.1, transformers 5 needs 2.4) together with torchvision; or install the library "
        "of torch's time, transformers<4.50 for torch 2.0. init_empty_weights: upgrade "
        "accelerate, too.",
        owner=Owner.ENVIRONMENT,
        commands=("python -m pip show torch transformers accelerate",),
    ),
    Cause(
        id="pillow-name-removed",
        refines=("api-changed", "attribute-missing", "property-raised"),
        errors=("AttributeError",),
        messages=(
            r"module 'PIL\.Image' has no attribute '(?:ANTIALIAS|LINEAR|CUBIC|BICUBIC)'",
            r"'(?:FreeTypeFont|ImageFont|TransposedFont)' object has no attribute 'getsize'|"
            r"'ImageDraw' object has no attribute '(?:textsize|multiline_textsize)'",
        ),
        examples=(
            "AttributeError: module 'PIL.Image' has no attribute 'ANTIALIAS'",
            "AttributeError: 'FreeTypeFont' object has no attribute 'getsize'",
        ),
        why="Pillow 10 removed these names, and the package in the frame above still uses them.",
        fix="Upgrade that package, or install Pillow<10. In your own code: ANTIALIAS is "
        "Image.LANCZOS; font.getbbox and draw.textbbox replace getsize and textsize.",
        owner=Owner.ENVIRONMENT,
        commands=('python -m pip install "pillow<10"',),
    ),
    Cause(
        id="datasets-older-than-fsspec",
        errors=("NotImplementedError",),
        messages=(r"Loading a dataset cached in a \w{3,40} is not supported",),
        examples=(
            "NotImplementedError: Loading a dataset cached in a LocalFileSystem is not supported.",
        ),
        why="fsspec 2023.10 changed a name by which an older datasets recognizes the local disk.",
        fix="Upgrade datasets (2.14.6 or newer), or install fsspec<=2023.9.2; then restart the "
        "interpreter.",
        owner=Owner.ENVIRONMENT,
        commands=("python -m pip install -U datasets",),
    ),
    Cause(
        id="yaml-loader-missing",
        refines=("call-arguments", "factory-with-parameters"),
        errors=("TypeError",),
        messages=(r"load\(\) missing 1 required positional argument: 'Loader'",),
        examples=("TypeError: load() missing 1 required positional argument: 'Loader'",),
        why="PyYAML 6 wants the loader to be named.",
        fix="Write yaml.safe_load(file), or upgrade the package in the frame above; PyYAML<6 "
        "accepts the old call.",
        owner=Owner.ENVIRONMENT,
        commands=('python -m pip install "pyyaml<6"',),
    ),
    Cause(
        id="next-of-loader",
        refines=("attribute-missing", "property-raised"),
        errors=("AttributeError",),
        messages=(r"'_\w{3,40}DataLoaderIter' object has no attribute 'next'",),
        examples=(
            "AttributeError: '_MultiProcessingDataLoaderIter' object has no attribute 'next'",
        ),
        why="Iterators have no method next() since Python 3; torch 1.13 removed its own.",
        fix="Write next(iterator) in place of iterator.next().",
    ),
    Cause(
        id="module-hidden-by-own-file",
        errors=("AttributeError", "ImportError"),
        messages=(
            r"partially initialized module '[\w.]{1,100}'|most likely due to a circular import",
        ),
        examples=(
            "AttributeError: partially initialized module 'torch' has no attribute 'cuda' (most "
            "likely due to a circular import)",
        ),
        why="A file or directory of your own has the name of a package (torch.py, datasets/, "
        "tokenizers.py) and is imported in its place; or two modules of the program import each "
        "other.",
        fix="Look where it comes from: rename your file or directory and delete its __pycache__. "
        "In a circle move one of the imports into the function that uses it.",
        commands=('python -c "import torch; print(torch.__file__)"',),
    ),
    Cause(
        id="forward-keyword-of-library",
        refines=(
            "api-changed",
            "arguments-of-forward",
            "call-arguments",
            "factory-with-parameters",
        ),
        errors=("TypeError",),
        messages=(
            r"forward\(\) got an unexpected keyword argument '(?:token_type_ids|"
            r"num_items_in_batch|cache_position|position_ids|labels|inputs_embeds|"
            r"output_attentions|logits_to_keep|use_cache|return_dict|attention_mask)'",
        ),
        examples=(
            "TypeError: forward() got an unexpected keyword argument 'token_type_ids'",
            "TypeError: LlamaForCausalLM.forward() got an unexpected keyword argument "
            "'num_items_in_batch'",
        ),
        why="The trainer, the tokenizer or PEFT passes an argument that this model's forward does "
        "not take: another model's tokenizer, a model class of its own code from before, or a "
        "plain module in a Trainer.",
        fix="token_type_ids: tokenizer(..., return_token_type_ids=False). num_items_in_batch: set "
        "model.accepts_loss_kwargs = False, or upgrade the model's code. cache_position and "
        "logits_to_keep: the model's remote code is older than transformers, take its newer "
        "revision or an older transformers. labels and inputs_embeds: use a model class with a "
        "head (AutoModelForX), and the right task_type for PEFT; or add **kwargs to a forward of "
        "your own.",
        commands=("python -m pip show transformers peft",),
    ),
    Cause(
        id="torchaudio-name-removed",
        refines=("import-failed", "name-not-in-package", "api-changed"),
        messages=(
            r"module 'torchaudio' has no attribute|No module named 'torchaudio\.|cannot import "
            r"name '\w{1,60}' from 'torchaudio",
        ),
        examples=(
            "AttributeError: module 'torchaudio' has no attribute 'list_audio_backends'",
            "ModuleNotFoundError: No module named 'torchaudio.backend'",
            "ImportError: cannot import name 'AudioMetaData' from 'torchaudio' (/opt/__init__.py)",
        ),
        why="torchaudio 2.9 removed its backends, info and much else, which older speech "
        "libraries (speechbrain, pyannote.audio, demucs) use.",
        fix="Upgrade the package in the frame above, or install torch<2.9 with torchaudio<2.9. In "
        "your own code: read files with soundfile or torchcodec.",
        owner=Owner.ENVIRONMENT,
        commands=("python -m pip show torch torchaudio",),
    ),
)
