"""NVIDIA's GPUs for desktops: GeForce and TITAN, from the GTX 900 to the RTX 50.

Before Ampere a laptop's GPU has the desktop's name, so that a row may have two counts of units.
"""

from __future__ import annotations

from doctor.hardware.product import Family, Product

_DATABASES = ("techpowerup", "pci-ids")

RTX_50 = Family(
    "GeForce RTX 50", "consumer", "RTX 50[5-9]0(?: D)?",
    ("cuda-gpus", "nvidia-rtx-blackwell", *_DATABASES),
    capability=(12, 0), tensor=512, fp32=256, generation=5, ecc=False,
    products=(
        Product("GeForce RTX 5050", (8,), (20,), 320, 2572, 130, 8, pci=(0x2D83,)),
        Product("GeForce RTX 5060", (8,), (30,), 448, 2497, 145, 8, pci=(0x2D05, 0x2F06)),
        Product("GeForce RTX 5060 Ti", (8, 16), (36,), 448, 2572, 180, 8, pci=(0x2D04,)),
        Product("GeForce RTX 5070", (12,), (48,), 672, 2512, 250, 16, pci=(0x2F04,)),
        Product("GeForce RTX 5070 Ti", (16,), (70,), 896, 2452, 300, 16, pci=(0x2C05,)),
        Product("GeForce RTX 5080", (16,), (84,), 960, 2617, 360, 16, pci=(0x2C02,)),
        Product("GeForce RTX 5090", (32,), (170,), 1792, 2407, 575, 16, pci=(0x2B85,)),
        Product("GeForce RTX 5090 D", (32,), (170,), 1792, 2407, 575, 16, pci=(0x2B87,)),
        Product("GeForce RTX 5090 D V2", (24,), (170,), 1340, 2407, 575, 16, pci=(0x2B8C,)),
    ),
)  # fmt: skip
RTX_40 = Family(
    "GeForce RTX 40", "consumer", "RTX 40[5-9]0",
    ("cuda-gpus", "nvidia-rtx-blackwell", *_DATABASES),
    capability=(8, 9), tensor=512, fp32=256, generation=4, ecc=False,
    products=(
        Product("GeForce RTX 4060", (8,), (24,), 272, 2460, 115, 8, pci=(0x2808, 0x2882)),
        Product("GeForce RTX 4060 Ti", (8, 16), (34,), 288, 2535, 165, 8,
                pci=(0x2788, 0x2803, 0x2805)),
        Product("GeForce RTX 4070", (12,), (46,), 480, 2475, 200, 16, pci=(0x2709, 0x2786)),
        Product("GeForce RTX 4070 SUPER", (12,), (56,), 504, 2475, 220, 16, pci=(0x2783,)),
        Product("GeForce RTX 4070 Ti", (12,), (60,), 504, 2610, 285, 16, pci=(0x2782,)),
        Product("GeForce RTX 4070 Ti SUPER", (16,), (66,), 672, 2610, 285, 16,
                pci=(0x2689, 0x2705)),
        Product("GeForce RTX 4080", (16,), (76,), 717, 2505, 320, 16, pci=(0x2704,)),
        Product("GeForce RTX 4080 SUPER", (16,), (80,), 736, 2550, 320, 16, pci=(0x2702, 0x2703)),
        Product("GeForce RTX 4090", (24,), (128,), 1008, 2520, 450, 16, pci=(0x2684,)),
        Product("GeForce RTX 4090 D", (24,), (114,), 1008, 2520, 425, 16, pci=(0x2685,)),
    ),
)  # fmt: skip
RTX_30 = Family(
    "GeForce RTX 30", "consumer", "RTX 30[5-9]0|RTX 2050|CMP [79]0HX",
    ("cuda-gpus", "nvidia-rtx-blackwell", *_DATABASES),
    capability=(8, 6), tensor=512, fp32=256, generation=4, nvlink=3, ecc=False,
    products=(
        Product("GeForce MX570", (2,), (16,), 96, 1155, 15, 8),
        Product("GeForce MX570 A", (2,), (16,), 96, 1155, 25, 8),
        Product("GeForce RTX 3050", (4, 6, 8), (16, 18, 20), 168, 1470, 130, 8,
                pci=(0x2507, 0x2508, 0x2582, 0x2583, 0x2584)),
        Product("GeForce RTX 3060", (6, 8, 12), (28, 30), 240, 1777, 195, 16,
                pci=(0x2487, 0x24C7, 0x2501, 0x2503, 0x2504, 0x2544)),
        Product("GeForce RTX 3060 Ti", (8,), (38,), 448, 1665, 225, 16,
                pci=(0x2414, 0x2486, 0x2489, 0x248E)),
        Product("GeForce RTX 3070", (8,), (46,), 448, 1410, 220, 16, pci=(0x2484, 0x2488, 0x248D)),
        Product("GeForce RTX 3070 Ti", (8,), (48,), 608, 1770, 290, 16,
                pci=(0x2207, 0x2482, 0x248C)),
        Product("GeForce RTX 3080", (10, 12), (68, 70), 760, 1710, 350, 16,
                pci=(0x2206, 0x220A, 0x2216)),
        Product("GeForce RTX 3080 Ti", (12, 20), (80,), 760, 1665, 350, 16, pci=(0x2205, 0x2208)),
        Product("GeForce RTX 3090", (24,), (82,), 936, 1695, 350, 16, pci=(0x2204,), bf16=71,
                links=4, wiring="bridge"),
        Product("GeForce RTX 3090 Ti", (24,), (84,), 1008, 1860, 450, 16, pci=(0x2203,), links=4,
                wiring="bridge"),
    ),
)  # fmt: skip
RTX_20 = Family(
    "GeForce RTX 20", "consumer", "RTX 20[6-8]0|CMP [45]0HX",
    ("cuda-gpus", *_DATABASES),
    capability=(7, 5), tensor=512, fp32=128, generation=3, nvlink=2, ecc=False,
    products=(
        Product("GeForce RTX 2060", (6, 12), (30, 34), 260, 1185, 184, 16,
                pci=(0x1E89, 0x1F03, 0x1F08, 0x1F11, 0x1F12, 0x1F15, 0x1F51, 0x1F55)),
        Product("GeForce RTX 2060 SUPER", (8,), (34,), 448, 1530, 175, 16,
                pci=(0x1F06, 0x1F42, 0x1F47)),
        Product("GeForce RTX 2070", (8,), (36,), 352, 1125, 175, 16,
                pci=(0x1F02, 0x1F07, 0x1F10, 0x1F54)),
        Product("GeForce RTX 2070 SUPER", (8,), (40,), 352, 1155, 215, 16,
                pci=(0x1E84, 0x1EC2, 0x1EC7), links=1, wiring="bridge"),
        Product("GeForce RTX 2080", (8,), (46,), 384, 1095, 215, 16,
                pci=(0x1E82, 0x1E87, 0x1E90, 0x1ED0), links=1, wiring="bridge"),
        Product("GeForce RTX 2080 SUPER", (8,), (48,), 352, 975, 250, 16, pci=(0x1E81,), links=1,
                wiring="bridge"),
        Product("GeForce RTX 2080 Ti", (11,), (68,), 616, 1545, 250, 16,
                pci=(0x1E03, 0x1E04, 0x1E07), links=2, wiring="bridge"),
    ),
)  # fmt: skip
TITAN_RTX = Family(
    "TITAN RTX", "consumer", "TITAN RTX",
    ("cuda-gpus", *_DATABASES),
    capability=(7, 5), tensor=1024, fp32=128, generation=3, nvlink=2, ecc=False,
    products=(
        Product("TITAN RTX", (24,), (72,), 672, 1770, 280, 16, pci=(0x1E02,), links=2,
                wiring="bridge"),
    ),
)  # fmt: skip
GTX_16 = Family(
    "GeForce GTX 16", "consumer", "GTX 16[3-6]0|MX[45]50|CMP 30HX",
    ("cuda-gpus", *_DATABASES),
    capability=(7, 5), fp32=128, generation=3, ecc=False,
    products=(
        Product("GeForce GTX 1630", (4,), (8,), 96, 1785, 75, 16, pci=(0x1F83,)),
        Product("GeForce GTX 1650", (4,), (14, 16), 112, 1125, 90, 16,
                pci=(0x1F0A, 0x1F82, 0x1F92, 0x1F94, 0x1FD9, 0x1FDD, 0x2188)),
        Product("GeForce GTX 1650 SUPER", (4,), (20,), 192, 1725, 100, 16, pci=(0x2187,)),
        Product("GeForce GTX 1650 Ti", (4,), (16,), 160, 1200, 50, 16, pci=(0x1F95, 0x2192)),
        Product("GeForce GTX 1660", (6,), (22,), 192, 1785, 120, 16, pci=(0x2184,)),
        Product("GeForce GTX 1660 SUPER", (6,), (22,), 336, 1785, 125, 16, pci=(0x1F09, 0x21C4)),
        Product("GeForce GTX 1660 Ti", (6,), (24,), 288, 1335, 120, 16,
                pci=(0x2182, 0x2191, 0x21D1)),
    ),
)  # fmt: skip
TITAN_V = Family(
    "TITAN V", "consumer", "TITAN V(?: CEO Edition)?", ("cuda-legacy-gpus", *_DATABASES),
    capability=(7, 0), tensor=1024, fp32=128, generation=3, ecc=False,
    products=(
        Product("TITAN V", (12,), (80,), 651, 1455, 250, 16, pci=(0x1D81,)),
    ),
)  # fmt: skip
GTX_10 = Family(
    "GeForce GTX 10", "consumer",
    "GTX 10[5-8]0|GT 10[13]0|TITAN Xp|TITAN X .Pascal|MX[123][1-5]0|P10[246]-[01][019][0-9]",
    ("cuda-legacy-gpus", *_DATABASES),
    capability=(6, 1), fp32=256, generation=3, ecc=False,
    products=(
        Product("GeForce GTX 1050", (2, 3, 4), (5, 6), 84, 1139, 75, 16,
                pci=(0x1C22, 0x1C62, 0x1C81, 0x1C83, 0x1C8D, 0x1C92, 0x1CCD)),
        Product("GeForce GTX 1050 Ti", (2, 4), (6,), 112, 1291, 75, 16,
                pci=(0x1C21, 0x1C61, 0x1C82, 0x1C8C, 0x1C8F, 0x1CCC)),
        Product("GeForce GTX 1060", (3, 5, 6), (9, 10), 160, 1480, 120, 16,
                pci=(0x1B83, 0x1B84, 0x1C02, 0x1C03, 0x1C04, 0x1C06, 0x1C20, 0x1C60)),
        Product("GeForce GTX 1070", (8,), (15, 16), 256, 1379, 150, 16,
                pci=(0x1B81, 0x1BA1, 0x1BA2, 0x1BE1)),
        Product("GeForce GTX 1070 Ti", (8,), (19,), 256, 1683, 180, 16, pci=(0x1B82,)),
        Product("GeForce GTX 1080", (8,), (20,), 320, 1366, 180, 16, pci=(0x1B80, 0x1BA0, 0x1BE0)),
        Product("GeForce GTX 1080 Ti", (11,), (28,), 484, 1582, 250, 16, pci=(0x1B01, 0x1B06)),
        Product("TITAN X (Pascal)", (12,), (28,), 480, 1531, 250, 16, pci=(0x1B00,)),
        Product("TITAN Xp", (12,), (30,), 548, 1582, 250, 16, pci=(0x1B02,)),
    ),
)  # fmt: skip
GTX_9 = Family(
    "GeForce GTX 900", "consumer", "GTX 9[5-8]0(?: Ti)?|GTX TITAN X",
    ("cuda-legacy-gpus", *_DATABASES),
    capability=(5, 2), fp32=256, generation=3, ecc=False,
    products=(
        Product("GeForce GTX 980 Ti", (6,), (22,), 337, 1076, 250, 16, pci=(0x17C8,)),
        Product("GeForce GTX 980", (4,), (16,), 224, 1216, 165, 16, pci=(0x13C0,)),
        Product("GeForce GTX 970", (4,), (13,), 224, 1178, 148, 16, pci=(0x13C2,)),
        Product("GeForce GTX TITAN X", (12,), (24,), 337, 1075, 250, 16, pci=(0x17C2,)),
    ),
)  # fmt: skip

FAMILIES = (RTX_50, RTX_40, RTX_30, RTX_20, TITAN_RTX, GTX_16, TITAN_V, GTX_10, GTX_9)
