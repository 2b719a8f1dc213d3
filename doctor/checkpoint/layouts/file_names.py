"""Names of files and directories by which a layout is recognized."""

from __future__ import annotations

import re

ADAPTERS = ("adapter_model.safetensors", "adapter_model.bin")

INDEXES = (".safetensors.index.json", ".bin.index.json")

TORCH = (".ckpt", ".pt", ".pth", ".bin")
"""How files of torch.save end, in the order in which they are taken."""

ONE = {
    ".safetensors": "one safetensors file",
    ".gguf": "one GGUF file",
    ".ckpt": "one .ckpt file",
    ".pt": "one PyTorch file",
    ".pth": "one PyTorch file",
    ".bin": "one PyTorch file",
}
"""What a lone file of weights is called, in the order in which they are taken."""

NAMED_ONLY = {
    ".caffemodel": "Caffe weights", ".h5": "HDF5 weights", ".keras": "a Keras archive",
    ".joblib": "joblib pickles",
    ".mlpackage": "Core ML packages", ".msgpack": "Flax weights", ".nemo": "a NeMo archive",
    ".npy": "numpy arrays", ".npz": "numpy archives", ".onnx": "ONNX models",
    ".pkl": "plain pickles", ".pickle": "plain pickles", ".tflite": "TensorFlow Lite models",
    ".engine": "TensorRT engines", ".plan": "TensorRT engines", ".zarr": "zarr arrays",
}  # fmt: skip
"""Formats that are recognised and not read."""

NAMED_DIRECTORIES = {
    "manifest.ocdbt": "an Orbax checkpoint",
    "_CHECKPOINT_METADATA": "an Orbax checkpoint",
    "_METADATA": "an Orbax checkpoint",
    ".zgroup": "zarr arrays",
    ".zarray": "zarr arrays",
    "zarr.json": "zarr arrays",
    "saved_model.pb": "a TensorFlow SavedModel",
    "model_weights.ckpt": "a NeMo archive that was unpacked",
}
"""What lies in directories of formats that are recognised and not read."""

STATES = re.compile(r"optimizer(?:_\d+)?\.(?:pt|bin|pth)|rank\d+-of-\d+-optimizer\.pt")
"""An optimizer's state, as Trainer and Accelerate save it."""

NOT_WEIGHTS = re.compile(
    r"(?:.*optimizer.*|scheduler.*|scaler.*|sampler.*|rng_state.*|random_states.*|training_args|"
    r"custom_checkpoint.*|dl_state_dict.*|recipe_state|distrib_optim)\.(?:pt|pth|bin|pkl)(?:\.tar)?"
)
"""Files of the same suffixes that hold no weights."""

PICKLED = re.compile(
    r".+\.(?:bin|pt|pth|ckpt|pkl|pk|pickle|dill|joblib|npy|npz|pdparams|pdopt|sav)(?:\.tar|\.tmp)?|.+\.tar"
)
"""Files that a loader would unpickle, arrays of objects included."""

TENSOR_PARALLEL = re.compile(r"consolidated\.\d+\.pth")
FSDP_RANK = re.compile(
    r"pytorch_model(?:_\d+)?_fsdp_rank\d+\.bin|pytorch_model_fsdp_\d+_rank\d+\.bin"
)
TENSORFLOW = re.compile(r"(.+)\.data-\d{5}-of-\d{5}")
OF_TENSORFLOW = re.compile(r"ckpt|^variables$")
"""In the name of a checkpoint of TensorFlow, without its suffix."""
MODULE = re.compile(r"\d+_\w+")
"""Directories of sentence-transformers: 1_Pooling, 2_Dense."""
WEIGHTS_OF_MODULES = ("model.safetensors", "pytorch_model.bin")
FURTHER_MODEL = re.compile(r"(?:model|pytorch_model)_\d+\.(?:safetensors|bin)")
"""What Accelerate names the models that it prepared after the first one."""
