"""NVIDIA's GPUs for workstations: Quadro, RTX A, RTX Ada and RTX PRO.

Their ECC is off unless somebody turned it on, where they have any.
"""

from __future__ import annotations

from doctor.hardware.product import Family, Product

_DATABASES = ("techpowerup", "pci-ids")

PRO_BLACKWELL = Family(
    "RTX PRO Blackwell", "workstation", "RTX PRO \\d?[05]00D? Blackwell|RTX 6000D",
    ("cuda-gpus", "nvidia-rtx-blackwell", *_DATABASES),
    capability=(12, 0), tensor=1024, fp32=256, generation=5,
    products=(
        Product("RTX PRO 2000 Blackwell", (16,), (34,), 288, 1957, 70, 8, pci=(0x2D30,)),
        Product("RTX PRO 4000 Blackwell", (24,), (70,), 672, 2055, 140, 16, pci=(0x2C34,)),
        Product("RTX PRO 4000 Blackwell SFF Edition", (24,), (70,), 432, 1432, 70, 8,
                pci=(0x2C33,)),
        Product("RTX PRO 4500 Blackwell", (32,), (82,), 896, 2407, 200, 16, pci=(0x2C31,)),
        Product("RTX PRO 5000 Blackwell", (48, 72), (110,), 1340, 2377, 300, 16, pci=(0x2BB3,),
                mig=2),
        Product("RTX PRO 6000 Blackwell Workstation Edition", (96,), (188,), 1792, 2617, 600, 16,
                pci=(0x2BB1,), bf16=503.8, mig=4),
        Product("RTX PRO 6000 Blackwell Max-Q Workstation Edition", (96,), (188,), 1792, 2280,
                     300, 16,
                pci=(0x2BB4,), mig=4),
        Product("RTX PRO 6000 Blackwell Server Edition", (96,), (188,), 1597, 2617, 600, 16,
                pci=(0x2BB5,), mig=4),
    ),
)  # fmt: skip
RTX_ADA = Family(
    "RTX Ada", "workstation", "RTX \\d?[05]00(?: SFF)? Ada|RTX 5880 Ada|RTX TITAN Ada",
    ("cuda-gpus", *_DATABASES),
    capability=(8, 9), tensor=1024, fp32=256, generation=4,
    products=(
        Product("RTX 2000 Ada Generation", (16,), (22,), 256, 2130, 70, 8),
        Product("RTX 4000 Ada Generation", (20,), (48,), 360, 2175, 130, 16, pci=(0x27B2,)),
        Product("RTX 4000 SFF Ada Generation", (20,), (48,), 280, 1560, 70, 16, pci=(0x27B0,)),
        Product("RTX 4500 Ada Generation", (24,), (60,), 432, 2580, 210, 16, pci=(0x27B1,)),
        Product("RTX 5000 Ada Generation", (32,), (100,), 576, 2550, 250, 16, pci=(0x26B2,)),
        Product("RTX 5880 Ada Generation", (48,), (110,), 864, 2460, 285, 16, pci=(0x26B3,)),
        Product("RTX 6000 Ada Generation", (48,), (142,), 960, 2505, 300, 16, pci=(0x26B1,)),
    ),
)  # fmt: skip
RTX_A = Family(
    "RTX A", "workstation", "RTX A\\d?[045]00",
    ("cuda-gpus", *_DATABASES),
    capability=(8, 6), tensor=1024, fp32=256, generation=4, nvlink=3,
    products=(
        Product("RTX A1000", (8,), (18,), 192, 1462, 50, 8, pci=(0x25B0,)),
        Product("RTX A2000", (6, 12), (26,), 288, 1200, 70, 16, pci=(0x2531, 0x2571)),
        Product("RTX A400", (4,), (6,), 96, 1762, 50, 8, pci=(0x25B2,)),
        Product("RTX A4000", (16,), (48,), 448, 1560, 140, 16, pci=(0x24B0,)),
        Product("RTX A4500", (20,), (56,), 640, 1650, 200, 16, pci=(0x2232,), links=4,
                wiring="bridge"),
        Product("RTX A500", (4,), (16,), 112, 1770, 60, 8),
        Product("RTX A5000", (24,), (64,), 768, 1695, 230, 16, pci=(0x2231,), links=4,
                wiring="bridge"),
        Product("RTX A5500", (24,), (80,), 768, 1665, 230, 16, pci=(0x2233,), links=4,
                wiring="bridge"),
        Product("RTX A6000", (48,), (84,), 768, 1800, 300, 16, pci=(0x2230,), links=4,
                wiring="bridge"),
    ),
)  # fmt: skip
QUADRO_RTX = Family(
    "Quadro RTX", "workstation", "Quadro RTX \\d000",
    ("cuda-gpus", *_DATABASES),
    capability=(7, 5), tensor=1024, fp32=128, generation=3, nvlink=2, ecc=False,
    products=(
        Product("Quadro RTX 3000", (6,), (30,), 288, 1215, 80, 16, pci=(0x1F76,)),
        Product("Quadro RTX 4000", (8,), (36, 40), 384, 1380, 160, 16, pci=(0x1EB1,)),
        Product("Quadro RTX 5000", (16,), (48,), 384, 1350, 230, 16, pci=(0x1EB0, 0x1EF5),
                links=2, wiring="bridge"),
        Product("Quadro RTX 6000", (24,), (72,), 624, 1455, 260, 16, pci=(0x1E36,), links=2,
                wiring="bridge"),
        Product("Quadro RTX 8000", (48,), (72,), 624, 1455, 260, 16, links=2, wiring="bridge"),
    ),
)  # fmt: skip
QUADRO_T = Family(
    "Quadro T", "workstation", "(?:Quadro )?T(?:[456][05]0|1000|1200|2000)",
    ("cuda-gpus", *_DATABASES),
    capability=(7, 5), fp32=128, generation=3, ecc=False,
    products=(
        Product("Quadro T1000", (4,), (14,), 80, 1350, 50, 16, pci=(0x1FB0, 0x1FB9, 0x1FF9)),
        Product("Quadro T1200", (4,), (16,), 160, 1425, 18, 16),
        Product("Quadro T2000", (4,), (16,), 80, 1395, 60, 16),
        Product("T1000", (4, 8), (14,), 160, 1395, 50, 16, pci=(0x1FF0,)),
        Product("T400", (2, 4), (6,), 80, 1425, 30, 16, pci=(0x1FF2,)),
        Product("T500", (4,), (14,), 80, 1425, 18, 16),
        Product("T550", (4,), (16,), 96, 1665, 23, 16, pci=(0x1FB7,)),
        Product("T600", (4,), (10, 14), 160, 1335, 40, 16, pci=(0x1FB1, 0x1FB6, 0x1FBA)),
    ),
)  # fmt: skip
GV100 = Family(
    "Quadro GV100", "workstation", "Quadro GV100", ("cuda-legacy-gpus", *_DATABASES),
    capability=(7, 0), tensor=1024, fp32=128, generation=3, nvlink=2,
    products=(
        Product("Quadro GV100", (32,), (80,), 868, 1627, 250, 16, pci=(0x1DBA,), wiring="bridge"),
    ),
)  # fmt: skip
GP100 = Family(
    "Quadro GP100", "workstation", "Quadro GP100", ("cuda-legacy-gpus", *_DATABASES),
    capability=(6, 0), fp32=128, generation=3, nvlink=1,
    products=(
        Product("Quadro GP100", (16,), (56,), 717, 1442, 235, 16, wiring="bridge"),
    ),
)  # fmt: skip
QUADRO_P = Family(
    "Quadro P", "workstation", "Quadro P(?:[456][0-2]0|\\d[0-4]00)",
    ("cuda-legacy-gpus", *_DATABASES),
    capability=(6, 1), fp32=256, generation=3, ecc=False,
    products=(
        Product("Quadro P1000", (4,), (4, 5), 80, 1392, 47, 16, pci=(0x1CB1, 0x1CBB, 0x1CFB)),
        Product("Quadro P2000", (3.75, 4, 5), (6, 8, 9), 96, 1291, 75, 16,
                pci=(0x1C30, 0x1C35, 0x1CBA, 0x1CFA)),
        Product("Quadro P2200", (5,), (10,), 200, 1493, 75, 16, pci=(0x1C31,)),
        Product("Quadro P400", (2,), (2,), 32, 1252, 30, 16, pci=(0x1CB3,)),
        Product("Quadro P4000", (8,), (14,), 192, 1228, 105, 16, pci=(0x1BB1, 0x1BB7)),
        Product("Quadro P500", (2,), (2,), 40, 1519, 18, 16, pci=(0x1D33,)),
        Product("Quadro P5000", (16,), (16, 20), 192, 1506, 180, 16, pci=(0x1BB0, 0x1BB6)),
        Product("Quadro P520", (2, 4), (3,), 44, 1493, 18, 16, pci=(0x1D34,)),
        Product("Quadro P600", (2, 4), (3,), 64, 1557, 40, 16, pci=(0x1CB2, 0x1CBC)),
        Product("Quadro P6000", (24,), (30,), 433, 1645, 250, 16, pci=(0x1B30,)),
        Product("Quadro P620", (2, 4), (4,), 80, 1354, 40, 16, pci=(0x1CB6, 0x1CBD)),
    ),
)  # fmt: skip
QUADRO_M = Family(
    "Quadro M", "workstation", "Quadro M[56]000", ("cuda-legacy-gpus", *_DATABASES),
    capability=(5, 2), fp32=256, generation=3,
    products=(
        Product("Quadro M6000", (12,), (24,), 317, 1114, 250, 16),
        Product("Quadro M6000 24GB", (24,), (24,), 317, 1114, 250, 16),
        Product("Quadro M5000", (8,), (16,), 211, 1038, 150, 16),
    ),
)  # fmt: skip

FAMILIES = (PRO_BLACKWELL, RTX_ADA, RTX_A, QUADRO_RTX, QUADRO_T, GV100, GP100, QUADRO_P, QUADRO_M)
