"""GPUs and drivers for which a torch is chosen."""

from __future__ import annotations

from doctor.hardware.product import Capability

GPUS: dict[str, Capability] = {
    "Tesla M40": (5, 2),
    "Tesla P100-PCIE-16GB": (6, 0),
    "NVIDIA GeForce GTX 1080 Ti": (6, 1),
    "Tesla V100-SXM2-32GB": (7, 0),
    "Tesla T4": (7, 5),
    "NVIDIA A100-SXM4-80GB": (8, 0),
    "NVIDIA A10G": (8, 6),
    "Orin": (8, 7),
    "NVIDIA L40S": (8, 9),
    "NVIDIA H100 80GB HBM3": (9, 0),
    "NVIDIA B200": (10, 0),
    "NVIDIA GB300": (10, 3),
    "NVIDIA Thor": (11, 0),
    "NVIDIA GeForce RTX 5090": (12, 0),
    "NVIDIA GB10": (12, 1),
}
DRIVERS = (
    "440.33.01", "450.191.01", "470.82.01", "515.65.01", "525.85.12", "535.104.05",
    "550.54.15", "570.124.06", "575.51.03", "580.95.05", "595.71.05", "610.43.02",
)  # fmt: skip
