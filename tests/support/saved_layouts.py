"""Checkpoints in many layouts, as their programs save them, and what a scan reads of them."""

from __future__ import annotations

import math
import struct
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from doctor._util.records import Unknown
from doctor.checkpoint.io.files import Directory
from doctor.checkpoint.io.stages import no_stage
from doctor.checkpoint.reader import LayoutContents, read_layout
from doctor.checkpoint.records import Checkpoint
from doctor.checkpoint.scan import scan
from doctor.checkpoint.tensors import OptimizerState, Part, Shard, Tensor, join_states

torch = pytest.importorskip("torch")

SIZES = {
    "hidden_size": 16,
    "intermediate_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "vocab_size": 64,
}


class Recorder:
    """Records the tensors that a scan passes on."""

    def __init__(self) -> None:
        self.shards: Sequence[Shard] = ()

    def __call__(self, folder: Directory, contents: LayoutContents) -> None:
        self.folder, self.shards = folder, contents.shards

    @property
    def tensors(self) -> dict[str, Tensor]:
        return {tensor.name: tensor for shard in self.shards for tensor in shard.tensors}


def scan_tensors(path: Path) -> tuple[Checkpoint, Recorder]:
    recorder = Recorder()
    checkpoint = scan(str(path), no_stage, recorder)
    assert isinstance(checkpoint, Checkpoint), checkpoint
    return checkpoint, recorder


def state(path: Path) -> OptimizerState:
    from doctor.checkpoint.layouts.directory import find_layout

    layout = find_layout(str(path))
    assert not isinstance(layout, Unknown)
    read = read_layout(layout, no_stage)
    state = join_states(shard.optimizer for shard in read.all_shards)
    assert state is not None
    return state


DTYPES = {
    "F32": torch.float32,
    "BF16": torch.bfloat16,
    "F16": torch.float16,
    "I64": torch.int64,
    "F64": torch.float64,
}


def value(root: Path, tensor: Tensor) -> Any:
    """The tensor by the bytes that the reader points at."""
    parts = tensor.parts or (Part(tensor.file, tensor.begin, tensor.end),)
    data = b""
    for part in parts:
        with (root / part.file).open("rb") as file:
            file.seek(part.begin)
            data += file.read(part.end - part.begin)
    flat = torch.frombuffer(bytearray(data), dtype=DTYPES[tensor.dtype])
    if tensor.strides is not None:
        return torch.as_strided(flat, tensor.shape, tensor.strides)
    return flat.reshape(tensor.shape)


def same(root: Path, tensors: dict[str, Tensor], expected: dict[str, Any]) -> None:
    """Names, shapes, dtypes and every byte."""
    assert tensors.keys() == expected.keys()
    for name, tensor in tensors.items():
        theirs = expected[name]
        assert tensor.shape == tuple(theirs.shape), name
        assert DTYPES[tensor.dtype] == theirs.dtype, name
        assert torch.equal(value(root, tensor), theirs), name


def llama(dtype: Any = None) -> Any:
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    model = LlamaForCausalLM(LlamaConfig(**SIZES))
    return model if dtype is None else model.to(dtype)


def stepped(model: Any, steps: int = 3) -> Any:
    """An AdamW that has made some steps."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for _ in range(steps):
        ids = torch.randint(0, 64, (2, 8))
        model(input_ids=ids, labels=ids).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    return optimizer


def saved(folder: Path, states: dict[str, Any]) -> None:
    import torch.distributed.checkpoint as dcp

    dcp.save(states, checkpoint_id=str(folder))


def states_of(model: Any, optimizer: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    from torch.distributed.checkpoint.state_dict import get_state_dict

    return get_state_dict(model, optimizer)


NAMES = {"a.weight": (5, 3), "a.bias": (5,), "norm.weight": (7,), "b.weight": (2, 9)}


def masters() -> dict[str, Any]:
    torch.manual_seed(1)
    return {name: torch.randn(shape) for name, shape in NAMES.items()}


def shapes(groups: Sequence[Sequence[str]]) -> list[Any]:
    return [OrderedDict((name, torch.Size(NAMES[name])) for name in group) for group in groups]


GROUPS = (("a.weight", "b.weight"), ("a.bias", "norm.weight"))


def padded(flat: Any, length: int) -> Any:
    return torch.cat([flat, torch.zeros(length - flat.numel())])


def zero_two(folder: Path, ranks: int, **more: Any) -> dict[str, Any]:
    """global_step files as ZeRO 1 and 2 write them; gives the masters."""
    whole = masters()
    under = folder / "global_step6"
    under.mkdir(parents=True)
    (folder / "latest").write_text("global_step6")
    (folder / "zero_to_fp32.py").write_text("")
    module = OrderedDict((name, tensor.to(torch.bfloat16)) for name, tensor in whole.items())
    model = {
        "module": module, "param_shapes": shapes(GROUPS), "buffer_names": [], "global_steps": 6,
        "ds_config": {"bf16": {"enabled": True, **more}}, "ds_version": "0.17.0",
        "dp_world_size": ranks, "frozen_param_shapes": None,
    }  # fmt: skip
    torch.save(model, under / "mp_rank_00_model_states.pt")
    flats = []
    for group in GROUPS:
        flat = torch.cat([whole[name].flatten() for name in group])
        size = math.ceil(flat.numel() / (2 * ranks)) * 2 * ranks
        flats.append(padded(flat, size).chunk(ranks))
    for rank in range(ranks):
        mine = [chunks[rank].clone() for chunks in flats]
        base = {
            "state": {
                index: {"step": torch.tensor(6.0), "exp_avg": flat * 2, "exp_avg_sq": flat * flat}
                for index, flat in enumerate(mine)
            },
            "param_groups": [{"lr": 1e-4, "weight_decay": 0.1, "params": [n]} for n in range(2)],
        }
        state = {
            "zero_stage": 2, "partition_count": [ranks, ranks], "loss_scaler": None,
            "single_partition_of_fp32_groups": mine, "base_optimizer_state": base,
        }  # fmt: skip
        file = under / f"bf16_zero_pp_rank_{rank}_mp_rank_00_optim_states.pt"
        torch.save({"optimizer_state_dict": state, "ds_version": "0.17.0"}, file)
    return whole


def text(content: str) -> bytes:
    return struct.pack("<Q", len(content)) + content.encode()


def gguf(
    tensors: dict[str, tuple[tuple[int, ...], int, bytes]],
    version: int = 3,
    keys: Mapping[str, int | str] = {"tokenizer.ggml.tokens": 2},
) -> bytes:
    """A file by ggml's description: keys of each kind, then tensors aligned to 32 bytes.

    `keys`: texts and numbers; of tokens their number.
    """
    written = [
        text("general.architecture") + struct.pack("<I", 8) + text("llama"),
        text("general.alignment") + struct.pack("<II", 4, 32),
        text("llama.rope.freq_base") + struct.pack("<If", 6, 1e4),
        text("tokenizer.ggml.scores") + struct.pack("<IIQff", 9, 6, 2, 0.0, 1.0),
    ]
    for key, value in keys.items():
        if isinstance(value, str):
            written.append(text(key) + struct.pack("<I", 8) + text(value))
        elif key == "tokenizer.ggml.tokens":
            words = b"".join(text(f"w{number}") for number in range(value))
            written.append(text(key) + struct.pack("<IIQ", 9, 8, value) + words)
        else:
            written.append(text(key) + struct.pack("<II", 4, value))
    head = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(written)) + b"".join(written)
    data = b""
    for name, (shape, kind, content) in tensors.items():
        head += text(name) + struct.pack("<I", len(shape))
        head += struct.pack(f"<{len(shape)}Q", *reversed(shape))
        head += struct.pack("<IQ", kind, len(data))
        data += content + bytes(-len(content) % 32)
    return head + bytes(-len(head) % 32) + data


def model_of_gguf() -> dict[str, tuple[tuple[int, ...], int, bytes]]:
    norm = torch.ones(5).numpy().tobytes()
    return {
        "blk.0.attn_norm.weight": ((5,), 0, norm),
        "blk.0.attn_q.weight": ((2, 32), 2, bytes(36)),
        "output.weight": ((2, 3), 30, bytes(12)),
        "output_norm.weight": ((5,), 0, struct.pack("<5f", 1, 1, 1, 1, 2)),
    }
