"""Devices of tensors, and what leaves them."""

from __future__ import annotations

from doctor.errors.cause import Cause, Wording

ROWS = (
    Cause(id="tensor-not-for-numpy",
        errors=("RuntimeError", "TypeError"),
        messages=(r"can\'t convert CUDA tensor to numpy",
            r"Can't call numpy\(\) on (?:Tensor|Variable) that requires grad",
            r"can't convert \S{1,20} device type tensor to numpy",
            r"Got unsupported ScalarType BFloat16"),
        examples=("TypeError: can't convert CUDA tensor to numpy. Use Tensor.cpu() to copy the "
              "tensor to host memory first.",
            "TypeError: can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu() to copy "
              "the tensor to host memory first.",
            "RuntimeError: Can't call numpy() on Tensor that requires grad. Use "
              "tensor.detach().numpy() instead.",
            "TypeError: Got unsupported ScalarType BFloat16"),
        sources=("torch-numpy",),
        why="numpy cannot hold a tensor with a gradient, one on a GPU, or bfloat16, which autocast "
            "and bf16 weights return.",
        fix="Call detach().cpu() before numpy(), .float() for bfloat16, and do not compute a part "
            "of the loss in numpy: no gradient flows through it.",
    ),
    Cause(id="device-not-usable", refines=("cuda-unavailable",),
        errors=("RuntimeError", "AssertionError"),
        wordings=(
            Wording(r"device type at start of device string|Invalid device string",
                "RuntimeError: Invalid device string: 'gpu'",
                "The text is no name of a device.",
                "Write the device as 'cuda', 'cuda:0', 'mps' or 'cpu'.",
                more=("RuntimeError: Expected one of cpu, cuda, ipu, xpu, mkldnn device type at "
                      "start of device string: gpu",)),
            Wording(r"device type for generator but found|Expected a '(?:cpu|cuda)' device type "
                r"for generator",
                "RuntimeError: Expected a 'cuda' device type for generator but found 'cpu'",
                "A random generator is for tensors of its own device.",
                "Create the generator on the device of the tensors, torch.Generator(device=...); a "
                    "DataLoader shuffles on the CPU, so do not set a default device of cuda around "
                    "it."),
            Wording(r"Attempting to deserialize object on CUDA device \d+ but",
                "RuntimeError: Attempting to deserialize object on CUDA device 3 but "
                    "torch.cuda.device_count() is 1.",
                "The file was saved from a GPU that this process does not have.",
                "Pass map_location='cpu' to torch.load: the file was saved from a GPU that this "
                    "process does not have.")),
        why="The text is no name of a device, or the device is not there.",
        sources=("torch-cuda-init", "torch-load"),
    ),
    Cause(id="meta-device",
        refines=("device-mismatch",),
        errors=("NotImplementedError", "RuntimeError"),
        messages=(r"Cannot copy out of meta tensor|on the meta device, which have no values|is on "
              r"the meta device, we need a `?value|found at least two devices, (?:\S{1,12} and )?"
              r"meta\b|Tensor on device (?:meta is not|\S{1,12} is not on the expected device "
              r"meta\b)",),
        examples=("NotImplementedError: Cannot copy out of meta tensor; no data! Please use",
            "the model has parameters on the meta device, which have no values",
            "RuntimeError: Tensor on device meta is not on the expected device cpu!",
            "RuntimeError: Expected all tensors to be on the same device, but found at least two "
              "devices, cpu and meta!"),
        told_by="one of the devices is meta",
        why="Weights or buffers are on the meta device: they have shapes and no values.",
        fix="With device_map the model is placed already, and what did not fit was left out: no "
            ".to() or .cuda() after it, and for training device_map={'': LOCAL_RANK} or none. Else "
            "build the model outside of torch.device('meta') and without init_empty_weights, or "
            "materialize it with module.to_empty(device=...) and load its weights; .to(device) has "
            "no values to copy. A buffer with persistent=False is in no state dict: create it "
            "outside of the meta context, or compute it again afterwards.",
        sources=("torch-module",),
    ),
)  # fmt: skip
