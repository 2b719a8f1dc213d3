"""Intel's GPUs and Gaudi, by name: the doctor has no probes for them yet."""

from __future__ import annotations

from doctor.hardware.product import Family, Product

_SOURCES = ("techpowerup", "pci-ids")

FAMILIES = (
    Family(
        "Arc", "consumer", "", _SOURCES,
        products=(
            Product("Arc A770 Graphics", (8, 16), (32,), 512, None, 225, 16, pci=(0x56A0,),
                    aliases=("Arc A770",)),
            Product("Arc A750 Graphics", (8,), (28,), 512, None, 225, 16, pci=(0x56A1,),
                    aliases=("Arc A750",)),
            Product("Arc A580 Graphics", (8,), (24,), 512, None, 175, 16, pci=(0x56A2,),
                    aliases=("Arc A580",)),
            Product("Arc A380 Graphics", (6,), (8,), 186, None, 75, 8, pci=(0x56A5,),
                    aliases=("Arc A380",)),
            Product("Arc A310 Graphics", (4,), (6,), 124, None, None, 8, pci=(0x56A6,),
                    aliases=("Arc A310",)),
            Product("Arc B580 Graphics", (12,), (20,), 456, None, 190, 8, pci=(0xE20B,),
                    aliases=("Arc B580",)),
            Product("Arc B570 Graphics", (10,), (18,), 380, None, 150, 8, pci=(0xE20C,),
                    aliases=("Arc B570",)),
        ),
    ),
    Family(
        "Arc Pro", "workstation", "", _SOURCES,
        products=(
            Product("Arc Pro A60", (12,), (16,), 384, None, 130, 16, pci=(0x56B3,)),
            Product("Arc Pro B50", (16,), (16,), 224, None, 70, 8, pci=(0xE212,)),
            Product("Arc Pro B60", (24,), (20,), 456, None, 200, 8, pci=(0xE211,)),
            Product("Arc Pro B65", pci=(0xE222,)),
            Product("Arc Pro B70", pci=(0xE223,)),
        ),
    ),
    Family(
        "Data Center GPU", "data center", "", _SOURCES,
        products=(
            Product("Data Center GPU Max 1550", (128,), (128,), 3277, None, 600, 16,
                    pci=(0x0BD5, 0x0BD6)),
            Product("Data Center GPU Max 1350", (96,), (112,), 2458, None, 450, 16,
                    pci=(0x0BD7, 0x0BD8)),
            Product("Data Center GPU Max 1100", (48,), (56,), 1229, None, 300, 16,
                    pci=(0x0BD9, 0x0BDA, 0x0BDB)),
            Product("Data Center GPU Flex 170", (16,), (32,), 512, None, 150, 16, pci=(0x56C0,)),
            Product("Data Center GPU Flex 140", (6,), (8,), 186, None, 75, 8, pci=(0x56C1,)),
        ),
    ),
    Family(
        "Gaudi", "data center", "", _SOURCES,
        products=(
            Product("Gaudi", (32,), pci=(0x1000, 0x1010), aliases=("HL-205",)),
            Product("Gaudi 2", (96,), pci=(0x1020,), aliases=("Gaudi2", "HL-225")),
            Product("Gaudi 3", (128,), pci=(0x1060, 0x1063),
                    aliases=("Gaudi3", "HL-325", "HL-338")),
        ),
    ),
)  # fmt: skip
