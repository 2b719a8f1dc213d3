"""Families of errors of a training in logs: gradients, dtypes, shapes, devices."""

from __future__ import annotations

from doctor.errors.cause import Cause, Remedy, Wording

ROWS = (
    Cause(id="element0-no-grad",
        errors=("RuntimeError",),
        messages=("element 0 of (?:tensors|variables) does not require grad",
            r"none of output has requires_grad=True, this checkpoint\(\) is not necessary"),
        examples=("RuntimeError: element 0 of tensors does not require grad and does not have a "
            "grad_fn",
            "RuntimeError: none of output has requires_grad=True, this checkpoint() is not "
            "necessary"),
        why="backward() found nothing to train: everything is frozen, the loss was computed "
            "under no_grad or detached, or reentrant checkpointing got inputs without "
            "requires_grad, as with PEFT on a frozen base.",
        fix="Make the loss depend on a trainable parameter: look for .detach(), .item(), .data, "
            "numpy(), argmax, torch.tensor(x) and no_grad() between the parameters and the "
            "loss, and for frozen weights. With LoRA and reentrant gradient checkpointing (the "
            "default of transformers 4.31 to 4.57) call model.enable_input_require_grads(), or "
            "pass gradient_checkpointing_kwargs={'use_reentrant': False}; both work in either "
            "order.",
        title="The loss depends on a trainable parameter",
        sources=("torch-no-grad", "torch-detach", "Open-Llama-checkpointing"), next_check="SMK009",
        code="LOG041"),
    Cause(id="none-requires-grad",
        messages=(r"None of the inputs have requires_grad=True\. Gradients will be None",),
        examples=("UserWarning: None of the inputs have requires_grad=True. Gradients will be "
            "None",),
        why="Reentrant checkpointing records no gradient for a segment whose inputs do not "
            "require one. In a training with a frozen base model this precedes the error about "
            "element 0, or leaves a part of the model untrained in silence. It is harmless in "
            "evaluation, and for a first segment where the whole model trains.",
        fix='Pass gradient_checkpointing_kwargs={"use_reentrant": False}, or call '
            "model.enable_input_require_grads() before the training.",
        title="Gradient checkpointing got inputs that require gradients",
        sources=("Open-Llama-checkpointing",), role="warning", next_check="SMK009", code="LOG042",
        yields_to=("inputs-made-to-require-grad",)),
    Cause(id="amp-bf16-grads-with-scaler",
        refines=("half-precision-kernel",),
        messages=(r"_amp_(?:foreach_)?non_finite_check_and_unscale\w{0,40}[\"']? not "
            r"implemented for [\"']BFloat16",),
        examples=('RuntimeError: "_amp_foreach_non_finite_check_and_unscale_cuda" not '
            "implemented for 'BFloat16'",),
        why="A GradScaler (fp16=True) is enabled and trained weights are bf16, so their "
            "gradients are, too. On every NVIDIA GPU, not only on old ones.",
        fix="Load the weights in fp32 for fp16 training, or train with bf16=True and without a "
            "scaler.",
        title="The GradScaler meets no bf16 gradients",
        remedies=(
            Remedy(package="transformers", since="5.0",
                fix="transformers 5 loads weights in the checkpoint's dtype: pass "
                "dtype=torch.float32 to from_pretrained for fp16 training, or train with "
                "bf16=True and without a scaler."),),
        sources=("titan-matrix", "pytorch-127176", "pytorch-194947"),
        next_check="NUM005", code="LOG043"),
    Cause(id="amp-fp16-weights",
        messages=("Attempting to (?:un)?scale FP[1l]6 gradients",),
        examples=("ValueError: Attempting to unscale FP16 gradients.",),
        why="Trained parameters are stored in fp16 and a GradScaler is in use; it needs fp32 "
            "gradients.",
        fix="Load the model in float32 and let autocast choose fp16, or cast the trained "
            "parameters: for p in model.parameters(): if p.requires_grad: p.data = "
            "p.data.float()",
        title="The GradScaler meets no fp16 weights",
        remedies=(
            Remedy(package="peft", since="0.7.1", until="0.12",
                fix="This PEFT creates adapters in the base model's dtype: cast the trained "
                "parameters to fp32 after get_peft_model, or upgrade PEFT."),),
        sources=("chinese-vicuna-168", "llava-363", "bitsandbytes-945"),
        next_check="NUM005", code="LOG044"),
    Cause(id="dtype-mismatch",
        errors=("RuntimeError",),
        messages=(r"expected backend \w{1,10} and dtype \w{1,20} but got backend|same dtypes "
            r"but got",
            r"expected scalar type (?P<expected>\w{1,40}) but found (?P<actual>\w{1,40})",
            "(?:must|to) have the same dtype,? but got",
            r"[Ee]xpected object of (?:scalar )?type \S{1,60} but got",
            "mat1 and mat2 must have the same dtype|expected m(?:at)?1 and m(?:at)?2 to have "
            "the same dtype",
            r"Found dtype \w{1,40} but expected \w{1,40}|expected dtype \S{1,40} for .?\w{1,20}.? "
            r"but got dtype",
            "[Ss]ource and destination dtypes match",
            "must have the same (?:scalar type|dtype)",
            r"Input type \((?!torch\.\w{1,30}Tensor\) and \w{4,6} type \((?:torch\.cuda|CUDA)|"
            r"(?:torch\.cuda\.|CUDA)\w{1,30}\) and \w{4,6} type \(torch\.\w{1,30}Tensor\))"
            r"[^)]{1,80}\) "
            r"and (?:weight|bias) type \([^)]{1,80}\)"),
        examples=("RuntimeError: expected backend CUDA and dtype Float but got backend CUDA and "
            "dtype Half",
            "RuntimeError: masked_scatter: expected self and source to have same dtypes but got "
            "Half and Float",
            "RuntimeError: expected scalar type Half but found Float",
            "RuntimeError: mat1 and mat2 must have the same dtype, but got Float and BFloat16",
            "RuntimeError: expected m1 and m2 to have the same dtype, but got: float != "
            "c10::Half",
            "RuntimeError: Found dtype Double but expected Float",
            "RuntimeError: expected dtype c10::Half for `end` but got dtype float",
            "RuntimeError: Expected object of scalar type Float but got scalar type Double",
            "RuntimeError: Input type (torch.cuda.FloatTensor) and weight type "
            "(torch.cuda.HalfTensor) should be the same",
            "RuntimeError: Input type (c10::Half) and bias type (float)",
            "RuntimeError: Index put requires the source and destination dtypes match, got "
            "Float for the destination and BFloat16 for the source.",
            "RuntimeError: index_add_(): self (Float) and source (BFloat16) must have the same "
            "scalar type"),
        why="Parameters or inputs of different dtypes meet outside autocast: in evaluation or "
            "generate, in the loss, in a custom layer, or after only a part of the model was "
            "cast.",
        fix="Cast inputs to the dtype of the weights (numpy arrays are float64: "
            "torch.from_numpy(x).float()), or leave the weights in fp32 and run the forward "
            "pass, also in evaluation, under torch.autocast with one dtype. A tensor that is "
            "filled by index needs the dtype of what is written, in half precision under "
            "autocast: torch.zeros(..., dtype=x.dtype), or value.to(x.dtype).",
        title="Operands have the same dtype",
        sources=("alpaca-lora-203", "llamafactory-724", "llava-774"),
        next_check="SMK001", code="LOG045"),
    Cause(id="nan-in-backward",
        messages=(r"Function '(?P<function>\w{1,200})' returned nan values",),
        examples=("RuntimeError: Function 'LogBackward0' returned nan values in its 0th output.",),
        why="Anomaly mode stopped at the first function whose gradient is NaN: a logarithm or "
            "division by zero, a square root at zero, an overflow of fp16, or an attention "
            "kernel.",
        fix="Clamp the function's input in fp32 (x.float().clamp(min=1e-6)), compute the loss "
            "in fp32, and lower the learning rate if the loss had diverged before.",
        title="No backward function returned NaN", sources=("ps-P8",),
        next_check="SMK002", code="LOG046"),
    Cause(id="checkpoint-of-other-sizes",
        refines=("shape-mismatch",),
        messages=(r"size mismatch for \S{1,300}: copying a param with shape",
            r"Trying to set a tensor of shape torch\.Size\(\[[\d, ]{1,60}\]\) in",
            r"size mismatch for \w{1,80}(?:\.\w{1,80}){1,20}(?![\w.:])"),
        examples=("size mismatch for embed_tokens.weight: copying a param with shape "
            "torch.Size([32001, 4096]) from checkpoint, the shape in current model is "
            "torch.Size([32000, 4096]).",
            "ValueError: Trying to set a tensor of shape torch.Size([151936, 4096]) in \"weight\" "
            "(which has shape torch.Size([151665, 4096])), this looks incorrect.",
            "size mismatch for model.embed_tokens.weight"),
        why="The checkpoint was saved by a model of other sizes: tokens were added, the rank r "
            "of LoRA or the number of classes differs, or it is another base model.",
        fix="Build the model as it was when it was saved. Embeddings that differ by a few rows: "
            "model.resize_token_embeddings(len(tokenizer)) with the saved tokenizer, before "
            "loading. LoRA: the r of adapter_config.json. Only a head that is to be trained "
            "anew may be left out (ignore_mismatched_sizes=True).",
        commands=("doctor scan CHECKPOINT",), sources=("torch-load-module",)),
    Cause(id="shape-mismatch",
        messages=("mat1 and mat2 shapes cannot be multiplied",
            r"The size of tensor a \(\d+\) must match the size of tensor b \(\d+\)",
            r"size mismatch for \S{1,300}: copying a param with shape",
            "stack expects each tensor to be equal size",
            "Sizes of tensors must match except in dimension",
            r"shape '\[[-\d, ]{1,100}\]' is invalid for input of size",
            r"Given groups=\d+, weight of size \[[\d, ]{1,80}\], expected input",
            r"Expected input batch_size \(\d+\) to match target batch_size",
            "Unable to create tensor, you should probably activate truncation and/or padding",
            r"input and weight\.T shapes cannot be multiplied|mat1 dim 1 must match mat2 dim 0",
            "Expected size for first two dimensions of batch2 tensor to be|batch1 and batch2 "
            "must have same number of batches"),
        examples=("RuntimeError: mat1 and mat2 shapes cannot be multiplied (4x10 and 20x5)",
            "RuntimeError: The size of tensor a (5) must match the size of tensor b (6) at "
            "non-singleton dimension 1",
            "size mismatch for lm_head.weight: copying a param with shape torch.Size([32000, "
            "4096]) from checkpoint",
            "RuntimeError: stack expects each tensor to be equal size, but got [5] at entry 0",
            "RuntimeError: Sizes of tensors must match except in dimension 1. Expected size 4",
            "RuntimeError: shape '[2, -1]' is invalid for input of size 5",
            "RuntimeError: Given groups=1, weight of size [3, 1, 3, 3], expected input[1, 3, 8, "
            "8]",
            "ValueError: Expected input batch_size (4) to match target batch_size (8).",
            "ValueError: Unable to create tensor, you should probably activate truncation "
            "and/or padding",
            "RuntimeError: linear(): input and weight.T shapes cannot be multiplied (8x768 and "
            "1024x10)",
            "RuntimeError: batch1 and batch2 must have same number of batches, got 8 and 16"),
        why="Two tensors do not fit: a batch that is not padded to one length, a head or "
            "vocabulary of another size than in the checkpoint, or a layer's wrong input size.",
        fix="Print the shapes at the line that the traceback names. Pad and truncate in the "
            "collator; for a new head pass ignore_mismatched_sizes=True.",
        title="Tensors have shapes that fit", sources=("tr-misr-3",),
        next_check="SMK001", code="LOG047"),
    Cause(id="index-out-of-range",
        errors=("IndexError", "RuntimeError"),
        messages=(r"index -?\d+ is out of bounds for dim with size",
            "index out of range in self|index out of range: Tried to access index",
            r"Target -?\d+ is out of bounds",
            r"index -?\d+ is out of bounds for dimension \d+ with size",
            "Class values must be (?:smaller|non-negative)",
            r"Received a label value of -?\d+ which is outside the valid range"),
        examples=("RuntimeError: index 15 is out of bounds for dim with size 2",
            "IndexError: index out of range in self",
            "IndexError: Target 10 is out of bounds.",
            "RuntimeError: index 5 is out of bounds for dimension 0 with size 3",
            "RuntimeError: Class values must be smaller than num_classes.",
            "Received a label value of 10 which is outside the valid range of [0, 10)."),
        wordings=(
            Wording("index out of range in self|index out of range: Tried to access index",
                "IndexError: index out of range in self",
                "An embedding got a number that it has no row for: a token id beyond the "
                    "vocabulary, or a position beyond the model's length.",
                "Compare input_ids.max() with model.get_input_embeddings().num_embeddings: "
                    "after adding tokens call model.resize_token_embeddings(len(tokenizer)), and "
                    "use the tokenizer of this model. If the ids fit, the text is longer than "
                    "max_position_embeddings: truncation=True, "
                    "max_length=tokenizer.model_max_length. Labels and categories begin with 0."),
        ),
        why="On the CPU the same fault as a device-side assert: a token id beyond the "
            "embedding, a position beyond the context length, or a label outside the classes.",
        fix="Fix the index that exceeds its table: a token beyond the rows of the embedding "
            "(call model.resize_token_embeddings(len(tokenizer)) after adding tokens), a "
            "position beyond the model's context length (truncate), a label outside the classes "
            "(they run from 0 to classes - 1, also for bincount and one_hot: subtract 1 from "
            "labels that begin with 1), or an index into a tensor, such as one of another table "
            "or of a node that a filter removed.",
        title="No index exceeds its table", sources=("r-bert-5", "transformers-11958"),
        next_check="CKP011", code="LOG048"),
    Cause(id="autograd-misuse",
        messages=(r"recomputed metadata: \{.shape.: torch\.Size\(\[0\]\)",
            "Trying to backward through the graph a second time",
            "one of the variables needed for gradient computation has been modified by an "
            "inplace",
            "a leaf Variable that requires grad is being used in an in-place operation",
            "Recomputed values for the following tensors have different metadata",
            "Expected to mark a variable ready only once",
            r"has already been reduced\. Gradient computed twice",
            r"unscale_\(\) has already been called on this optimizer"),
        examples=("recomputed metadata: {'shape': torch.Size([0]), 'dtype': torch.bfloat16",
            "RuntimeError: Trying to backward through the graph a second time (or directly "
            "access saved tensors after they have already been freed).",
            "RuntimeError: one of the variables needed for gradient computation has been "
            "modified by an inplace operation: [torch.FloatTensor [4]] is at version 2",
            "RuntimeError: a leaf Variable that requires grad is being used in an in-place "
            "operation.",
            "torch.utils.checkpoint.CheckpointError: torch.utils.checkpoint: Recomputed values "
            "for the following tensors have different metadata than during the forward pass.",
            "RuntimeError: Expected to mark a variable ready only once.",
            "AssertionError: The parameter 447 has already been reduced. Gradient computed "
            "twice for this partition.",
            "RuntimeError: unscale_() has already been called on this optimizer since the last "
            "update()."),
        wordings=(
            Wording("Expected to mark a variable ready only once|"
                r"has already been reduced\. Gradient computed twice",
                "AssertionError: The parameter 447 has already been reduced. Gradient "
                    "computed twice for this partition.",
                "Under DistributedDataParallel a parameter got its gradient twice in one "
                    "backward: reentrant checkpointing, a layer that is called several times "
                    "under checkpointing, or find_unused_parameters=True beside checkpointing.",
                "Use non-reentrant checkpointing: "
                    'gradient_checkpointing_kwargs={"use_reentrant": False}, or checkpoint(..., '
                    "use_reentrant=False). Otherwise switch find_unused_parameters off, or give "
                    "DDP static_graph=True where every step has the same graph.",
                more=("RuntimeError: Expected to mark a variable ready only once. This error "
                        "is caused by one of the following reasons: 1) Use of a module parameter "
                        "outside the `forward` function.",)),
        ),
        why="The same graph was used twice, or a tensor that backward needs was changed. With "
            "DDP and reentrant checkpointing a parameter is marked ready twice.",
        fix="Call backward once per forward, or detach what is carried over steps; replace "
            'in-place operations; with DDP and checkpointing use {"use_reentrant": False}.',
        title="The autograd graph is used once and unchanged", sources=("ps-P7",), code="LOG049"),
    Cause(id="device-mismatch",
        errors=("RuntimeError",),
        messages=(r"[Ee]xpected object of (?:backend|device type) \w{2,6} but got (?:backend|"
            r"device type)",
            r"[Ee]xpected object of type torch\.(?:cuda\.)?(?P<kind>\w{1,20}) but found type "
            r"torch\.(?:cuda\.)?(?P=kind)",
            "Expected all tensors to be on the same device",
            "Input, output and indices must be on the current device",
            "Cannot copy out of meta tensor; no data",
            "module must have its parameters and buffers on device",
            "is not on the expected device",
            "set the storage of a tensor on device",
            "is on cpu but expected (?:them to be )?on gpu|Expected a cuda device, but got: cpu",
            r"Input type \(torch\.cuda\.(?P<on_gpu>\w{1,20})\) and weight type "
            r"\(torch\.(?P=on_gpu)\)|Input type \(torch\.(?P<on_cpu>\w{1,20})\) and weight type "
            r"\(torch\.cuda\.(?P=on_cpu)\)|Input type \(CUDA\w{1,30}\) and \w{4,6} type \(torch\.\w"
            r"{1,20}Tensor\)|Input type \(torch\.\w{1,20}Tensor\) and \w{4,6} type \(CUDA",
            r"found two different devices|Expected tensor for '\w+' to have the same device as"),
        examples=('RuntimeError: Attempted to set the storage of a tensor on device "cuda:0" to a '
            'storage on different device "cpu".',
            "RuntimeError: Expected object of backend CPU but got backend CUDA for "
            "argument #4 'mat1'",
            "RuntimeError: Expected object of type torch.cuda.FloatTensor but found type "
            "torch.FloatTensor for argument #3 'weight'",
            "RuntimeError: Expected all tensors to be on the same device, but found at least "
            "two devices, cuda:0 and cpu!",
            "RuntimeError: Input, output and indices must be on the current device",
            "NotImplementedError: Cannot copy out of meta tensor; no data!",
            "RuntimeError: module must have its parameters and buffers on device cuda:0",
            "RuntimeError: Tensor on device cpu is not on the expected device cuda:0!",
            "RuntimeError: Tensor for argument weight is on cpu but expected on gpu",
            "RuntimeError: Input type (torch.FloatTensor) and weight type "
            "(torch.cuda.FloatTensor) should be the same",
            "RuntimeError: Input type (CUDABFloat16Type) and weight type (torch.FloatTensor) "
            "should be the same",
            "torch._dynamo.exc.TorchRuntimeError: Failed running call_function: Unhandled "
            "FakeTensor Device Propagation for aten.mm.default, found two different devices "
            "cuda:0, cpu",
            "RuntimeError: Expected tensor for 'out' to have the same device as tensor for "
            "argument #2 'mat1'; but device 0 does not equal 1"),
        why="Inputs, labels, buffers or a part of the model stayed on the CPU or on another GPU.",
        fix="Move the batch and every module with .to(device); create tensors on the device of "
            "the inputs (torch.arange(n, device=x.device)), make constants buffers "
            "(register_buffer), and hold layers as attributes or in nn.ModuleList. With "
            "device_map=\"auto\" send inputs to the first layer's device.",
        wordings=(
            Wording(r"cannot be accessed from Triton \(cpu tensor\?\)",
                "ValueError: Pointer argument (at 4) cannot be accessed from Triton (cpu tensor?)",
                "A Triton kernel got a tensor on the CPU, or on another GPU than the current one: "
                "a device_map spread the model, or data stayed on the CPU.",
                "Keep the model on one GPU (device_map={'': LOCAL_RANK}, without offloading to the "
                "CPU) and move the batch to it. Where layers are on several GPUs, call kernels of "
                "your own inside of with torch.cuda.device(x.device), and leave out those of a "
                "library (Liger, Unsloth). On the CPU use plain ones "
                "(attn_implementation=\"sdpa\").",
                sources=("kivi-24", "liger-kernel-401")),),
        title="Operands are on the same device", sources=("conceptexpress-5",),
        next_check="SMK001", code="LOG050"),
    Cause(id="attention-unsupported",
        messages=(r"No available kernel\. Aborting execution",
            "FlashAttention only support(?:s)? fp16 and bf16",
            r"Error: Flash Attention 2 only supports torch\.float16 and torch\.bfloat16",
            "FlashAttention forward only supports head dimension"),
        examples=("ValueError: No dot product attention backend is available for the provided "
            "inputs.",
            "RuntimeError: No available kernel. Aborting execution.",
            "RuntimeError: FlashAttention only support fp16 and bf16 data type",
            "ValueError: Flash Attention 2 only supports torch.float16 and torch.bfloat16 dtypes",
            "RuntimeError: FlashAttention forward only supports head dimension at most 256"),
        wordings=(
            Wording("No dot product attention (?:backend|support) ",
                "ValueError: No dot product attention support for the provided inputs!",
                "Transformer Engine left out every attention backend: each has a reason, which "
                'it logs as "Disabling ...".',
                'Read the lines "Disabling ..." above the error (NVTE_DEBUG=1 '
                "NVTE_DEBUG_LEVEL=2 prints them): each backend has its own. FusedAttention: a "
                "cuDNN or a Transformer Engine that is newer (head sizes of MLA, thd, a new "
                "GPU). FlashAttention: a release of flash-attn that it knows, head sizes that "
                "it supports (above 128 before Hopper, MLA). UnfusedDotProductAttention does "
                "not take packed sequences: qkv_format sbhd or bshd without packing. Then "
                "--attention-backend auto.",
                ("NVTE_DEBUG=1 NVTE_DEBUG_LEVEL=2 python train.py",)),),
        why="The attention kernels that are switched on do not support this dtype, head size, "
            "mask or GPU, or the release of flash-attn that is installed is none that the "
            "library accepts.",
        fix="Run the model under autocast in bf16 or fp16, or allow another kernel: "
            'attn_implementation="sdpa" with all SDPA backends on.',
        title="An attention kernel supports the inputs", sources=("torch-sdpa-kernel",),
        next_check="NUM003", code="LOG051"),
)  # fmt: skip
