"""Gradients: the graph, values changed in place, functions of one's own."""

from __future__ import annotations

from doctor.errors.cause import Cause, Wording

ROWS = (
    Cause(id="refused-by-autograd",
        errors=("RuntimeError", "NotImplementedError"),
        wordings=(
            Wording("Inference tensors cannot be|Inplace update to inference tensor",
                "RuntimeError: Inplace update to inference tensor outside InferenceMode is not "
                "allowed.",
                "Values of inference mode cannot be used in a computation that is "
                "differentiated.",
                "Use torch.no_grad() instead of torch.inference_mode() around what is not "
                "trained: values of inference mode cannot be used in a computation that is "
                "differentiated."),
            Wording("has changed the size of value",
                "RuntimeError: hook '<lambda>' has changed the size of value",
                "A hook returned a gradient of another shape.",
                "Return a gradient of the same shape from the hook, or None to leave it as it "
                "is."),
            Wording("support the deepcopy protocol",
                "RuntimeError: Only Tensors created explicitly by the user (graph leaves) "
                "support the deepcopy protocol at the moment. If you were attempting to "
                "deepcopy a",
                "copy.deepcopy got a tensor that was computed: the model keeps a result of a "
                "forward pass.",
                "Detach what the model keeps of a forward pass, or copy it before its first "
                "forward pass."),
            Wording("Legacy autograd function with non-static forward method",
                "RuntimeError: Legacy autograd function with non-static forward method is "
                "deprecated.",
                "The autograd function has the form of old releases.",
                "Make forward and backward static methods (@staticmethod) with ctx as their "
                "first argument, and call Function.apply."),
            Wording("Only Tensors of floating point (?:and complex )?dtype can require gradients",
                "RuntimeError: Only Tensors of floating point and complex dtype can require "
                "gradients",
                "Gradients exist for floats only.",
                "Make parameters from floats: torch.tensor([1.0, 2.0]), or .float(). Ids have no "
                "gradient: leave requires_grad out for them, and take that of their embedding, "
                "e = embedding(ids); e.retain_grad()."),
            Wording("RNN backward can only be called in training mode",
                "RuntimeError: cudnn RNN backward can only be called in training mode",
                "cuDNN keeps no state for the backward pass in eval mode.",
                "Call model.train() before the forward pass: cuDNN keeps no state for the "
                "backward pass in eval mode."),
            Wording("of the differentiated Tensors does not require grad",
                "RuntimeError: One of the differentiated Tensors does not require grad",
                "torch.autograd.grad differentiates with respect to a tensor that records no "
                "gradient.",
                "Call requires_grad_() on the tensor that torch.autograd.grad or "
                "backward(inputs=...) differentiates with respect to, before it is used: a "
                "batch does not require a gradient by itself."),
            Wording("appears to not have been used in the graph",
                "RuntimeError: One of the differentiated Tensors appears to not have been used "
                "in the graph. Set allow_unused=True if this is the desired behavior.",
                "torch.autograd.grad got an input that the output does not depend on.",
                "Pass allow_unused=True to torch.autograd.grad, or take the gradient of inputs "
                "that the output depends on."),
            Wording(r"derivative for \S{1,60} is not implemented|trying to differentiate twice "
                r"a function that was marked with @once_differentiable",
                "RuntimeError: trying to differentiate twice a function that was marked with "
                "@once_differentiable",
                "torch has no derivative of this operation: floor division, rounding of "
                "indices, comparisons and some kernels.",
                "Use an operation with a derivative in the path to the loss (x / y for x // y, "
                "softmax for argmax), or detach() its input where no gradient is meant to flow."),
            Wording("refers to a single memory location",
                "RuntimeError: unsupported operation: more than one element of the written-to "
                "tensor refers to a single memory location. Please clone() the tensor before "
                "performing the operation.",
                "expand and broadcast_to make views in which many elements share one place in "
                "memory; writing to them is ambiguous.",
                "Call clone() on the tensor before it is written to: expand and broadcast_to "
                "make views in which many elements share one place in memory."),
            Wording("is a view and is being modified inplace|is the output of a function that "
                "returns multiple views",
                "RuntimeError: Output 0 of SplitBackward0 is a view and is being modified "
                "inplace. This view is the output of a function that returns multiple views.",
                "Results of chunk, split, unbind and of iterating over a tensor share memory "
                "and cannot be changed in place.",
                "Write that line with a new tensor, x = x * y for x *= y: results of chunk, "
                "split, unbind and of iterating over a tensor cannot be changed in place.")),
        why="autograd differentiates floats through recorded operations, in training mode, with "
            "gradients in the shape of what they belong to.",
        sources=("torch-saved-variable",)),
    Cause(id="checkpointed-function",
        errors=("CheckpointError", "RuntimeError"),
        messages=(r"Recomputed values for the following tensors",
            r"different number of tensors was saved during the original forward|number of tensors "
              r"saved in forward"),
        examples=("torch.utils.checkpoint.CheckpointError: torch.utils.checkpoint: A different "
              "number of tensors was saved during the original forward and recomputation.",
            "CheckpointError: torch.utils.checkpoint: Recomputed values for the following tensors "
              "have different metadata than during the forward pass. tensor at position"),
        why="A checkpointed function computes something else when it runs again in the backward "
            "pass.",
        fix="Let the checkpointed function compute the same both times: it runs again in the "
            "backward pass, so it must not append to a list or a cache of keys and "
            "values (model.config.use_cache = False), count calls, or depend on random numbers "
            "outside of torch, and autocast must be the same.",
        sources=("torch-recompute",),
    ),
    Cause(id="extension-meets-fake-tensor",
        refines=("parameters-are-partitioned",),
        messages=(r"FakeTensor'?>? to C\+\+ type|Cannot access data pointer of Tensor \(e\.g\. "
            r"FakeTensor",),
        wordings=(
            Wording(r"If you're using torch\.compile/export/fx, it is likely that we are "
                r"erroneously",
                "RuntimeError: The tensor has a non-zero number of elements, but its data is not "
                "allocated yet.\nIf you're using torch.compile/export/fx, it is likely that we are "
                "erroneously tracing into a custom kernel.",
                "A tensor has a size and no memory, and something reads its memory. Under "
                "torch.compile or export it is a tensor without values that a custom kernel gets "
                "while it is traced. torch prints the same hint where neither is in use: then FSDP "
                "or ZeRO-3 has freed a weight, or the model is on the meta device.",
                "Run once with TORCH_COMPILE_DISABLE=1. If it works then, take the call in the "
                "last frame out of the graph: torch.compiler.disable on its function, or "
                "torch.library.custom_op with register_fake. If it fails in the same way, gather "
                "the weights where they are read (FSDP.summon_full_params, "
                "deepspeed.zero.GatheredParameters), or load those of a model on the meta device.",
                ("TORCH_COMPILE_DISABLE=1 python train.py",)),),
        examples=("RuntimeError: Unable to cast Python instance of type <class "
            "'torch._subclasses.fake_tensor.FakeTensor'> to C++ type 'unsigned long'",
            "RuntimeError: Cannot access data pointer of Tensor (e.g. FakeTensor, "
            "FunctionalTensor)."),
        told_by="the model is compiled",
        why="torch.compile traces with tensors that have no values, and a function of an "
            "extension that it cannot look into (C++, CUDA, Triton through ctypes) asks for their "
            "memory.",
        fix="Take the call out of the graph: torch.compiler.disable on the function or module in "
            "the last frame, or register it with torch.library.custom_op and register_fake. A "
            "newer release of the library may have done so; without torch.compile it works.",
        commands=("TORCH_COMPILE_DISABLE=1 python train.py",)),
    Cause(id="value-within-a-trace",
        messages=("TracerBoolConversionError|TracerArrayConversionError|TracerIntegerConversion"
            "Error|ConcretizationTypeError|Using a symbolic `tf.Tensor` as a Python `bool`",),
        examples=("jax.errors.TracerBoolConversionError: Attempted boolean conversion of traced "
            "array with shape bool[].",),
        sources=("jax-errors",),
        why="A function under jit (or tf.function) is traced without values, and Python code in it "
            "asks for one: if, while, int(), a slice of a traced length, numpy.",
        fix="Replace if by jnp.where or jax.lax.cond, a loop by lax.scan or fori_loop, numpy by "
            "jnp; make an argument that decides shapes static (static_argnums, static_argnames); "
            "print with jax.debug.print. An if on training=True: pass it as a static argument."),
)  # fmt: skip
