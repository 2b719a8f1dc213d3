"""AMD's GPUs: Instinct from the MI50 to the MI355X, Radeon PRO and Radeon from RDNA 2 on.

Of a board with two chips, which torch counts as two GPUs, the row has the values of one chip.
"""

from __future__ import annotations

from doctor.hardware.product import Family, Product, Segment

_SOURCES = ("rocm-gpus", "techpowerup", "pci-ids")


def _family(name: str, gfx: str, *products: Product, instinct: bool = False) -> Family:
    """Radeons, or Instincts; words are only the names themselves."""
    segment: Segment = "data center" if instinct else "consumer"
    return Family(name, segment, "", _SOURCES, gfx=gfx, products=products)


FAMILIES = (
    _family(
        "Vega 20", "gfx906",
        Product("Instinct MI50", (16, 32), (60,), 1024, None, 300, 16,
                aliases=("Radeon Instinct MI50", "Instinct MI50/MI60"), ecc=True),
        Product("Instinct MI60", (32,), (64,), 1024, None, 300, 16,
                aliases=("Radeon Instinct MI60",), ecc=True),
        Product("Radeon VII", (16,), (60,), 1024, None, 295, 16, pci=(0x66AF,)),
        Product("Radeon Pro VII", (16,), (60,), 1024, None, 250, 16),
        instinct=True,
    ),
    _family(
        "CDNA", "gfx908",
        Product("Instinct MI100", (32,), (120,), 1229, None, 300, 16, pci=(0x738C, 0x738E),
                bf16=92.3, ecc=True),
        instinct=True,
    ),
    _family(
        "CDNA 2", "gfx90a",
        Product("Instinct MI210", (64,), (104,), 1638, None, 300, 16, pci=(0x740F,),
                bf16=181, ecc=True),
        Product("Instinct MI250", (64,), (104,), 1638, None, 560, 16, bf16=181, ecc=True),
        Product("Instinct MI250X", (64,), (110,), 1638, None, 560, 16, pci=(0x7408,),
                aliases=("Instinct MI250X / MI250", "Instinct MI250X/MI250"),
                bf16=191.5, ecc=True),
        instinct=True,
    ),
    _family(
        "CDNA 3", "gfx942",
        Product("Instinct MI300A", (128,), (228,), 5300, None, 760, None, pci=(0x74A0,),
                bf16=980.6, fp8=1961, ecc=True),
        Product("Instinct MI300X", (192,), (304,), 5300, None, 750, 16, pci=(0x74A1, 0x74B5),
                aliases=("Instinct MI300X OAM", "Instinct MI300X VF"),
                bf16=1307, fp8=2615, ecc=True),
        Product("Instinct MI308X", (192,), (80,), 5300, None, 650, 16, pci=(0x74A2,), ecc=True),
        Product("Instinct MI325X", (256,), (304,), 6000, None, 1000, 16, pci=(0x74A5, 0x74B9),
                bf16=1307, fp8=2615, ecc=True),
        instinct=True,
    ),
    _family(
        "CDNA 4", "gfx950",
        Product("Instinct MI350X", (288,), (256,), 8000, None, 1000, 16, pci=(0x75A0,),
                bf16=2300, fp8=4600, ecc=True),
        Product("Instinct MI355X", (288,), (256,), 8000, None, 1400, 16, pci=(0x75A3,),
                bf16=2500, fp8=5000, ecc=True),
        Product("Instinct MI350P", pci=(0x75A8,), ecc=True),
        instinct=True,
    ),
    _family(
        "RDNA 2, Navi 21", "gfx1030",
        Product("Radeon RX 6950 XT", (16,), (80,), 576, None, 335, 16, pci=(0x73A5,)),
        Product("Radeon RX 6900 XT", (16,), (80,), 512, None, 300, 16, pci=(0x73AF,)),
        Product("Radeon RX 6800 XT", (16,), (72,), 512, None, 300, 16),
        Product("Radeon RX 6800", (16,), (60,), 512, None, 250, 16),
        Product("Radeon PRO W6800", (32,), (60,), 512, None, 250, 16, pci=(0x73A3,)),
        Product("Radeon PRO V620", (32,), (72,), 512, None, 300, 16, pci=(0x73A1,)),
    ),
    _family(
        "RDNA 2, Navi 22", "gfx1031",
        Product("Radeon RX 6750 XT", (12,), (40,), 432, None, 250, 16),
        Product("Radeon RX 6700 XT", (12,), (40,), 384, None, 230, 16),
    ),
    _family(
        "RDNA 2, Navi 23", "gfx1032",
        Product("Radeon RX 6650 XT", (8,), (32,), 280, None, 176, 8),
        Product("Radeon RX 6600 XT", (8,), (32,), 256, None, 160, 8),
        Product("Radeon RX 6600", (8,), (28,), 224, None, 132, 8),
        Product("Radeon PRO W6600", (8,), (28,), 224, None, 100, 8, pci=(0x73E3,)),
    ),
    _family(
        "RDNA 3, Navi 31", "gfx1100",
        Product("Radeon RX 7900 XTX", (24,), (96,), 960, None, 355, 16),
        Product("Radeon RX 7900 XT", (20,), (84,), 800, None, 315, 16),
        Product("Radeon RX 7900 GRE", (16,), (80,), 576, None, 260, 16),
        Product("Radeon PRO W7900", (48,), (96,), 864, None, 295, 16, pci=(0x7448,)),
        Product("Radeon PRO W7900 Dual Slot", (48,), (96,), 864, None, 295, 16, pci=(0x744A,)),
        Product("Radeon PRO W7800", (32,), (70,), 576, None, 260, 16, pci=(0x745E,)),
        Product("Radeon PRO W7800 48GB", (48,), (70,), 864, None, 281, 16, pci=(0x7449,)),
    ),
    _family(
        "RDNA 3, Navi 32", "gfx1101",
        Product("Radeon RX 7800 XT", (16,), (60,), 624, None, 263, 16),
        Product("Radeon RX 7700 XT", (12,), (54,), 432, None, 245, 16),
        Product("Radeon PRO W7700", (16,), (48,), 576, None, 190, 16, pci=(0x7470,)),
        Product("Radeon PRO V710", (28,), (54,), 448, None, 158, 16, pci=(0x7460, 0x7461)),
    ),
    _family(
        "RDNA 3, Navi 33", "gfx1102",
        Product("Radeon RX 7600 XT", (16,), (32,), 288, None, 190, 8),
        Product("Radeon RX 7600", (8,), (32,), 288, None, 165, 8),
        Product("Radeon PRO W7600", (8,), (32,), 288, None, 130, 8),
        Product("Radeon PRO W7500", (8,), (28,), 172, None, 70, 8, pci=(0x7489,)),
    ),
    _family(
        "RDNA 3.5", "gfx1151",
        Product("Radeon 8060S Graphics", (), (40,)),
    ),
    _family(
        "RDNA 4, Navi 48", "gfx1201",
        Product("Radeon RX 9070 XT", (16,), (64,), 640, None, 304, 16),
        Product("Radeon RX 9070", (16,), (56,), 640, None, 220, 16),
        Product("Radeon RX 9070 GRE", (12, 16), (48,), 432, None, 220, 16),
        Product("Radeon AI PRO R9700", (32,), (64,), 640, None, 300, 16, pci=(0x7551,)),
    ),
    _family(
        "RDNA 4, Navi 44", "gfx1200",
        Product("Radeon RX 9060 XT", (8, 16), (32,), 320, None, 182, 16),
        Product("Radeon RX 9060", (8,), (28,), 288, None, 132, 16),
    ),
)  # fmt: skip
