"""Sharded models and their checkpoints: FSDP, DTensor, DeepSpeed, actors of Ray."""

from __future__ import annotations

from doctor._util.owner import Owner
from doctor.errors.cause import Cause, Wording

ROWS = (
    Cause(id="tensor-and-dtensor",
        errors=("RuntimeError",),
        messages=(r"got mixed torch\.Tensor and DTensor|Sharding propagation failed for",),
        examples=("RuntimeError: aten.mm.default: got mixed torch.Tensor and DTensor, need to "
            "convert all torch.Tensor to DTensor before calling distributed operators!",),
        wordings=(
            Wording("DTensor does not support cross-mesh operation",
                "RuntimeError: DTensor does not support cross-mesh operation yet! Got meshes: "
                "DeviceMesh('cuda', [0, 1]) DeviceMesh('cuda', [0])",
                "Parameters of two meshes meet in one call over all of them, to clip or to step: "
                "experts or a tower that were sharded over other ranks than the rest.",
                "Clip and step each mesh apart: parameter groups or optimizers per mesh with "
                "foreach=False and fused=False, norms by .full_tensor() joined by hand (torchtitan "
                "has such a clip_grad_norm_), or shard all over one mesh."),
            Wording(r"(?:clip_grad|get_total_norm|optim/)[\s\S]{0,400}got mixed torch\.Tensor "
                r"and DTensor|aten\._foreach_\w{2,20}[.\w]{0,20}: got mixed torch\.Tensor and "
                r"DTensor",
                "RuntimeError: aten._foreach_mul_.Tensor: got mixed torch.Tensor and DTensor, "
                "need to convert all torch.Tensor to DTensor before calling distributed "
                "operators!",
                "Some of the trained parameters are sharded (DTensor) and others are not: "
                "adapters or heads that were added after fully_shard, experts or embeddings on "
                "the CPU, ignored modules. One call over the gradients of all of them, to clip "
                "them or to step, takes both kinds.",
                "Shard what is trained as a whole: add adapters and heads first, then "
                "fully_shard the blocks and the root. Where some parameters stay plain on "
                "purpose, clip the two kinds apart (norms of DTensors with .full_tensor(), then "
                "one common factor), give each kind an optimizer or a parameter group with "
                "foreach=False, and use an accelerate that does the same.",
                more=('File "torch/nn/utils/clip_grad.py", line 174, in _clip_grads_with_norm_\n'
                    "RuntimeError: aten.mul_.Tensor: got mixed torch.Tensor and DTensor",)),),
        why="A plain tensor meets a parameter that FSDP2 or tensor parallelism has sharded: a "
            "call around the wrapped forward, a weight that is used outside its module, a "
            "buffer.",
        fix="Call the wrapped module, not a method or a weight of it, so that its hooks gather "
            "the parameters; fully_shard each module that is called on its own; outside use "
            "param.full_tensor(). Where all frames are of a framework (verl, TRL, torchtune), its "
            "releases do not go together: install the torch, vLLM and transformers that its "
            "requirements name.",
        sources=("torch-dtensor",)),
    Cause(id="parameters-are-partitioned",
        errors=("RuntimeError", "AssertionError", "ValueError", "CheckpointError"),
        refines=("shape-mismatch", "checkpoint-of-other-sizes",
            "autograd-misuse", "checkpointed-function"),
        messages=("'weight' must be 2-D|out of bounds for storage of size 0",
            r"the shape in current model is torch\.Size\(\[0\]\)",
            r"ZeroParamStatus\.|still have inflight params|'status': '(?:NOT_AVAILABLE|"
            r"INFLIGHT)'"),
        examples=("RuntimeError: 'weight' must be 2-D",
            "RuntimeError: setStorage: sizes [64, 64], strides [1, 64], storage offset 0, and "
            "itemsize 2 requiring a storage size of 8192 are out of bounds for storage of size 0",
            "size mismatch for lm_head.weight: copying a param with shape torch.Size([32000, "
            "4096]) from checkpoint, the shape in current model is torch.Size([0]).",
            "RuntimeError: still have inflight params [{'id': 723, 'status': 'AVAILABLE'}]"),
        wordings=(
            Wording(r"with shape torch\.Size\(\[0\]\) from (?:the )?checkpoint",
                "size mismatch for model.embed_tokens.weight: copying a param with shape "
                "torch.Size([0]) from checkpoint, the shape in current model is "
                "torch.Size([32002, 4096]).",
                "The file holds empty tensors: it was saved under ZeRO-3 without gathering the "
                "parameters, so each rank wrote the empty rest that it held.",
                "Write the weights anew from the complete checkpoint: python zero_to_fp32.py "
                "CHECKPOINT_DIRECTORY OUTPUT. For the next training set "
                "stage3_gather_16bit_weights_on_model_save to true (zero3_save_16bit_model of "
                "accelerate), or use ZeRO-2. ignore_mismatched_sizes=True would start these "
                "layers from random numbers.",
                ("doctor scan CHECKPOINT",)),
            Wording("its data is not allocated yet",
                "RuntimeError: The tensor has a non-zero number of elements, but its data is not "
                "allocated yet.",
                "The weights are not there where they are read: FSDP or ZeRO-3 has divided or "
                "freed them, and generate(), a submodule or a weight was used without the "
                "wrapped forward pass; or the model is still on the meta device.",
                "Generate within FSDP.summon_full_params(model, writeback=False), with ZeRO-3 "
                "within deepspeed.zero.GatheredParameters(model.parameters()). In a trainer "
                "upgrade it: GRPO under FSDP needs TRL 0.18 or newer and its accelerate. Load "
                "the weights of a model on the meta device first.",
                ("python -m pip show trl accelerate torch",)),
            Wording(r"recomputed metadata: \{.shape.: torch\.Size\(\[0\]\)",
                "torch.utils.checkpoint.CheckpointError: torch.utils.checkpoint: Recomputed "
                "values for the following tensors have different metadata than during the "
                "forward pass.\nsaved metadata: {'shape': torch.Size([2048])}\nrecomputed "
                "metadata: {'shape': torch.Size([0])}",
                "A parameter was whole in the forward pass and empty when non-reentrant "
                "checkpointing ran it again: ZeRO-3 had partitioned it in between.",
                'Use reentrant checkpointing: gradient_checkpointing_kwargs={"use_reentrant": '
                "True}; or a newer DeepSpeed, or ZeRO-2.",
                ("python -m pip show deepspeed",))),
        told_by="DeepSpeed ZeRO-3 is on",
        why="Under ZeRO-3 a parameter is empty outside the forward pass of its module; code "
            "that reads it, loads it or runs other modules on other ranks finds nothing.",
        fix="Read and load weights within deepspeed.zero.GatheredParameters, load checkpoints "
            "through the trainer or from_pretrained under its configuration, and run the same "
            "modules on all ranks; or use ZeRO-2.",
        sources=("torch-load-module", "torch-recompute")),
    Cause(id="checkpoint-of-other-keys",
        errors=("RuntimeError", "CheckpointException", "CheckpointingException", "KeyError",
            "ValueError", "AssertionError", "FileNotFoundError"), refines=("file-missing",),
        wordings=(
            Wording(r"No such file or directory: '[^'\n]{0,300}\.distcp",
                "FileNotFoundError: [Errno 2] No such file or directory: "
                "'/ckpt/step_200/__1_0.distcp'",
                "Each rank writes its own files of a distributed checkpoint, and this node does "
                "not see those of the others: the directory is on the disk of each node, or the "
                "save was not finished.",
                "Save to a directory that all nodes share, or gather the files of all nodes in "
                "one before the load; then take the last checkpoint that has .metadata and as "
                "many .distcp files as ranks wrote.",
                ("ls -la CHECKPOINT",)),
            Wording(r"Missing key in checkpoint state_dict|_OptimStateKey\([\s\S]{1,3000}is "
                r"empty|assert metadata is not None|Invalid access pattern|Sharded(?:Object|"
                r"Tensor)s? (?:are|is) missing|Unexpected "
                r"keys? \(not found in checkpoint|not found in the checkpoint",
                "CheckpointingException: Invalid access pattern: 36 ShardedObject are missing",
                "The distributed checkpoint has no tensor of that name, or its shards do not "
                "cover it: it was saved with torch.compile (_orig_mod), a wrapper, another "
                "optimizer, another parallel layout or another version of the model or of "
                "Megatron. Parameters that took no part in any step have no state, and a save "
                "that was not finished has no .metadata.",
                "Print the keys with "
                "torch.distributed.checkpoint.FileSystemReader(PATH).read_metadata().st"
                "ate_dict_metadata, and rename or leave out what differs; "
                "DefaultLoadPlanner(allow_partial_load=True) accepts tensors that are new. "
                "Megatron: convert with the parallel sizes and the release that saved it, or "
                "--dist-ckpt-strictness log_all where only extra states are missing. FSDP2 with "
                "accelerate up to 1.12 does not find the optimizer's step: upgrade it. Without "
                ".metadata take the checkpoint before; a frozen or unused part (a vision tower "
                "without images) must be frozen in both runs.",
                ("doctor scan CHECKPOINT",),
                more=("RuntimeError: Missing key in checkpoint state_dict: "
                    "model.layers.0.attention.wq.weight",
                    "RuntimeError: The state of "
                    "_OptimStateKey(unflat_param_names=('a.weight',), is_fsdp_managed=True) is "
                    "empty. This should happen when use_orig_params=True.",
                    "    assert metadata is not None\nAssertionError")),
            Wording(r"(?:mismatch (?:for loaded|between saved)|(?:[Mm]issing|[Uu]nexpected) key)"
                r"[^\n]{1,300}_extra_state",
                "ValueError: Size mismatch between saved torch.Size([2322]) and current: "
                "torch.Size([4]) for layers.0.feed_forward.ffn._extra_state",
                "_extra_state is what Transformer Engine keeps of fp8 beside the weights: its "
                "size changes with the first step in fp8 and with the release. The weights "
                "themselves are not concerned.",
                "Load without it: drop keys that end in _extra_state from the state dict that is "
                "given to dcp.load (Megatron: --dist-ckpt-strictness log_all), or save and load "
                "with one release of Transformer Engine and one fp8 recipe. The scales of fp8 are "
                "found anew within a few steps."),
            Wording(r"(?:Global shape mismatch for loaded|Size mismatch between saved) "
                r"[^\n]{1,160}(?:for key |for )[\w.]{0,80}(?:word_embeddings|embed_tokens|"
                r"tok_embeddings|(?<!pos_)embed|wte|lm_head|output_layer|output)\.weight",
                "megatron.core.dist_checkpointing.core.CheckpointingException: Global shape "
                "mismatch for loaded (torch.Size([32000, 4096])) and expected ((32256, 4096)) "
                "tensor for key model.embedding.word_embeddings.weight",
                "The model of the checkpoint has another vocabulary: the first shape is the one "
                "that is stored, the second that of this run, which is the tokenizer's size with "
                "its added tokens, rounded up to a multiple of make_vocab_size_divisible_by times "
                "the tensor parallel size (Megatron and NeMo print it as padded vocab_size).",
                "A pretrained model (restore_from_path, --load, initial_load_path): use the "
                "tokenizer that it was saved with, without further tokens. To keep new tokens, "
                "enlarge the embeddings and the output layer first (resize_token_embeddings of "
                "the model in transformers' format, up to the padded size of this run), and "
                "convert it again. Where only the padding differs, choose "
                "make_vocab_size_divisible_by so that both give one number. Only where the run "
                "resumes by itself from an earlier one in the same directory "
                "(resume_if_exists, auto_resume), name a new directory.",
                ("doctor scan CHECKPOINT",),
                more=("ValueError: Size mismatch between saved torch.Size([32000, 512]) and "
                    "current: torch.Size([32064, 512]) for embed.weight",)),
            Wording(r"Global shape mismatch for loaded|Size mismatch between saved "
                r"torch\.Size\(\[[\d, ]{0,60}\]\) and current",
                "megatron.core.dist_checkpointing.core.CheckpointingException: Global shape "
                "mismatch for loaded ((1024, 768)) and expected ((512, 768)) tensor for key "
                "model.embedding.position_embeddings.weight",
                "The distributed checkpoint was saved by a model of other sizes: the first "
                "shape is the one that is stored, the second the one of this configuration. "
                "Often it is the checkpoint of an earlier run in the same directory, from which "
                "the trainer resumes by itself (resume_if_exists, auto_resume, "
                "latest_checkpointed_iteration.txt).",
                "For a new run name a new directory of logs and checkpoints (explicit_log_dir, "
                "--save and --load), or move the old checkpoints away. To continue the old one, "
                "set the value that the tensor's name shows back to the first shape: position "
                "embeddings max_position_embeddings, word embeddings the padded vocabulary "
                "(make_vocab_size_divisible_by, which follows the tensor parallel size), others "
                "hidden_size or the layers.",
                ("doctor scan CHECKPOINT",),
                more=("ValueError: Size mismatch between saved torch.Size([512, 512]) and "
                    "current: torch.Size([640, 512]) for blocks.0.weight",)),
            Wording(r"value from checkpoint \([^\n)]{1,60}\) is not equal to the (?:input "
                r")?argument value",
                "AssertionError: padded_vocab_size value from checkpoint (32000) is not equal "
                "to the input argument value (32256).",
                "Megatron compares the arguments of the run with those that the checkpoint was "
                "saved or converted with, and this one differs. padded_vocab_size is the "
                "tokenizer's size with its added tokens, rounded up to a multiple of "
                "make-vocab-size-divisible-by times the tensor parallel size.",
                "Give the value of the checkpoint, or --use-checkpoint-args. padded_vocab_size: "
                "use the checkpoint's tokenizer without further tokens (vocab-extra-ids, "
                "--no-new-tokens), choose --make-vocab-size-divisible-by so that both give one "
                "number, or convert the checkpoint again with the tokenizer, the extra tokens "
                "and the tensor parallel size of this run.",
                more=("AssertionError: num_layers value from checkpoint (32) is not equal to "
                    "the input argument value (40).",))),
        why="The distributed checkpoint has no tensor of that name, or its shards do not cover "
            "it: it was saved with torch.compile (_orig_mod), a wrapper, another optimizer, "
            "another parallel layout or another version of the model or of Megatron. Parameters "
            "that took no part in any step have no state, and a save that was not finished has "
            "no .metadata.",
        sources=("torch-dcp-planner",)),
    Cause(id="actor-died",
        errors=("RayActorError", "ActorDiedError"),
        messages=("actor died because of an error raised in its creation task",
            "(?:The|an) actor died unexpectedly before finishing",
            "actor is dead because its worker process has died",
            "A worker died or was killed while executing a task(?: by an unexpected system "
            "error)?"),
        examples=("ray.exceptions.RayActorError: The actor died because of an error raised in "
            "its creation task",
            "ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this "
            "task.",
            "The actor is dead because its worker process has died. Worker exit type: "
            "SYSTEM_ERROR",
            "(raylet) A worker died or was killed while executing a task by an unexpected "
            "system error. Worker exit type: SYSTEM_ERROR"),
        wordings=(
            Wording("actor died because of an error raised in its creation task",
                "ray.exceptions.RayActorError: The actor died because of an error raised in "
                    "its creation task, ray::LLMRayActor.__init__() (pid=433508)",
                "The constructor of a Ray actor raised; its own exception stands at the end "
                    "of the lines of that pid.",
                "Read the last exception with that pid (or the worker's log below "
                    "/tmp/ray/session_latest/logs) and explain that one: usually the package "
                    "versions, the GPU memory, or the model's path on that node.",
                ("grep -l Error /tmp/ray/session_latest/logs/worker-*.err",),
                owner=Owner.JOB),
        ),
        why="A process of Ray ended without an exception that Ray could pass on: killed for "
            "host memory, crashed in native code, or its node went away.",
        fix="Read that actor's own log (worker-*.err under /tmp/ray/session_latest/logs, by the "
            "pid of the message) and the kernel log of its node. For a kill lower what is held "
            "in host memory: offloading, the object store, loader workers.",
        commands=("sudo dmesg -T | grep -iE 'killed process|oom'",),
        title="No worker of Ray died", yields_to=("nccl-timeout",),
        sources=("python-exceptions",),
        owner=Owner.ENVIRONMENT, role="consequence", code="LOG075"),
    Cause(id="shared-tensors-saved",
        errors=("RuntimeError",),
        messages=("Some tensors share memory, this will lead to duplicate",
            "trying to save a non contiguous tensor",
            "weights trying to be saved contained shared tensors"),
        examples=("RuntimeError: Some tensors share memory, this will lead to duplicate memory "
            "on disk",
            "ValueError: You are trying to save a non contiguous tensor: `a.weight` which is "
            "not allowed.",
            "RuntimeError: The weights trying to be saved contained shared tensors [{'a', 'b'}] "
            "that are mismatching the transformers base configuration."),
        why="safetensors stores no aliases, and two names of the state have one tensor: tied "
            "embeddings, or a module that is registered twice.",
        fix="Save with model.save_pretrained or safetensors.torch.save_model, which store a "
            "tied tensor once, and declare the tie (_tied_weights_keys); save_safetensors=False "
            "as a last resort.",
        sources=("safetensors-torch",)),
)  # fmt: skip
