"""The sources of every setting: printed with it, and found from the source by `doctor explain`."""

from __future__ import annotations

CITED = {
    "precision": ("ps-P1", "ps-P3", "ps-P4"),
    "precision bf16": ("ps-P1", "ps-P4", "ps-P6"),
    "precision fp16": ("ps-P1", "ps-P4", "ps-P5", "ps-P7"),
    "precision fp32": ("ps-P1",),
    "precision diagnostic": ("ps-P1", "bts-diagnostic"),
    "weights": ("bts-fix2", "fnr-fix"),
    "weights pure-bf16": ("fnr-fix", "optimi"),
    "TF32": ("ps-P2", "pytorch-166387", "lightning-tf32"),
    "TF32 diagnostic": ("ps-P1",),
    "cuDNN attention": ("bts-fix3", "pytorch-196678", "pytorch-139298"),
    "flash attention": ("bts-diagnostic",),
    "memory-efficient attention": ("bts-diagnostic",),
    "attn_implementation eager": ("bts-stable", "bts-fix1"),
    "attn_implementation sdpa": ("bts-quick",),
    "attn_implementation flash_attention_2": ("bts-fast",),
    "torch.compile": ("bts-fix6",),
    "gradient checkpointing": ("cbl-fix",),
    "gradient clipping": ("ps-P13", "ps-P14"),
    "gradient clipping fp16": ("ps-P7", "ps-P13"),
    "warm-up": ("ps-P12",),
    "determinism": ("ps-P19",),
    "data loader": ("pytorch-5040",),
    "peer-to-peer": ("nccl-env",),
}
"""Setting, in some cases with its value or mode -> ids of sources."""

RESTS_ON = {
    "precision": "NUM001", "TF32": "NUM002", "cuDNN attention": "NUM003",
    "flash attention": "NUM003", "memory-efficient attention": "NUM003",
    "attn_implementation": "NUM003", "determinism": "NUM004", "gradient checkpointing": "MEM001",
    "gradient checkpointing, requested": "SMK009", "data loader": "MEM003", "weights": "SMK004",
    "gradient clipping": "SMK006", "warm-up": "SMK006", "torch.compile": "SMK010",
}  # fmt: skip
"""Setting -> the code of the check whose finding is its reason."""


def settings_citing(id: str) -> tuple[str, ...]:
    """Names of the settings that rest on a source."""
    return tuple(name for name, sources in CITED.items() if id in sources)
