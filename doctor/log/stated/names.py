"""Names of settings in logs, as canonical ones."""

from __future__ import annotations

import re

SETTINGS = {
    "accumulation": (
        "gradient_accumulation_steps grad_accum grad_accum_steps gradient_accumulation grad_acc "
        "accumulate_grad_batches accumulation_steps accum_steps update_freq accum_iter accum_grad "
        "gradient_accumulation_step grad_accumulation_steps"
    ),
    "amp": "amp use_amp enable_amp",
    "adam_beta2": "adam_beta2 beta2 adam_beta_2",
    "all_params": (
        "all_params total_params total_parameters number_of_parameters num_params param_count "
        "parameters model_parameters n_params params total_number_of_parameters model_params"
    ),
    "augmentation": "augment augmentation data_augmentation use_augmentation do_augment",
    "batch_size": (
        "per_device_train_batch_size batch_size train_batch_size micro_batch_size "
        "train_micro_batch_size_per_gpu instantaneous_batch_size_per_device batch_size_per_device "
        "per_gpu_train_batch_size per_device_batch samples_per_gpu batch_size_per_gpu bs batch "
        "local_batch_size device_batch_size batchsize imgs_per_gpu batch_size_per_rank "
        "per_device_batch_size ppo_micro_batch_size_per_gpu train_bs per_gpu_batch_size "
        "train_batch_size_per_gpu"
    ),
    "best_kept": "load_best_model_at_end restore_best_weights save_best_only",
    "beta": "beta kl_coef init_kl_coef kl_loss_coef kl_beta dpo_beta pref_beta",
    "bf16": "bf16 use_bf16 bf16_enabled bfloat16_enabled",
    "checkpointing": (
        "gradient_checkpointing activation_checkpointing enable_activation_checkpointing "
        "use_gradient_checkpointing grad_checkpointing enable_gradient_checkpointing "
        "recompute_activations"
    ),
    "clip": (
        "max_grad_norm clip_grad grad_clip clip_grad_norm gradient_clip_val gradient_clipping "
        "clip_norm grad_norm_clip gradient_clip clip grad_clip_norm max_norm clip_max_norm"
    ),
    "classes": "num_labels num_classes n_classes nc",
    "cores": (
        "cpus_per_task slurm_cpus_per_task slurm_cpus_on_node n_cpus cpu_cores cpu_count num_cpus "
        "nproc"
    ),
    "critic_rate": "critic_lr critic_learning_rate value_lr",
    "ctc_zero_infinity": "ctc_zero_infinity zero_infinity",
    "data_parallel": "data_parallel_size dp_size",
    "discriminator_rate": "lr_d d_lr lrd disc_lr discriminator_lr lr_disc d_learning_rate",
    "discriminator_steps": "n_critic d_steps disc_iters n_dis num_d_steps d_iters k_d",
    "dropout": "dropout hidden_dropout dropout_rate drop_rate dropout_prob drop dropout_p",
    "dtype": "torch_dtype dtype params_dtype param_dtype model_dtype weights_dtype",
    "early_stopping": (
        "early_stopping_patience early_stopping early_stop early_stop_patience "
        "early_stopping_rounds"
    ),
    "router_loss_weight": (
        "router_aux_loss_coef moe_aux_loss_coef moe_aux_loss_coeff moe_aux_loss_weight"
    ),
    "entropy_weight": "ent_coef entropy_coef entropy_coeff entropy_loss_coef entropy_weight",
    "epochs": (
        "num_train_epochs num_epochs epochs max_epochs n_epochs_train total_epochs max_epoch niter "
        "nepochs num_epoch epoches"
    ),
    "eval_batch_size": (
        "per_device_eval_batch_size eval_batch_size val_batch_size valid_batch_size "
        "per_gpu_eval_batch_size validation_batch_size test_batch_size val_bs"
    ),
    "eval_steps": "eval_steps eval_interval eval_every val_check_interval evaluation_interval",
    "fp16": "fp16 use_fp16 fp16_enabled",
    "gamma": "lr_gamma lr_decay_rate decay_rate",
    "generations": "num_generations rollout_n n_samples_per_prompt num_return_sequences group_size",
    "generator_rate": "lr_g g_lr lrg gen_lr generator_lr lr_gen g_learning_rate",
    "global_batch": (
        "global_batch_size total_train_batch_size total_batch_size effective_batch_size "
        "global_batch total_train_batch_size_w_parallel_distributed_accumulation "
        "global_train_batch_size"
    ),
    "gpu_memory_share": "gpu_memory_utilization vllm_gpu_memory_utilization",
    "hidden_size": "hidden_size n_embd d_model embed_dim hidden_dim emsize",
    "host_memory": "ram host_memory system_memory total_ram",
    "kl_weight": "kl_weight kld_weight kl_scale beta_vae vae_beta",
    "label_smoothing": "label_smoothing label_smoothing_factor",
    "layers": "num_hidden_layers num_layers n_layer n_layers depth",
    "learning_rate": (
        "learning_rate lr base_lr lr0 peak_lr max_lr initial_lr init_lr actor_learning_rate "
        "actor_lr blr peak_learning_rate unet_lr encoder_lr learning_rate_peak"
    ),
    "lora_alpha": "lora_alpha network_alpha alpha_lora",
    "lora_rank": "lora_r lora_rank network_dim lora_dim rank_lora",
    "loss_scale": "loss_scale initial_scale init_scale static_loss_scale",
    "max_steps": (
        "max_steps total_optimization_steps max_train_steps train_iters total_steps max_iters "
        "num_training_steps max_iter total_iterations n_steps_total max_updates max_update "
        "train_steps num_steps total_training_steps max_optimizer_steps"
    ),
    "min_rate": "min_lr eta_min lr_min final_lr",
    "model": (
        "model_name_or_path base_model model_name pretrained_model_name_or_path model model_type "
        "name_or_path arch architecture model_id pretrain model_path backbone actor_model "
        "base_model_name model_arch"
    ),
    "momentum": "momentum sgd_momentum",
    "optimizer": "optimizer optim opt optimizer_type optimizer_name optimiser",
    "packing": "packing sample_packing",
    "padding": "padding pad_to_max_length pad_to_sequence_len",
    "policy_epochs": "n_epochs ppo_epochs num_ppo_epochs update_epochs num_learning_epochs",
    "position_limit": (
        "max_position_embeddings n_positions model_max_positions max_positions block_size_limit"
    ),
    "precision": "mixed_precision precision amp_dtype compute_dtype mixed_precision_type",
    "prefetch": "prefetch_factor",
    "resume": (
        "resume_from_checkpoint resume resume_from ckpt_path load_from resume_path "
        "load_checkpoint_path"
    ),
    "rslora": "use_rslora rslora",
    "rows": (
        "num_examples train_samples num_train_samples train_size samples train_dataset_size "
        "train_images num_train_examples n_train training_examples training_samples "
        "train_examples dataset_size train_rows train_set_size"
    ),
    "schedule_steps": (
        "t_max lr_decay_iters lr_decay_steps t_total total_iters num_decay_steps cosine_steps "
        "decay_steps scheduler_steps lr_scheduler_steps schedule_steps"
    ),
    "save_steps": (
        "save_steps save_interval checkpoint_interval ckpt_interval checkpointing_steps save_every "
        "every_n_train_steps checkpoint_every save_freq"
    ),
    "log_steps": "logging_steps log_interval log_every log_every_n_steps",
    "scheduler": (
        "lr_scheduler_type lr_scheduler scheduler sched lr_schedule lr_decay_style "
        "learning_rate_decay_style"
    ),
    "seq_length": (
        "max_seq_length max_length seq_length sequence_len cutoff_len model_max_length block_size "
        "max_len seq_len context_length max_seq_len max_sequence_length bptt maxlen"
    ),
    "shuffle": "shuffle train_shuffle shuffle_train",
    "temperature": "temperature sampling_temperature",
    "timeout": "ddp_timeout dist_timeout nccl_timeout process_group_timeout ddp_timeout_seconds",
    "tokenizer_size": "len_tokenizer tokenizer_size tokenizer_vocab_size tokenizer_length",
    "trainable_params": (
        "trainable_params number_of_trainable_parameters trainable_parameters num_trainable_params "
        "trainable"
    ),
    "truncation": "truncation truncate",
    "vocab_size": "vocab_size n_vocab padded_vocab_size model_vocab_size",
    "warmup_epochs": "warmup_epochs warmup_epoch",
    "warmup_ratio": "warmup_ratio warmup_fraction warmup_proportion lr_warmup_fraction",
    "warmup_steps": (
        "warmup_steps num_warmup_steps lr_warmup_steps lr_warmup_iters warmup_iters warmup_updates "
        "warmup_iterations warm_up_steps"
    ),
    "weight_decay": "weight_decay wd",
    "workers": (
        "num_workers dataloader_num_workers workers n_workers workers_per_gpu num_data_workers "
        "loader_workers train_num_workers"
    ),
    "world_size": (
        "world_size num_gpus n_gpus ngpus gpus num_processes nproc_per_node devices "
        "num_devices"
    ),
}  # fmt: skip
"""Canonical names -> names in logs, normalized."""
NAMES = {alias: name for name, aliases in SETTINGS.items() for alias in aliases.split()}
LONGEST = 10
"""Words of a name before its value: "Total train batch size"."""
SECTIONS = {
    "eval": "eval_", "val": "eval_", "valid": "eval_", "validation": "eval_", "test": "eval_",
    "critic": "critic_", "ref": "ref_", "disc": "d_", "discriminator": "d_", "gen": "g_",
    "generator": "g_",
}  # fmt: skip
"""Parts of a dotted name that make a setting one of another part of the training."""
_SIGNS = re.compile(r"(?:[\s/&,()\-]|\.(?=\s))+")


def canonical(words: str) -> str:
    """The canonical name of a setting, by what stands before its value; "" for no setting."""
    name = _SIGNS.sub("_", words.lower()).strip("_.>")
    if name in NAMES:
        return NAMES[name]
    *sections, last = name.split(".")
    if not sections or " " in words:
        return ""
    part = next((SECTIONS[each] for each in sections if each in SECTIONS), "")
    return NAMES.get(f"{part}{last}", "")
