"""Sharded models and their checkpoints: FSDP, DTensor, DeepSpeed, actors of Ray."""

from __future__ import annotations

from doctor._util.owner import Owner
from doctor.errors.cause import Cause, Wording

ROWS = (
    Cause(
        id="shards-of-several-dtypes",
        errors=("ValueError",),
        messages=(
            r"(?:Must flatten tensors with|requires) uniform dtype",
            r"len\(set\(t\.dtype for t in tensors\)\) == 1",
        ),
        examples=(
            "assert len(set(t.dtype for t in tensors)) == 1",
            "ValueError: Must flatten tensors with uniform dtype but got torch.bfloat16 and "
            "torch.float32",
        ),
        why="FSDP and ZeRO-3 join the parameters of a block into one tensor, and they have two "
        "dtypes: adapters, norms or quantized weights beside the others.",
        fix="Load and create all parameters in one dtype (dtype= of from_pretrained, "
        "model.to(torch.bfloat16)); for QLoRA set bnb_4bit_quant_storage to the compute dtype; or "
        "use FSDP2 (fully_shard), which keeps each parameter apart.",
        sources=("torch-flat-param",),
    ),
    Cause(
        id="tensor-and-dtensor",
        errors=("RuntimeError",),
        wordings=(
            Wording(
                r"(?:clip_grad|get_total_norm|optim/)[\s\S]{0,400}got mixed torch\.Tensor and "
                r"DTensor|"
                r"aten\._foreach_\w{2,20}[.\w]{0,20}: got mixed torch\.Tensor and DTensor",
                "RuntimeError: aten._foreach_mul_.Tensor: got mixed torch.Tensor and DTensor, need "
                "to convert all torch.Tensor to DTensor before calling distributed operators!",
                "Some of the trained parameters are sharded (DTensor) and others are not: adapters "
                "or heads that were added after fully_shard, experts or embeddings on the CPU, "
                "ignored modules. One call over the gradients of all of them, to clip them or to "
                "step, takes both kinds.",
                "Shard what is trained as a whole: add adapters and heads first, then fully_shard "
                "the blocks and the root. Where some parameters stay plain on purpose, clip the "
                "two kinds apart (norms of DTensors with .full_tensor(), then one common factor), "
                "give each kind an optimizer or a parameter group with foreach=False, and use an "
                "accelerate that does the same.",
                more=(
                    'File "torch/nn/utils/clip_grad.py", line 174, in _clip_grads_with_norm_\n'
                    "RuntimeError: aten.mul_.Tensor: got mixed torch.Tensor and DTensor",
                ),
            ),
        ),
        messages=(r"got mixed torch\.Tensor and DTensor|Sharding propagation failed for",),
        examples=(
            "RuntimeError: aten.mm.default: got mixed torch.Tensor and DTensor, need to convert "
            "all torch.Tensor to DTensor before calling distributed operators!",
        ),
        why="A plain tensor meets a parameter that FSDP2 or tensor parallelism has sharded: a "
        "call around the wrapped forward, a weight that is used outside its module, a buffer.",
        fix="Call the wrapped module, not a method or a weight of it, so that its hooks gather "
        "the parameters; fully_shard each module that is called on its own; outside use "
        "param.full_tensor().",
        sources=("torch-dtensor",),
    ),
    Cause(
        id="parameters-are-partitioned",
        errors=("RuntimeError", "AssertionError"),
        messages=(
            r"'weight' must be 2-D|out of bounds for storage of size 0",
            r"the shape in current model is torch\.Size\(\[0\]\)",
            r"ZeroParamStatus\.|still have inflight params|'status': '(?:NOT_AVAILABLE|INFLIGHT)'",
        ),
        examples=(
            "RuntimeError: 'weight' must be 2-D",
            "RuntimeError: setStorage: sizes [64, 64], strides [1, 64], storage offset 0, and "
            "itemsize 2 requiring a storage size of 8192 are out of bounds for storage of size 0",
            "size mismatch for lm_head.weight: copying a param with shape torch.Size([32000, "
            "4096]) from checkpoint, the shape in current model is torch.Size([0]).",
            "RuntimeError: still have inflight params [{'id': 723, 'status': 'AVAILABLE'}]",
        ),
        told_by="DeepSpeed ZeRO-3 is on",
        refines=("shape-mismatch",),
        why="Under ZeRO-3 a parameter is empty outside the forward pass of its module; code that "
        "reads it, loads it or runs other modules on other ranks finds nothing.",
        fix="Read and load weights within deepspeed.zero.GatheredParameters, load checkpoints "
        "through the trainer or from_pretrained under its configuration, and run the same modules "
        "on all ranks; or use ZeRO-2.",
    ),
    Cause(
        id="sharded-checkpoint-of-other-sizes",
        errors=("CheckpointingException", "KeyError", "ValueError"),
        messages=(
            r"Global shape mismatch for loaded",
            r"Size mismatch between saved torch\.Size\(\[[\d, ]{0,60}\]\) and current",
        ),
        examples=(
            "megatron.core.dist_checkpointing.core.CheckpointingException: Global shape mismatch "
            "for loaded ((1024, 768)) and expected ((512, 768)) tensor for key "
            "model.embedding.position_embeddings.weight",
            "ValueError: Size mismatch between saved torch.Size([32000, 512]) and current: "
            "torch.Size([32064, 512]) for embed.weight",
        ),
        why="The distributed checkpoint was saved by a model of other sizes: the first shape is "
        "the one that is stored, the second the one of this configuration. Often it is the "
        "checkpoint of an earlier run in the same directory, from which the trainer resumes by "
        "itself (resume_if_exists, auto_resume, latest_checkpointed_iteration.txt).",
        fix="For a new run name a new directory of logs and checkpoints (explicit_log_dir, --save "
        "and --load), or move the old checkpoints away. To continue the old one, set the value "
        "that the tensor's name shows back to the first shape: position embeddings "
        "max_position_embeddings, word embeddings the padded vocabulary "
        "(make_vocab_size_divisible_by, which follows the tensor parallel size), others "
        "hidden_size or the layers.",
        commands=("doctor scan CHECKPOINT",),
    ),
    Cause(
        id="checkpoint-of-other-keys",
        errors=("RuntimeError", "CheckpointException"),
        messages=(
            r"Missing key in checkpoint state_dict",
            r"_OptimStateKey\([\s\S]{1,3000}is empty",
            r"assert metadata is not None",
            r"Invalid access pattern|Sharded(?:Object|Tensor)s? (?:are|is) missing|"
            r"\w{0,20}CheckpointException ranks|Unexpected keys? \(not found in checkpoint|not "
            r"found in the checkpoint",
        ),
        examples=(
            "CheckpointingException: Invalid access pattern: 36 ShardedObject are missing",
            "RuntimeError: Missing key in checkpoint state_dict: "
            "model.layers.0.attention.wq.weight",
            "RuntimeError: The state of _OptimStateKey(unflat_param_names=('a.weight',), "
            "is_fsdp_managed=True) is empty. This should happen when use_orig_params=True.",
            "    assert metadata is not None\nAssertionError",
        ),
        why="The distributed checkpoint has no tensor of that name, or its shards do not cover "
        "it: it was saved with torch.compile (_orig_mod), a wrapper, another optimizer, another "
        "parallel layout or another version of the model or of Megatron. Parameters that took no "
        "part in any step have no state, and a save that was not finished has no .metadata.",
        fix="Print the keys with "
        "torch.distributed.checkpoint.FileSystemReader(PATH).read_metadata().state_dict_metadata, "
        "and rename or leave out what differs; DefaultLoadPlanner(allow_partial_load=True) "
        "accepts tensors that are new. Megatron: convert with the parallel sizes and the release "
        "that saved it, or --dist-ckpt-strictness log_all where only extra states are missing. "
        "FSDP2 with accelerate up to 1.12 does not find the optimizer's step: upgrade it. Without "
        ".metadata take the checkpoint before; a frozen or unused part (a vision tower without "
        "images) must be frozen in both runs.",
        commands=("doctor scan CHECKPOINT",),
        sources=("torch-dcp-planner",),
    ),
    Cause(
        id="actor-died",
        code="LOG075",
        title="No worker of Ray died",
        errors=("RayActorError", "ActorDiedError"),
        messages=(
            r"actor died because of an error raised in its creation task",
            r"(?:The|an) actor died unexpectedly before finishing",
            r"actor is dead because its worker process has died",
            r"A worker died or was killed while executing a task",
        ),
        examples=(
            "ray.exceptions.RayActorError: The actor died because of an error raised in its "
            "creation task",
            "ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this "
            "task.",
            "The actor is dead because its worker process has died. Worker exit type: SYSTEM_ERROR",
            "(raylet) A worker died or was killed while executing a task by an unexpected system "
            "error. Worker exit type: SYSTEM_ERROR",
        ),
        why="A process of Ray ended without an exception that Ray could pass on: killed for host "
        "memory, crashed in native code, or its node went away.",
        fix="Read that actor's own log (worker-*.err under /tmp/ray/session_latest/logs, by the "
        "pid of the message) and the kernel log of its node. For a kill lower what is held in "
        "host memory: offloading, the object store, loader workers.",
        role="consequence",
        owner=Owner.ENVIRONMENT,
        commands=("sudo dmesg -T | grep -iE 'killed process|oom'",),
        sources=("python-exceptions",),
        yields_to=("nccl-timeout",),
    ),
    Cause(
        id="shared-tensors-saved",
        errors=("RuntimeError",),
        messages=(
            r"Some tensors share memory, this will lead to duplicate",
            r"trying to save a non contiguous tensor",
            r"weights trying to be saved contained shared tensors",
        ),
        examples=(
            "RuntimeError: Some tensors share memory, this will lead to duplicate memory on disk",
            "ValueError: You are trying to save a non contiguous tensor: `a.weight` which is not "
            "allowed.",
            "RuntimeError: The weights trying to be saved contained shared tensors [{'a', 'b'}] "
            "that are mismatching the transformers base configuration.",
        ),
        why="safetensors stores no aliases, and two names of the state have one tensor: tied "
        "embeddings, or a module that is registered twice.",
        fix="Save with model.save_pretrained or safetensors.torch.save_model, which store a tied "
        "tensor once, and declare the tie (_tied_weights_keys); save_safetensors=False as a last "
        "resort.",
        sources=("safetensors-torch",),
    ),
)
