"""DeepSpeed: its configuration, its launcher, its stages, its compiled operators."""

from __future__ import annotations

from doctor._util.owner import Owner
from doctor.errors.cause import Cause, Wording

ROWS = (
    Cause(id="deepspeed-configuration", refines=("attribute-missing",),
        wordings=(
            Wording(r"validation errors? for DeepSpeed\w{0,40}Config|DeepSpeedConfigError",
                "pydantic_core._pydantic_core.ValidationError: 1 validation error for "
                "DeepSpeedZeroConfig",
                "DeepSpeed refuses a field of its configuration: the lines after this one name "
                "the field, the value and the expected type.",
                "Give the field that type: bucket sizes are integers "
                "(stage3_prefetch_bucket_size: 0.9 * hidden_size ** 2 has a fraction; newer "
                'transformers round it, deepspeed 0.14 accepted it), "auto" is only understood '
                "by the Trainer and accelerate, and one of fp16 and bf16 is on.",
                ("python -m pip show deepspeed transformers",)),
            Wording("correct the following DeepSpeed config values that mismatch",
                "ValueError: Please correct the following DeepSpeed config values that mismatch "
                "TrainingArguments values:",
                "The DeepSpeed file and the TrainingArguments name different values for the "
                "same thing.",
                'Set these fields of the DeepSpeed file to "auto" (batch sizes, accumulation, '
                "lr, weight_decay, warmup, fp16, bf16, gradient_clipping), so that they come "
                "from the arguments."),
            Wording("requires you to pass at least one of training or evaluation dataloaders",
                "ValueError: When using DeepSpeed, `accelerate.prepare()` requires you to pass "
                "at least one of training or evaluation dataloaders with `batch_size` attribute",
                "accelerate takes the micro-batch of DeepSpeed from a loader, and none was "
                "given to prepare or it has a batch_sampler of its own.",
                "Pass the loader to accelerator.prepare together with the model, or set "
                "train_micro_batch_size_per_gpu in "
                "AcceleratorState().deepspeed_plugin.deepspeed_config first."),
            Wording(r"ZeRO(?:-3)? inference (?:only )?makes sense (?:only )?with ZeRO|zero "
                r"stage \d requires an optimizer",
                "ValueError: ZeRO inference makes sense only with ZeRO Stage 3 - please adjust "
                "your config",
                "Evaluation or prediction starts without a training step, and DeepSpeed shards "
                "weights for that under stage 3 only.",
                "Evaluate without the DeepSpeed configuration, or use stage 3 for it. With "
                "eval_on_start or evaluate() before train(), leave that first evaluation out. A "
                "training needs an optimizer for deepspeed.initialize, a frozen reference model "
                "a configuration of its own."),
            Wording("None of the param groups are marked as MoE",
                "AssertionError: The model has moe layers, but None of the param groups are "
                "marked as MoE. Create a param group with 'moe' key set to True before creating "
                "optimizer",
                "DeepSpeed's experts need groups of parameters of their own, and the optimizer "
                "was made with plain ones.",
                "Make the groups with "
                "deepspeed.moe.utils.split_params_into_different_moe_groups_for_optimizer and "
                "give them to the optimizer. In a Trainer: override create_optimizer."),
            Wording("fp16 is enabled but the following parameters have dtype that is not fp16",
                "ValueError: fp16 is enabled but the following parameters have dtype that is "
                "not fp16: classifier.weight",
                "DeepSpeed expects the whole model in the dtype of its configuration.",
                'Set bf16 in the DeepSpeed configuration for a bf16 checkpoint ("bf16": '
                '{"enabled": "auto"}, "fp16": {"enabled": "auto"}), or load with '
                "dtype=torch.float16; cast new heads and adapters to the same dtype."),
            Wording(r"DeepSpeed Zero-?3 is not compatible with|assert len\(set\(t\.device for t "
                r"in tensors\)\) == 1|ZeRO-3 is incompatible with",
                "assert len(set(t.device for t in tensors)) == 1",
                "Under ZeRO-3 DeepSpeed itself places the weights while they are loaded.",
                "Remove device_map and low_cpu_mem_usage from from_pretrained, and make the "
                "TrainingArguments before the model, so that it is loaded in shards. Parts that "
                "are already on different devices: bring the model to one device first "
                "(model.cpu())."),
            Wording("no[_ ]sync context manager is incompatible with gradient ?partitioning",
                "AssertionError: no_sync context manager is incompatible with gradient "
                "partitioning logic of ZeRO stage 2",
                "ZeRO-2 and 3 reduce gradients at every backward, and since 0.16 DeepSpeed "
                "refuses no_sync(), which older accelerate and transformers call while they "
                "accumulate.",
                "Upgrade accelerate and transformers (4.48 or newer leaves no_sync out), or "
                "install deepspeed==0.15.4. In a loop of your own leave out "
                "accelerator.accumulate() and no_sync(), and let gradient_accumulation_steps of "
                "DeepSpeed count; with ZeRO-1 no_sync is allowed.",
                ("python -m pip show deepspeed accelerate transformers",),
                owner=Owner.ENVIRONMENT),
            Wording(r"checkpoint being loaded used a DP world size of \d{1,6}",
                "deepspeed.runtime.zero.utils.ZeRORuntimeException: The checkpoint being loaded "
                "used a DP world size of 8 but the current world size is 4.",
                "The optimizer's state was saved in as many shards as there were ranks.",
                "Resume on the same number of GPUs, convert it with ds_to_universal.py and load "
                "with load_universal, or take the weights only: zero_to_fp32.py in the "
                "checkpoint's directory.",
                ("python zero_to_fp32.py . pytorch_model.bin",)),
            Wording(r"Check batch related parameters\. train_batch_size is not equal",
                "AssertionError: Check batch related parameters. train_batch_size is not equal "
                "to micro_batch_per_gpu * gradient_acc_step * world_size 256 != 4 * 8 * 1",
                "train_batch_size must be micro batch per GPU x accumulation steps x number of "
                "ranks; the last factor is the number of processes that really started.",
                'Give two of the three and leave the third out, or set all to "auto" with the '
                "Trainer and accelerate. If the last number is not your number of GPUs, start "
                "with deepspeed, torchrun or accelerate launch."),
            Wording(r"ZeroOptimizer' object has no attribute 'ipg_\w{1,20}'",
                "AttributeError: 'DeepSpeedZeroOptimizer' object has no attribute 'ipg_index'",
                "The engine makes its buffers of gradients in its own backward, and the loss was "
                "given to loss.backward() or torch.autograd.backward() instead.",
                "Call model_engine.backward(loss) and model_engine.step(), with accelerate "
                "accelerator.backward(loss), with Fabric fabric.backward(loss), in Lightning "
                "self.manual_backward(loss).",
                sources=("deepspeed-6995",)),
            Wording("we were given deepspeed configs in the deepspeed arguments and",
                "AssertionError: Not sure how to proceed, we were given deepspeed configs in the "
                "deepspeed arguments and deepspeed.initialize() function call",
                "deepspeed.initialize() gets the configuration twice: as config=, and as the path "
                "that args.deepspeed_config names.",
                "Keep one: leave --deepspeed_config out of the command line where the code passes "
                "config=, or leave config= (or args=) out of the call.")),
        why="DeepSpeed's configuration contradicts the Trainer's, the model, the number of "
            "ranks, or what its ZeRO stage allows.",
        sources=("deepspeed-3810", "deepspeed-2921", "deepspeed-batch")),
    Cause(id="ranks-disagree",
        errors=("RuntimeError", "AssertionError", "DistributedOperationException", "ValueError"),
        wordings=(
            Wording(r"disagreement between rank ?\d|tracing error at step \d|expected the next "
                r"\d{1,6} parameters in the parameter fetch queue",
                "RuntimeError: disagreement between rank0 and rank1: rank0: [1, 2] rank1: [3]",
                "Under ZeRO-3 every rank must run the same modules in the same order: experts, "
                "branches or modalities that depend on the batch differ between ranks or steps.",
                "Run every module on every rank (a dummy input multiplied by 0 for a branch "
                "without data); for mixtures of experts call "
                "deepspeed.utils.set_z3_leaf_modules(model, [MoEBlock]); or use ZeRO-2."),
            Wording("Cannot apply desired operation due to shape mismatches|output tensor size "
                "must be equal to world_size times input tensor size",
                "Cannot apply desired operation due to shape mismatches. All shapes across "
                "devices must be valid.",
                "The ranks give a collective (gather, all_gather, broadcast) tensors of "
                "different sizes: other sequence lengths or a smaller last batch, or weights "
                "that have another size on some rank.",
                "Pad to one size before gathering: accelerator.pad_across_processes(tensor, "
                "dim=1), then accelerator.gather_for_metrics; or drop_last=True and padding to "
                "a fixed length.")),
        why="The ranks ran other modules, or brought tensors of other shapes, to the same "
            "exchange.",
        sources=("accelerate-operations",)),
)  # fmt: skip
