"""In which part of a program the memory ended, by the functions of the traceback."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Stage:
    """A part of a program, what it says of the failure, and what helps there."""

    functions: re.Pattern[str]
    summary: str
    fix: str


def _stage(functions: str, summary: str, fix: str) -> Stage:
    return Stage(re.compile(rf"(?:^|[ .])(?:{functions})(?: |$)"), summary, fix)


STAGES = (
    _stage(r"nested_concat|evaluation_loop|evaluate|_evaluate|prediction_step|validation_step|"
        r"validate|run_validation|predict_step|eval_step|test_step|validation|predict",
        "in the evaluation",
        "Training fits, the evaluation does not: a smaller training batch changes nothing. With "
        "compute_metrics the Trainer keeps the logits of all examples on the GPU (examples x "
        "length x vocabulary): reduce them with preprocess_logits_for_metrics (argmax), move them "
        "to the host with eval_accumulation_steps=1, or set prediction_loss_only=True; lower "
        "per_device_eval_batch_size. In a loop of your own use torch.no_grad() and keep "
        "results as .cpu() or .item()."),
    _stage(r"generate|_sample|_generate\w*|_beam_search|_assisted_decoding|sample_sequence",
        "in the generation",
        "Generate smaller batches and fewer tokens (max_new_tokens, max_completion_length): each "
        "token of each sample keeps its keys and values. Use torch.no_grad() and "
        "model.gradient_checkpointing_disable() there."),
    _stage(r"_load_optimizer\w*|load_optimizer\w*|_load_optimizer_and_scheduler",
        "while the state of the optimizer is loaded",
        'Load it on the host first, torch.load(..., map_location="cpu"), and delete it after '
        "load_state_dict; with FSDP or ZeRO load sharded checkpoints."),
    _stage(r"save_checkpoint|_save_checkpoint|save_model|save_pretrained|_gather_state_dict|"
        r"full_tensor" r"|_full_post_state_dict_hook|get_state_dict|_save\w*",
        "while a checkpoint is gathered",
        "Training fits, the gathered checkpoint does not: save shards "
        "(SHARDED_STATE_DICT, torch.distributed.checkpoint), or gather with offload_to_cpu=True "
        "and rank0_only=True; DeepSpeed: stage3_gather_16bit_weights_on_model_save=false."),
    _stage(r"backward_prologue", "for DeepSpeed's bucket of gradients",
        "ZeRO allocates a whole bucket of reduce_bucket_size elements beside the model: lower it "
        "(and allgather_bucket_size) in zero_optimization, to 5e8 or less, or turn "
        "overlap_comm off, which takes a second one."),
    _stage(r"_init_group|_multi_tensor_\w+|_single_tensor_\w+|_fused_\w+|adamw?|init_state|"
        r"_initialize_states|initialize_optimizer_states", "as the optimizer makes its states",
        "Weights, gradients and activations fit; the optimizer's states come on top at the first "
        "step (8 bytes for each trained parameter with Adam in fp32). Shard them (FSDP, ZeRO), "
        "use an 8-bit or paged optimizer (bitsandbytes), train an adapter, or foreach=False, "
        "which needs no copy of all gradients. The size of the batch changes little."),
    _stage(r"cross_entropy|nll_loss|ForCausalLMLoss|fixed_cross_entropy|log_softmax|loss_function|"
        r"selective_log_softmax|entropy_from_logits", "for the logits and their loss",
        "The logits take batch x length x vocabulary, in fp32 for the loss: use a fused or chunked "
        "cross-entropy (use_liger_kernel=True, cut_cross_entropy), compute logits of the labelled "
        "positions only, or a smaller micro-batch with gradient accumulation and shorter "
        "sequences."),
    _stage(r"from_pretrained|_load_pretrained_model|_load_state_dict_into\w*|dispatch_model|"
        r"set_module_tensor_to_device|load_model|load_checkpoint|convert|_apply|cuda|to|"
        r"prepare_model|init_parameters\w*|_init_param\w*", "while the model is loaded",
        "The weights alone do not fit, so that the batch does not matter: load them in bf16 "
        "(dtype=; fp32 takes twice as much), quantized, or sharded (device_map, FSDP, ZeRO-3). "
        "With several ranks let each use its own GPU (LOCAL_RANK; map_location in torch.load), and "
        "look for other processes on it in nvidia-smi."),
    _stage(r"scaled_dot_product_attention|eager_attention_forward|attention_scores|_attn|softmax",
        "in the attention", "Attention without a fused kernel takes length x length for each head: "
        'attn_implementation="flash_attention_2" or "sdpa", no dense mask, shorter sequences, or a '
        "smaller micro-batch."),
)  # fmt: skip
"""The first that occurs counts: an evaluation contains a forward pass."""


def stage_of(functions: str) -> Stage | None:
    """The part of a program, by the functions of a traceback, separated by spaces."""
    return next((stage for stage in STAGES if stage.functions.search(functions)), None)
