"""NVIDIA's GPUs that share the memory of a processor on the same chip or module."""

from __future__ import annotations

from doctor.hardware.product import Family, Product

_DATABASES = ("cuda-gpus", "techpowerup", "pci-ids")

GB10 = Family(
    "GB10", "embedded", "GB10|RTX Spark N1X", _DATABASES,
    capability=(12, 1), tensor=512, fp32=256, nvlink=5,
    products=(Product("GB10", (128,), (48,), 273, None, None, None, pci=(0x2E12,), links=0),),
)  # fmt: skip
THOR = Family(
    "Jetson Thor", "embedded", "Thor", _DATABASES,
    capability=(11, 0), fp32=256,
    products=(Product("Thor", (64, 128), (12, 20), 273, None, None, None, pci=(0x2B00,), links=0),),
)  # fmt: skip
ORIN = Family(
    "Jetson Orin", "embedded", "Orin", _DATABASES,
    capability=(8, 7), fp32=256,
    products=(
        Product("Orin", (4, 8, 16, 32, 64), (4, 8, 14, 16), 34, None, None, None, links=0),
    ),
)  # fmt: skip
XAVIER = Family(
    "Jetson Xavier", "embedded", "Xavier", _DATABASES,
    capability=(7, 2), fp32=128,
    products=(Product("Xavier", (8, 16, 32, 64), (6, 8), 60, None, None, None, links=0),),
)  # fmt: skip
TX2 = Family(
    "Jetson TX2", "embedded", "TX2", _DATABASES,
    capability=(6, 2), fp32=256,
    products=(Product("TX2", (4, 8), (2,), None, None, None, None, links=0),),
)  # fmt: skip
NANO = Family(
    "Jetson Nano", "embedded", "Tegra X1|TX1", _DATABASES,
    capability=(5, 3), fp32=256,
    products=(Product("Tegra X1", (2, 4), (1,), None, None, None, None, links=0),),
)  # fmt: skip

FAMILIES = (GB10, THOR, ORIN, XAVIER, TX2, NANO)
