"""NVIDIA's GPUs for laptops, from Ampere on; each maker sets their power and clock."""

from __future__ import annotations

from doctor.hardware.product import Family, Product

_DATABASES = ("techpowerup", "pci-ids")

LAPTOP_50 = Family(
    "GeForce RTX 50 and RTX PRO, laptops", "laptop",
    "RTX (?:50[5-9]0(?: Ti)?|PRO [1-5]?[05]00 Blackwell(?: Generation)?) Laptop GPU",
    ("cuda-gpus", "nvidia-rtx-blackwell", *_DATABASES),
    capability=(12, 0), tensor=512, fp32=256, generation=5, ecc=False,
    products=(
        Product("GeForce RTX 5050 Laptop GPU", (8,), (20,), 384, pci=(0x2D98, 0x2DD8)),
        Product("GeForce RTX 5060 Laptop GPU", (8,), (26,), 384, pci=(0x2D19, 0x2D59)),
        Product("GeForce RTX 5070 Laptop GPU", (8,), (36,), 384, pci=(0x2D18, 0x2D58)),
        Product("GeForce RTX 5070 Ti Laptop GPU", (12,), (46,), 672, pci=(0x2F18, 0x2F58)),
        Product("GeForce RTX 5080 Laptop GPU", (16,), (60,), 896, pci=(0x2C19, 0x2C59)),
        Product("GeForce RTX 5090 Laptop GPU", (24,), (82,), 896, pci=(0x2C18, 0x2C58)),
    ),
)  # fmt: skip
LAPTOP_40 = Family(
    "GeForce RTX 40 and RTX Ada, laptops", "laptop",
    "RTX (?:40[5-9]0|[1-5]?[05]00 Ada Generation) Laptop GPU",
    ("cuda-gpus", "nvidia-rtx-blackwell", *_DATABASES),
    capability=(8, 9), tensor=512, fp32=256, generation=4, ecc=False,
    products=(
        Product("GeForce RTX 4050 Laptop GPU", (6,), (20,), 192, pci=(0x28A1, 0x28E1)),
        Product("GeForce RTX 4060 Laptop GPU", (8,), (24,), 256, pci=(0x28A0, 0x28E0)),
        Product("GeForce RTX 4070 Laptop GPU", (8,), (36,), 256, pci=(0x2820, 0x2860)),
        Product("GeForce RTX 4080 Laptop GPU", (12,), (58,), 432, pci=(0x27A0, 0x27E0)),
        Product("GeForce RTX 4090 Laptop GPU", (16,), (76,), 576, pci=(0x2717, 0x2757)),
        Product("RTX 1000 Ada Generation Laptop GPU", (6,), (20,), 192, pci=(0x28B9,)),
        Product("RTX 2000 Ada Generation Laptop GPU", (8,), (24,), 256, pci=(0x28B8,)),
        Product("RTX 3000 Ada Generation Laptop GPU", (8,), (36,), 256, pci=(0x2838,)),
        Product("RTX 3500 Ada Generation Laptop GPU", (12,), (40,), 432, pci=(0x27BB,)),
        Product("RTX 4000 Ada Generation Laptop GPU", (12,), (58,), 432, pci=(0x27BA,)),
        Product("RTX 500 Ada Generation Laptop GPU", (4,), (16,), 128, pci=(0x28BA, 0x28BB)),
        Product("RTX 5000 Ada Generation Laptop GPU", (16,), (76,), 576, pci=(0x2730,)),
    ),
)  # fmt: skip
LAPTOP_30 = Family(
    "GeForce RTX 30 and RTX A, laptops", "laptop",
    "RTX (?:30[5-8]0(?: Ti)?|A[1-5]?[05]00) Laptop GPU|MX570 ?A?",
    ("cuda-gpus", "nvidia-rtx-blackwell", *_DATABASES),
    capability=(8, 6), tensor=512, fp32=256, generation=4, ecc=False,
    products=(
        Product("GeForce RTX 2050", (4,), (16,), 94, pci=(0x25A9,)),
        Product("GeForce RTX 3050 Laptop GPU", (4, 6), (16, 20), 132,
                pci=(0x25A2, 0x25A5, 0x25AB, 0x25AC, 0x25E2, 0x25E5, 0x25EC)),
        Product("GeForce RTX 3050 Ti Laptop GPU", (4,), (20,), 176, pci=(0x25A0, 0x25E0)),
        Product("GeForce RTX 3060 Laptop GPU", (6,), (30,), 288, pci=(0x2521, 0x2561)),
        Product("GeForce RTX 3070 Laptop GPU", (8,), (40,), 384),
        Product("GeForce RTX 3070 Ti Laptop GPU", (8,), (46,), 384, pci=(0x24A0, 0x24E0)),
        Product("GeForce RTX 3080 Laptop GPU", (8,), (48,), 384, pci=(0x249C, 0x24DC)),
        Product("GeForce RTX 3080 Ti Laptop GPU", (16,), (58,), 384, pci=(0x2420, 0x2460)),
        Product("RTX A1000 Laptop GPU", (4, 6), (16, 20), 132, pci=(0x25B9, 0x25BC)),
        Product("RTX A2000 Laptop GPU", (4, 8), (20,), 176, pci=(0x25B8, 0x25BA)),
        Product("RTX A3000 Laptop GPU", (6, 12), (32,), 264, pci=(0x24B8, 0x24B9, 0x24BB)),
        Product("RTX A4000 Laptop GPU", (8,), (40,), 352, pci=(0x24B7,)),
        Product("RTX A4500 Laptop GPU", (16,), (46,), 448, pci=(0x24BA,)),
        Product("RTX A500 Laptop GPU", (4,), (16,), 96, pci=(0x25BB, 0x25BD)),
        Product("RTX A5000 Laptop GPU", (16,), (48,), 384, pci=(0x24B6,)),
        Product("RTX A5500 Laptop GPU", (16,), (58,), 448, pci=(0x2438,)),
    ),
)  # fmt: skip

FAMILIES = (LAPTOP_50, LAPTOP_40, LAPTOP_30)
