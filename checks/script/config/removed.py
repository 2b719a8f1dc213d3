"""Rules on functions and arguments that newer versions no longer have."""

from __future__ import annotations

from collections.abc import Iterator

from doctor.checks.script.installed import limited, pinned, release
from doctor.checks.script.rule import Match, Rule, Severity, each_of
from doctor.checks.script.training import Training
from doctor.facts.script import Arms, Span

REMOVED = {
    "torch.solve": ("2.0", "torch.linalg.solve"), "torch.symeig": ("2.0", "torch.linalg.eigh"),
    "torch.eig": ("2.0", "torch.linalg.eig"), "torch.lstsq": ("2.0", "torch.linalg.lstsq"),
    "torch.matrix_rank": ("2.0", "torch.linalg.matrix_rank"),
    "torch.rfft": ("1.8", "torch.fft.rfft"), "torch.irfft": ("1.8", "torch.fft.irfft"),
    "torch.ifft": ("1.8", "torch.fft.ifft"), "torch.fft": ("1.8", "torch.fft.fft"),
    "torch.gels": ("1.3", "torch.linalg.lstsq"),
    "torch.btrifact": ("1.3", "torch.linalg.lu_factor"),
    "torch.potrf": ("1.3", "torch.linalg.cholesky"),
    "torch.trtrs": ("1.3", "torch.linalg.solve_triangular"),
    "torch.set_deterministic": ("1.11", "torch.use_deterministic_algorithms"),
    "torch.is_deterministic": ("1.11", "torch.are_deterministic_algorithms_enabled"),
    "torch.distributed.all_reduce_multigpu": ("2.2", "torch.distributed.all_reduce"),
    "torch.distributed.broadcast_multigpu": ("2.2", "torch.distributed.broadcast"),
}  # fmt: skip
"""Functions that raise when they are called: the version that surely has no more of them, and what
to use. Each was called with torch 2.13."""
MODULES = {
    "torch._six": ("2.0", "the standard library"),
    "torch.utils.ffi": ("1.0", "torch.utils.cpp_extension"), "torch.legacy": ("1.0", "torch.nn"),
}  # fmt: skip
OF_NUMPY = {f"numpy.{name}": name for name in ("float", "int", "object", "str", "complex")}
"""Names of builtins that numpy had until 1.24; bool and long came back in 2.0."""
DEPRECATED = {
    "torch.cholesky": "torch.linalg.cholesky", "torch.qr": "torch.linalg.qr",
    "torch.svd": "torch.linalg.svd", "torch.lu": "torch.linalg.lu_factor",
    "torch.chain_matmul": "torch.linalg.multi_dot", "torch.ger": "torch.outer",
    "torch.range": "torch.arange", "torch.triangular_solve": "torch.linalg.solve_triangular",
    "torch.lu_solve": "torch.linalg.lu_solve",
    "torch.set_default_tensor_type": "torch.set_default_dtype and set_default_device",
    "torch.cuda.memory_cached": "torch.cuda.memory_reserved",
    "torch.cuda.max_memory_cached": "torch.cuda.max_memory_reserved",
    "torch.nn.functional.upsample": "torch.nn.functional.interpolate",
    "torch.nn.functional.upsample_bilinear": "torch.nn.functional.interpolate",
    "torch.nn.functional.upsample_nearest": "torch.nn.functional.interpolate",
    "torch.nn.utils.clip_grad_norm": "torch.nn.utils.clip_grad_norm_",
    "torch.nn.utils.weight_norm": "torch.nn.utils.parametrizations.weight_norm",
    "torch.nn.init.uniform": "torch.nn.init.uniform_",
    "torch.nn.init.normal": "torch.nn.init.normal_",
    "torch.nn.init.constant": "torch.nn.init.constant_",
    "torch.nn.init.xavier_uniform": "torch.nn.init.xavier_uniform_",
    "torch.nn.init.xavier_normal": "torch.nn.init.xavier_normal_",
    "torch.nn.init.kaiming_uniform": "torch.nn.init.kaiming_uniform_",
    "torch.nn.init.kaiming_normal": "torch.nn.init.kaiming_normal_",
    "torch.nn.init.orthogonal": "torch.nn.init.orthogonal_",
    "torch.backends.cuda.sdp_kernel": "torch.nn.attention.sdpa_kernel",
    "torch.testing.assert_allclose": "torch.testing.assert_close",
    "functorch.vmap": "torch.func.vmap", "functorch.grad": "torch.func.grad",
    "functorch.jacrev": "torch.func.jacrev", "functorch.jacfwd": "torch.func.jacfwd",
    "functorch.vjp": "torch.func.vjp", "functorch.jvp": "torch.func.jvp",
}  # fmt: skip
"""Functions whose documentation says that they are deprecated, and what it says to use."""
ARGUMENTS = {
    "evaluation_strategy": "eval_strategy", "no_cuda": "use_cpu", "overwrite_output_dir": "",
    "per_gpu_train_batch_size": "per_device_train_batch_size", "logging_dir": "",
    "fp16_backend": "", "half_precision_backend": "", "save_safetensors": "",
    "push_to_hub_token": "hub_token", "push_to_hub_model_id": "hub_model_id", "sharded_ddp": "fsdp",
    "group_by_length": "train_sampling_strategy", "fsdp_min_num_params": "fsdp_config",
    "use_mps_device": "", "warmup_ratio": "warmup_steps", "jit_mode_eval": "", "use_ipex": "",
    "fp16_opt_level": "", "adafactor": 'optim="adafactor"', 
    "dispatch_batches": "accelerator_config",
    "split_batches": "accelerator_config", "past_index": "", "ray_scope": "",
    "include_tokens_per_second": "include_num_input_tokens_seen",
}  # fmt: skip
"""Arguments of TrainingArguments that transformers 5.23 has no more, and what it has instead."""
LATE = {"warmup_ratio", "logging_dir"}
"""Those that 5.0 and 5.1 still have: their warning says that 5.2 removes them."""
TRANSFORMERS = {"AdamW": "torch.optim.AdamW", "AutoModelWithLMHead": "AutoModelForCausalLM",
                "TextDataset": "the datasets library", 
                "LineByLineTextDataset": "the datasets library",
                "is_torch_tpu_available": "is_torch_xla_available"}  # fmt: skip


REMOVED_NAMES = {name.rpartition(".")[2] for name in REMOVED}
DEPRECATED_NAMES = {name.rpartition(".")[2] for name in DEPRECATED}


def _is_fallback(reading: Training, arms: Arms) -> bool:
    """In a try statement, or under a test that chooses among versions."""
    return any(
        reading.branches[branch].kind == "try"
        or "version" in (test.text if (test := reading.test_of(branch)) else "")
        or "hasattr" in (test.text if test else "")
        for branch, _ in arms
    )


def removed_function(reading: Training) -> Iterator[Match]:
    for call in reading.named(*REMOVED_NAMES):
        if call.name in REMOVED and not _is_fallback(reading, call.arms):
            since, instead = REMOVED[call.name]
            yield from _gone(reading, call.name, call.name_span, since, instead)
    for each in reading.script.imports:
        for module, (since, instead) in MODULES.items():
            if each.name.startswith(f"{module}.") and not _is_fallback(reading, each.arms):
                yield from _gone(reading, module, each.span, since, instead)


def removed_of_numpy(reading: Training) -> Iterator[Match]:
    """np.float raises an AttributeError since numpy 1.24."""
    if (
        not reading.imports_from("numpy")
        or limited(reading, "numpy", (1, 24))
        or reading.mentions("LooseVersion")
    ):
        return
    given = {a.target.partition(".")[2] for a in reading.stores
             if a.target.startswith(("np.", "numpy."))}  # fmt: skip
    found = [(r.name, r.span, r.arms) for r in reading.script.references]
    found += [(c.name, c.name_span, c.arms) for c in reading.named(*OF_NUMPY.values())]
    for name, span, arms in found:
        if name in OF_NUMPY and OF_NUMPY[name] not in given and not _is_fallback(reading, arms):
            message = f"{name} is gone since numpy 1.24; use {OF_NUMPY[name]}"
            yield Match(span, message, "warn", fix=f"Use {OF_NUMPY[name]}.")


def _gone(reading: Training, name: str, span: Span, since: str, instead: str) -> Iterator[Match]:
    number = release(since)
    if reading.machine.torch is not None and release(reading.machine.torch) < number:
        return
    if reading.machine.torch is None and limited(reading, "torch", number):
        return
    yield Match(span, f"{name} is gone since torch {since}; use {instead}")


def deprecated_function(reading: Training) -> Iterator[Match]:
    for call in reading.named(*DEPRECATED_NAMES):
        if (instead := DEPRECATED.get(call.name)) and not _is_fallback(reading, call.arms):
            yield Match(call.name_span, f"{call.name} is deprecated; use {instead}")


def _installed(reading: Training) -> tuple[int, ...]:
    """The version of transformers that is installed or required; (0,) if it is not known."""
    version = reading.machine.transformers or pinned(reading, "transformers")
    return release(version) if version is not None else (0,)


def _severity(reading: Training) -> Severity | None:
    """A failure where transformers 5 is installed or required, else a note; None below 5.

    evaluation_strategy went within transformers 4, half a year after processing_class came: both
    in one file are a warning.
    """
    if _installed(reading) >= (5,):
        return "fail"
    if reading.machine.transformers is not None or limited(reading, "transformers", (5,)):
        return None
    return "note"


def arguments_removed(reading: Training) -> Iterator[Match]:
    severity = _severity(reading)
    if severity is None:
        return
    recent = any("processing_class" in call.keywords for call in reading.calls)
    for span, message in (*_arguments(reading), *_classes(reading)):
        gone = severity == "note" and recent and "evaluation_strategy" in message
        yield Match(span, message, "warn" if gone else severity)


def _arguments(reading: Training) -> Iterator[tuple[Span, str]]:
    kept = LATE if (5,) <= _installed(reading) < (5, 2) else ()
    for call in reading.named("TrainingArguments", "Seq2SeqTrainingArguments"):
        names = [name for name in call.keywords if name in ARGUMENTS and name not in kept]
        if names and call.name.startswith("transformers.") and not _is_fallback(reading, call.arms):
            text = ", ".join(f"{n} ({ARGUMENTS[n]})" if ARGUMENTS[n] else n for n in names)
            yield call.name_span, f"transformers 5 has no argument {text}"
    for call in reading.named("Trainer", "Seq2SeqTrainer"):
        known = call.name.startswith("transformers.") and not _is_fallback(reading, call.arms)
        if known and "tokenizer" in call.keywords:
            message = "transformers 5 has no argument tokenizer (processing_class) of Trainer"
            yield call.name_span, message


def _classes(reading: Training) -> Iterator[tuple[Span, str]]:
    for each in reading.script.imports:
        module, _, name = each.name.rpartition(".")
        known = module in ("transformers", "transformers.optimization") and name in TRANSFORMERS
        if known and not _is_fallback(reading, each.arms):
            yield each.span, f"transformers 5 has no {name}; use {TRANSFORMERS[name]}"


def loss_signature(reading: Training) -> Iterator[Match]:
    version = reading.machine.transformers or pinned(reading, "transformers")
    if limited(reading, "transformers", (4, 46)) or (
        reading.machine.transformers is not None and release(reading.machine.transformers) < (4, 46)
    ):
        return
    certain = version is not None and release(version) >= (4, 46)
    owners = {
        each.name
        for each in reading.script.classes
        if any(b in ("transformers.Trainer", "transformers.Seq2SeqTrainer") for b in each.bases)
    }
    for number in reading.functions_by_name.get("compute_loss", ()):
        function = reading.function(number)
        names = [parameter.name for parameter in function.parameters]
        if function.owner not in owners or function.accepts_any or "num_items_in_batch" in names:
            continue
        message = f"{function.owner}.compute_loss takes no num_items_in_batch"
        span = function.span
        yield Match(span, message, "fail" if certain else "warn")


OF_SFT = {
    "dataset_text_field", "max_seq_length", "packing", "dataset_num_proc", "dataset_batch_size",
    "neftune_noise_alpha", "model_init_kwargs", "eval_packing", "num_of_sequences", "tokenizer",
}  # fmt: skip
OF_PREFERENCE = {
    "beta", "label_smoothing", "loss_type", "max_length", "max_prompt_length", "max_target_length",
    "padding_value", "truncation_mode", "precompute_ref_log_probs", "dataset_num_proc",
    "model_init_kwargs", "tokenizer", "is_encoder_decoder", "disable_dropout",
}  # fmt: skip
TRL = {
    "SFTTrainer": OF_SFT, "DPOTrainer": OF_PREFERENCE, "KTOTrainer": OF_PREFERENCE,
    "ORPOTrainer": OF_PREFERENCE, "RewardTrainer": {"max_length", "tokenizer"},
    "SFTConfig": {"max_seq_length"},
}  # fmt: skip
RENAMED = {"tokenizer": "processing_class", "max_seq_length": "max_length of SFTConfig"}


def trl_arguments(reading: Training) -> Iterator[Match]:
    if limited(reading, "trl", (0, 20)) or reading.imports_from("unsloth"):
        return
    for call in reading.named(*TRL):
        names = sorted(TRL[call.method] & call.keywords.keys())
        if names and call.name.startswith("trl.") and not _is_fallback(reading, call.arms):
            text = ", ".join(f"{n} ({RENAMED[n]})" if n in RENAMED else n for n in names)
            severity: Severity = "note" if reading.script.kind == "notebook" else "warn"
            yield Match(call.name_span, f"{call.method} of TRL has no argument {text}", severity)


RULES = (
    Rule(
        code="SCR163",
        slug="removed-function",
        title="Functions exist in the installed torch",
        severity="fail",
        find=each_of(removed_function, removed_of_numpy),
        why="These functions raise when they are called, and their modules when they are imported.",
        fires=(
            "a call of a function that torch removed, outside of a try statement",
            "a warning: np.float, np.int, np.object, np.str or np.complex, gone since numpy 1.24",
        ),
        fix="Use the function that the message names; arguments and results may differ.",
        sources=("torchfix-rules", "torch-linalg"),
        limits="that functions which the table does not hold exist.",
        words=(
            r"torch\.(?:solve|symeig|eig|lstsq|matrix_rank|i?r?fft|gels|btrifact|potrf|trtrs)\b",
            r"_deterministic\(",
            r"_multigpu\(",
            r"torch\._six|torch\.utils\.ffi|torch\.legacy",
        ),
    ),
    Rule(
        code="SCR164",
        slug="deprecated-function",
        title="Functions are not deprecated",
        severity="note",
        find=deprecated_function,
        training=True,
        why="Deprecated functions work and warn; a later version removes them.",
        fires=("a call of a function whose documentation calls it deprecated",),
        fix="Use the function that the message names.",
        sources=("torchfix-rules", "torch-linalg"),
        limits="that functions which the table does not hold are current.",
    ),
    Rule(
        code="SCR165",
        slug="trainer-argument-removed",
        title="Arguments exist in transformers 5",
        severity="note",
        find=arguments_removed,
        training=True,
        why="transformers 5 has removed arguments and classes that scripts for 4 use: the run ends "
        "with a TypeError or an ImportError.",
        fires=(
            "an argument of TrainingArguments or Trainer, or a class, that transformers 5 lacks",
        ),
        errors=("the same with transformers 5 installed or required",),
        fix="Use what the message names in brackets; omit an argument without one.",
        sources=("transformers-training-args",),
        limits="that the installed transformers has the other arguments.",
    ),
    Rule(
        code="SCR167",
        slug="trl-argument-removed",
        title="Arguments exist in TRL",
        severity="warn",
        find=trl_arguments,
        training=True,
        why="TRL moved arguments of its Trainers into their configurations (0.13 to 0.16) and "
        "renamed max_seq_length (0.20): the script ends with a TypeError.",
        fires=("an argument that SFTTrainer, DPOTrainer and the like, or SFTConfig, lack",),
        fix="Pass it to SFTConfig or DPOConfig, or pin trl in requirements.txt.",
        needs=("trl",),
        sources=("workbench-example-llama3-finetune-1", "unsloth-2985"),
        limits="that the installed TRL has the other arguments. Notebooks, which often install a "
        "version of their own, get a note.",
    ),
    Rule(
        code="SCR166",
        slug="compute-loss-signature",
        title="compute_loss of a Trainer accepts num_items_in_batch",
        severity="warn",
        find=loss_signature,
        why="Since transformers 4.46 the Trainer passes num_items_in_batch to compute_loss: an "
        "override without it raises a TypeError in the first step.",
        fires=("a subclass of Trainer overrides compute_loss without it and without **kwargs",),
        errors=("the same with transformers 4.46 or later installed or required",),
        fix="Add num_items_in_batch=None to the parameters.",
        needs=("compute_loss",),
        sources=("transformers-trainer",),
        words=(r"def\s+compute_loss",),
    ),
)
