"""Packages that were not built for each other, and models of a newer library."""

from __future__ import annotations

from doctor._util.owner import Owner
from doctor.errors.cause import Cause

ROWS = (
    Cause(
        id="numpy-of-other-build",
        errors=("ValueError", "ImportError", "AttributeError", "RuntimeError"),
        messages=(
            r"numpy\.dtype size changed, may indicate binary incompatibility",
            r"module that was compiled using NumPy 1\.x cannot be run",
            r"numpy\.core\.multiarray failed to import|_ARRAY_API not found",
            r"Numpy is not available",
        ),
        examples=(
            "ValueError: numpy.dtype size changed, may indicate binary incompatibility. Expected "
            "96 from C header, got 88 from PyObject",
            "A module that was compiled using NumPy 1.x cannot be run in NumPy 2.0.2 as it may "
            "crash.",
            "ImportError: numpy.core.multiarray failed to import",
            "RuntimeError: Numpy is not available",
        ),
        why="A compiled package, or torch itself, was built for another major version of numpy.",
        fix="Install numpy<2 (torch before 2.3 needs it), or upgrade the package that the "
        "traceback ends in to a release for numpy 2.",
        owner=Owner.ENVIRONMENT,
        commands=("python -m pip check",),
    ),
    Cause(
        id="architecture-unknown",
        errors=("ValueError", "KeyError", "NotImplementedError"),
        refines=("missing-key", "hook-on-a-replaced-layer", "absent-in-samples"),
        messages=(
            r"but Transformers does not recognize this architecture",
            r"Model architectures? \[.{1,120}\] (?:are|is) not supported",
            r"is not supported in your current \w{3,30} version",
            r"Tokenizer class \w{1,80} does not exist or is not currently imported",
            r"KeyError: '(?:qwen|llama|llava|mllama|gemma|phi\d|phi-|phi3|mistral|ministral|"
            r"mixtral|deepseek|internvl|internlm|glm\d|glm_|chatglm|gpt_oss|olmo|falcon|granite|"
            r"smol|cohere|minicpm|idefics|paligemma|whisper|hunyuan|ernie|kimi|"
            r"minimax)[\w-]{0,30}'",
        ),
        examples=(
            "ValueError: The checkpoint you are trying to load has model type `qwen3` but "
            "Transformers does not recognize this architecture.",
            "ValueError: Model architectures ['Qwen3ForCausalLM'] are not supported for now.",
            "NotImplementedError: Unsloth: gemma-4 is not supported in your current Unsloth "
            "version!",
            "ValueError: Tokenizer class LlamaTokenizer does not exist or is not currently "
            "imported.",
            "KeyError: 'qwen2_vl'",
        ),
        why="The model is newer than the installed library, or names a class whose package "
        "(sentencepiece) is missing.",
        fix="Upgrade the library that refuses it (pip install -U transformers, vllm, unsloth "
        "unsloth_zoo; sentencepiece for tokenizers), or load the model's own code with "
        "trust_remote_code=True after reading it. A tokenizer loads with its class by itself, too "
        "(LlamaTokenizer.from_pretrained; LLaMATokenizer is its old spelling).",
        owner=Owner.ENVIRONMENT,
    ),
    Cause(
        id="accelerate-of-another-time",
        refines=("api-changed", "call-arguments", "factory-with-parameters"),
        errors=("TypeError",),
        messages=(
            r"Accelerator\.\w{1,40}\(\) got an unexpected keyword argument",
            r"unexpected keyword argument '(?:dispatch_batches|keep_torch_compile|"
            r"use_seedable_sampler|even_batches)'",
        ),
        examples=(
            "TypeError: Accelerator.unwrap_model() got an unexpected keyword argument "
            "'keep_torch_compile'",
            "TypeError: Accelerator.__init__() got an unexpected keyword argument "
            "'dispatch_batches'",
        ),
        why="transformers calls accelerate with an argument that the installed accelerate does "
        "not know yet, or not any more.",
        fix="Install releases of one time: upgrade accelerate and transformers together, and then "
        "restart the process (in a notebook the kernel).",
        commands=("python -m pip install -U accelerate transformers",),
    ),
    Cause(
        id="trainer-argument-renamed",
        refines=("api-changed", "call-arguments", "factory-with-parameters"),
        errors=("TypeError",),
        messages=(
            r"unexpected keyword argument '(?:evaluation_strategy|max_seq_length|"
            r"dataset_text_field|tokenizer|no_cuda|logging_dir|overwrite_output_dir|"
            r"processing_class|packing|eval_packing|max_prompt_length)'",
        ),
        examples=(
            "TypeError: TrainingArguments.__init__() got an unexpected keyword argument "
            "'evaluation_strategy'",
        ),
        told_by="the call is of a trainer or its arguments",
        why="The trainers renamed or removed arguments between versions.",
        fix="Use the new names: eval_strategy for evaluation_strategy, processing_class for the "
        "Trainer's tokenizer, use_cpu for no_cuda; in TRL max_length for max_seq_length, and "
        "dataset_text_field and packing belong to SFTConfig. processing_class is unknown to "
        "transformers below 4.46: upgrade it, or install an older trl. Where the last frame is a "
        "library's own (trl calls transformers), upgrade that library. Or install the versions "
        "that the code was written for.",
        commands=("python -m pip show transformers trl accelerate",),
    ),
    Cause(
        id="column-is-no-list",
        errors=("TypeError",),
        messages=(r"must be tuple of Tensors, not Column|'Column' object",),
        examples=(
            "TypeError: stack(): argument 'tensors' (position 1) must be tuple of Tensors, not "
            "Column",
        ),
        why="Since datasets 4.0 a column of a dataset is read when it is used, and is no list.",
        fix='Make a list of it, list(dataset["name"]) or dataset["name"][:], or install '
        "datasets<4 for code that expects one.",
        owner=Owner.ENVIRONMENT,
    ),
    Cause(
        id="chat-template-missing",
        errors=("ValueError",),
        messages=(
            r"tokenizer\.chat_template is not set",
            r"does not have a chat template|[Nn]o chat.template is (?:set|defined|provided)|"
            r"`?chat_template`? is (?:null|None|not set)",
        ),
        examples=(
            "ValueError: Cannot use apply_chat_template because this processor does not have a "
            "chat template.",
            "ValueError: Cannot use chat template functions because tokenizer.chat_template is "
            "not set and no template argument was passed!",
        ),
        why="A base model has no format of dialogues, and the data are messages.",
        fix="Start from the instruct variant, or give the tokenizer a template before training "
        "(tokenizer.chat_template = ..., clone_chat_template of TRL) and save it with the model.",
    ),
    Cause(
        id="quantized-without-adapter",
        errors=("ValueError",),
        messages=(r"fine-tuning on purely quantized models",),
        examples=(
            "ValueError: You cannot perform fine-tuning on purely quantized models. Please attach "
            "trainable adapters on top of the quantized model",
        ),
        why="Weights in 4 or 8 bits cannot be trained.",
        fix="Attach an adapter (get_peft_model(model, LoraConfig(...)), or peft_config= of the "
        "trainer) before the Trainer is built, or load the model without quantization.",
    ),
    Cause(
        id="import-within-transformers",
        errors=("RuntimeError",),
        messages=(r"Failed to import \w{1,40}[\w.]{0,160} because of the following error",),
        examples=(
            "RuntimeError: Failed to import transformers.models.llama.modeling_llama because of "
            "the following error (look up to see its traceback):",
        ),
        why="The library's import failed at another package; the line after this one and the "
        "traceback above name it.",
        fix="Fix that package: reinstall or upgrade it, or uninstall it if nothing needs it "
        "(flash-attn, torchvision, deepspeed, bitsandbytes, xformers are the usual ones).",
        owner=Owner.ENVIRONMENT,
        role="summary",
    ),
    Cause(
        id="scalar-under-dataparallel",
        messages=(r"chunk expects at least a 1-dimensional tensor",),
        examples=("RuntimeError: chunk expects at least a 1-dimensional tensor",),
        why="One process sees several GPUs, so that the trainer wraps the model in "
        "nn.DataParallel, which splits every argument, and one is a single number.",
        fix="Show the process one GPU (CUDA_VISIBLE_DEVICES=0), or start one process for each "
        "GPU: torchrun --nproc-per-node=N, accelerate launch. A newer transformers leaves "
        "num_items_in_batch whole.",
        commands=("CUDA_VISIBLE_DEVICES=0 python train.py",),
    ),
)
