"""Versions of packages as logs print them: pip's lists, collect_env, banners."""

from __future__ import annotations

import re

PACKAGES = {
    "torch": "torch", "pytorch": "torch", "transformers": "transformers", "peft": "peft",
    "accelerate": "accelerate", "deepspeed": "deepspeed", "trl": "trl", "nccl": "nccl",
    "bitsandbytes": "bitsandbytes", "flash-attn": "flash-attn", "flash_attn": "flash-attn",
    "vllm": "vllm", "triton": "triton", "python": "python", "lightning": "lightning",
}  # fmt: skip
_DATE = r"\d{4}-\d\d-\d\d"
_VERSION = rf"v?(\d{{1,4}}\.\d(?:(?!{_DATE})[\w.+]){{0,40}})"
"""Up to a date that is glued to it."""
EXPRESSION = re.compile(
    rf"(?<![\w./-])({'|'.join(sorted(PACKAGES, key=len, reverse=True))})"
    rf"(?:==|(?: version)?(?: ?[:=] ?| )){_VERSION}",
    re.IGNORECASE,
)
CUES = (b"vrsion",)
WHOLE = frozenset(
    name.replace("-", "").translate({ord("e"): None}).encode() for name in PACKAGES
) | frozenset(name.translate({ord("e"): None, ord("-"): None}).encode() for name in PACKAGES)
"""Letters of a line that has nothing but a package and its version."""


def may_name_one(template: bytes) -> bool:
    """Whether a line with these letters may print the version of a package."""
    plain = template.removesuffix(b"cu").removesuffix(b"cpu").removesuffix(b"rocm")
    return plain in WHOLE or any(cue in template for cue in CUES)


def read(text: str, versions: dict[str, str]) -> None:
    """Add the versions that a line prints; the first one of a package counts."""
    for match in EXPRESSION.finditer(text[:4096]):
        versions.setdefault(PACKAGES[match[1].lower()], match[2].rstrip("."))
