"""Inputs that somebody else wrote: small good ones, and hostile ones for every command."""

from __future__ import annotations

import json

SCRIPT = """import torch
for x in loader:
    scaler.scale(model(x)).backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
"""
COLLECT_ENV = """PyTorch version: 2.6.0+cu124
CUDA used to build PyTorch: 12.4
Is CUDA available: True
GPU models and configuration: GPU 0: NVIDIA H100 80GB HBM3
Nvidia driver version: 550.54.15
"""
SIZES = {"F32": 4, "BF16": 2}


def safetensors(name: str, dtype: str, shape: list[int]) -> bytes:
    """A file with one tensor of zeros."""
    size = SIZES[dtype]
    for length in shape:
        size *= length
    entry = {"dtype": dtype, "shape": shape, "data_offsets": [0, size]}
    header = json.dumps({name: entry}).encode()
    return len(header).to_bytes(8, "little") + header + bytes(size)
