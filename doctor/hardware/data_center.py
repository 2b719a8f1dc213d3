"""NVIDIA's data center GPUs, from the K80 to the GB300.

Rates with sums in fp32 are those of data sheets; where a data sheet counts sparse operations, half
of its figure. A product whose board keeps it below its peak has the peak all the same.
"""

from __future__ import annotations

from doctor.hardware.product import Family, Product

_DATABASES = ("techpowerup", "pci-ids")

KEPLER = Family(
    "Kepler", "data center", "K80", ("cuda-legacy-gpus", *_DATABASES),
    capability=(3, 7), fp32=384, generation=3,
    products=(
        Product("K80", (12,), (13,), 240, 875, 300, 16, pci=(0x102D,), links=0, ecc=True),
    ),
)  # fmt: skip
KEPLER_35 = Family(
    "Kepler", "data center", "K20[cmsX]*|K40[cdmst]?", ("cuda-legacy-gpus", *_DATABASES),
    capability=(3, 5), fp32=384, generation=3,
    products=(
        Product("K40m", (12,), (15,), 288, 875, 245, 16, pci=(0x1023,), links=0, ecc=True),
        Product("K40c", (12,), (15,), 288, 875, 245, 16, pci=(0x1024,), links=0, ecc=True),
        Product("K20m", (5,), (13,), 208, 706, 225, 16, pci=(0x1028,), links=0, ecc=True),
        Product("K20Xm", (6,), (14,), 250, 732, 235, 16, pci=(0x1021,), links=0, ecc=True),
    ),
)  # fmt: skip
KEPLER_30 = Family(
    "Kepler", "data center", "GRID K(?:520|1|2)", ("cuda-legacy-gpus", *_DATABASES),
    capability=(3, 0), fp32=384, generation=3,
    products=(
        Product("GRID K520", (4,), (8,), pci=(0x118A,), links=0),
        Product("GRID K1", (4,), (1,), pci=(0x0FF2,), links=0),
        Product("GRID K2", (4,), (8,), pci=(0x11BF,), links=0),
    ),
)  # fmt: skip
MAXWELL = Family(
    "Maxwell", "data center", "M40|M60|M4|M6", ("cuda-legacy-gpus", *_DATABASES),
    capability=(5, 2), fp32=256, generation=3,
    products=(
        Product("M40", (12,), (24,), 288, 1112, 250, 16, links=0),
        Product("M40 24GB", (24,), (24,), 288, 1112, 250, 16, links=0),
        Product("M60", (8,), (16,), 160, 1178, 300, 16, pci=(0x13F2,), links=0),
        Product("M6", (8,), (12,), 147, None, 100, None, pci=(0x13F3,), links=0),
        Product("M4", (4,), (8,), 88, 1072, 75, 16, pci=(0x1431,), links=0),
    ),
)  # fmt: skip
MAXWELL_50 = Family(
    "Maxwell", "data center", "M10", ("cuda-legacy-gpus", *_DATABASES),
    capability=(5, 0), fp32=256, generation=3,
    products=(Product("M10", (8,), (5,), 83, 1306, 225, 16, pci=(0x13BD,), links=0),),
)  # fmt: skip
PASCAL_100 = Family(
    "Pascal GP100", "data center", "P100(?:D|X)?", ("cuda-legacy-gpus", *_DATABASES),
    capability=(6, 0), fp32=128, generation=3, nvlink=1,
    products=(
        Product("P100-SXM2-16GB", (16,), (56,), 732, 1480, 300, 16, pci=(0x15F9,),
                bf16=21.2, links=4, wiring="mesh", ecc=True),
        Product("P100-PCIE-16GB", (16,), (56,), 732, 1303, 250, 16, pci=(0x15F8,),
                bf16=18.7, links=0, ecc=True),
        Product("P100-PCIE-12GB", (12,), (56,), 549, 1303, 250, 16, pci=(0x15F7,),
                bf16=18.7, links=0, ecc=True),
    ),
)  # fmt: skip
PASCAL = Family(
    "Pascal", "data center", "P40|P4|P6|P10", ("cuda-legacy-gpus", *_DATABASES),
    capability=(6, 1), fp32=256, generation=3,
    products=(
        Product("P40", (24,), (30,), 347, 1531, 250, 16, pci=(0x1B38,), links=0, ecc=True),
        Product("P4", (8,), (20,), 192, 1114, 75, 16, pci=(0x1BB3,), links=0, ecc=True),
        Product("P6", (16,), (16,), 192, 1506, 90, None, pci=(0x1BB4,), links=0, ecc=True),
        Product("P10", (24,), (30,), None, None, 150, 16, pci=(0x1B39,), links=0),
    ),
)  # fmt: skip
VOLTA = Family(
    "Volta", "data center", "V100(?:[DSX]|DX)?|PG50[03]-216|CMP 100-2[01]0|CMP 100HX",
    ("cuda-legacy-gpus", "nvidia-v100", *_DATABASES),
    capability=(7, 0), tensor=1024, fp32=128, generation=3, nvlink=2,
    products=(
        Product("V100-SXM2-16GB", (16,), (80,), 897, 1530, 300, 16, pci=(0x1DB1, 0x1DF5),
                bf16=125, links=6, wiring="mesh", ecc=True),
        Product("V100-SXM2-32GB", (32,), (80,), 897, 1530, 300, 16, pci=(0x1DB5,),
                bf16=125, links=6, wiring="mesh", ecc=True),
        Product("V100-SXM3-32GB", (32,), (80,), 897, 1530, 350, 16, pci=(0x1DB8,),
                bf16=125, links=6, wiring="switch", ecc=True),
        Product("V100-PCIE-16GB", (16,), (80,), 897, 1380, 250, 16, pci=(0x1DB4,),
                bf16=112, links=0, ecc=True),
        Product("V100-PCIE-32GB", (32,), (80,), 897, 1380, 250, 16, pci=(0x1DB6,),
                bf16=112, links=0, ecc=True),
        Product("V100S-PCIE-32GB", (32,), (80,), 1130, 1601, 250, 16, pci=(0x1DF6,),
                bf16=130, links=0, ecc=True),
        Product("V100-DGXS-16GB", (16,), (80,), 897, 1530, 300, 16, pci=(0x1DB2,),
                links=4, wiring="mesh", ecc=True),
        Product("V100-DGXS-32GB", (32,), (80,), 897, 1530, 300, 16, pci=(0x1DB7,),
                links=4, wiring="mesh", ecc=True),
        Product("V100-FHHL-16GB", (16,), (80,), 827, 1290, 250, 16, pci=(0x1DB3,),
                links=0, ecc=True),
    ),
)  # fmt: skip
TURING = Family(
    "Turing", "data center", "T4G?|T10|T40", ("cuda-gpus", *_DATABASES),
    capability=(7, 5), tensor=1024, fp32=128, generation=3,
    products=(
        Product("T4", (16,), (40,), 300, 1590, 70, 16, pci=(0x1EB8,),
                bf16=65, links=0, ecc=True),
        Product("T4G", (16,), (40,), 300, 1590, 70, 16, pci=(0x1EB4,),
                bf16=65, links=0, ecc=True),
        Product("T10", (16, 24), (), None, None, 150, 16, pci=(0x1E35, 0x1E37), links=0),
    ),
)  # fmt: skip
AMPERE_100 = Family(
    "Ampere GA100", "data center",
    "A100(?:D|X|DX|XM)?|A800(?:D|X|DX|XM)?|A30X?|AX800|PG506-\\d+|PG509-\\d+|CMP 170HX",
    ("cuda-gpus", "a100-figures", *_DATABASES),
    capability=(8, 0), tensor=2048, fp32=128, generation=4, nvlink=3,
    products=(
        Product("A100-SXM4-40GB", (40,), (108,), 1555, 1410, 400, 16, pci=(0x20B0,),
                aliases=("A100-SXM-40GB",), bf16=312, measured=(271.2, "mamf"),
                links=12, wiring="switch", mig=7, ecc=True),
        Product("A100-SXM4-80GB", (80,), (108,), 2039, 1410, 500, 16, pci=(0x20B2,),
                aliases=("A100-SXM-80GB",), bf16=312, measured=(271.2, "mamf"),
                links=12, wiring="switch", mig=7, ecc=True),
        Product("A100-PCIE-40GB", (40,), (108,), 1555, 1410, 250, 16, pci=(0x20B1, 0x20F1),
                bf16=312, measured=(252.9, "mamf"), links=12, wiring="bridge", mig=7, ecc=True),
        Product("A100 80GB PCIe", (80,), (108,), 1935, 1410, 300, 16, pci=(0x20B5,),
                bf16=312, measured=(252.9, "mamf"), links=12, wiring="bridge", mig=7, ecc=True),
        Product("A100-SXM-64GB", (64,), (), None, None, None, None, pci=(0x20B3,),
                wiring="mesh", mig=7, ecc=True),
        Product("A100X", (80,), (108,), 2039, None, 300, None, pci=(0x20B8,),
                wiring="bridge", mig=7, ecc=True),
        Product("A800-SXM4-80GB", (80,), (108,), 2039, 1410, 400, 16, pci=(0x20F3,),
                bf16=312, links=8, wiring="switch", mig=7, ecc=True),
        Product("A800-SXM4-40GB", (40,), (108,), 1555, 1410, 400, 16, pci=(0x20BD,),
                bf16=312, links=8, wiring="switch", mig=7, ecc=True),
        Product("A800 80GB PCIe", (80,), (108,), 1935, 1410, 300, 16, pci=(0x20F5,),
                bf16=312, links=8, wiring="bridge", mig=7, ecc=True),
        Product("A800 40GB Active", (40,), (108,), 1555, 1410, 240, 16, pci=(0x20F6,),
                aliases=("A800 40GB PCIe",), wiring="bridge", mig=7, ecc=True),
        Product("A30", (24,), (56,), 933, 1440, 165, 16, pci=(0x20B7,),
                bf16=165, links=4, wiring="bridge", mig=4, ecc=True),
        Product("A30X", (24,), (56,), 1220, None, 230, None, pci=(0x20B9,),
                wiring="bridge", mig=4, ecc=True),
        Product("CMP 170HX", (8, 10), (70,), None, None, 250, 4, pci=(0x2082, 0x20C2), links=0),
    ),
)  # fmt: skip
AMPERE = Family(
    "Ampere", "data center", "A40|A10[GM]?|A16|A2", ("cuda-gpus", *_DATABASES),
    capability=(8, 6), tensor=1024, fp32=256, generation=4, nvlink=3,
    products=(
        Product("A40", (48,), (84,), 696, 1740, 300, 16, pci=(0x2235,),
                bf16=149.7, links=4, wiring="bridge", ecc=True),
        Product("A10", (24,), (72,), 600, 1695, 150, 16, pci=(0x2236,),
                bf16=125, links=0, ecc=True),
        Product("A10G", (24,), (72, 80), 600, None, 300, 16, pci=(0x2237,), links=0, ecc=True),
        Product("A10M", (20,), (), None, None, 150, 16, pci=(0x2238,), links=0),
        Product("A16", (16,), (10,), 200, 1695, 250, None, links=0, ecc=True),
        Product("A2", (16,), (10,), 200, 1770, 60, 8, bf16=18, links=0, ecc=True),
    ),
)  # fmt: skip
ADA = Family(
    "Ada Lovelace", "data center", "L40[SG]?|L20|L4|L2", ("cuda-gpus", "l40s-figures", *_DATABASES),
    capability=(8, 9), tensor=1024, fp32=256, generation=4,
    products=(
        Product("L40S", (48,), (142,), 864, 2520, 350, 16, pci=(0x26B9,),
                bf16=362, fp8=733, links=0, ecc=True),
        Product("L40", (48,), (142,), 864, 2490, 300, 16, pci=(0x26B5,),
                bf16=181, fp8=362, links=0, ecc=True),
        Product("L40G", (24,), (), 864, None, 300, 16, pci=(0x26B8,), links=0),
        Product("L20", (48,), (92,), 864, 2520, 275, 16, pci=(0x26B7, 0x26BA),
                bf16=119.5, links=0, ecc=True),
        Product("L4", (24,), (58, 60), 300, 2040, 72, 16, pci=(0x27B8,),
                bf16=121, fp8=242, links=0, ecc=True),
        Product("L2", (24,), (), 300, None, None, 16, pci=(0x27B6,), links=0),
    ),
)  # fmt: skip
HOPPER = Family(
    "Hopper", "data center", "GH200|H200(?:XM|X)?|H100(?:L|XM|XS|X)?|H800(?:L|XM|X)?|H20(?:XM|X)?",
    ("cuda-gpus", "nvidia-h100", "nvidia-h200", *_DATABASES),
    capability=(9, 0), tensor=4096, fp32=256, generation=5, nvlink=4,
    products=(
        Product("H100 80GB HBM3", (80,), (132,), 3350, 1830, 700, 16, pci=(0x2330,),
                aliases=("H100 SXM5 80GB",), bf16=989, fp8=1979,
                measured=(730, "gpu-fryer"), links=18, wiring="switch", mig=7, ecc=True),
        Product("H100 64GB HBM2", (64,), (132,), None, None, 700, 16, pci=(0x2337,),
                links=18, mig=7, ecc=True),
        Product("H100 SXM5 94GB", (94,), (132,), None, None, 700, 16, pci=(0x2339,),
                aliases=("H100 94GB HBM2e",), links=18, mig=7, ecc=True),
        Product("H100 PCIe", (80,), (114,), 2000, 1620, 350, 16, pci=(0x2331,),
                bf16=756, fp8=1513, wiring="bridge", mig=7, ecc=True),
        Product("H100 NVL", (94,), (132,), 3900, 1545, 400, 16, pci=(0x2321,),
                bf16=835, fp8=1671, links=18, wiring="bridge", mig=7, ecc=True),
        Product("H800", (80,), (132,), 3350, 1830, 700, 16, pci=(0x2324,),
                bf16=989, fp8=1979, links=8, wiring="switch", mig=7, ecc=True),
        Product("H800 PCIe", (80,), (114,), 2000, 1620, 350, 16, pci=(0x2322,),
                bf16=756, fp8=1513, links=8, wiring="bridge", mig=7, ecc=True),
        Product("H20", (96,), (78,), 4000, 1830, 500, 16, pci=(0x2329,),
                bf16=148, fp8=296, links=18, wiring="switch", mig=7, ecc=True),
        Product("H20-3e", (141,), (78,), 4800, 1830, 500, 16, pci=(0x232C,),
                bf16=148, fp8=296, links=18, wiring="switch", mig=7, ecc=True),
        Product("H200", (141,), (132,), 4800, 1830, 700, 16, pci=(0x2335,),
                bf16=989, fp8=1979, measured=(794.5, "mamf"),
                links=18, wiring="switch", mig=7, ecc=True),
        Product("H200 NVL", (141,), (132,), 4800, 1545, 600, 16, pci=(0x233B,),
                bf16=835, fp8=1671, links=18, wiring="bridge", mig=7, ecc=True),
        Product("GH200 480GB", (96,), (132,), 4000, 1830, 1000, 16, pci=(0x2342,),
                aliases=("GH200 120GB",), bf16=989, fp8=1979, measured=(705, "gpu-fryer"),
                links=18, mig=7, ecc=True),
        Product("GH200 144G HBM3e", (144,), (132,), 4900, 1830, 1000, 16, pci=(0x2348,),
                bf16=989, fp8=1979, links=18, mig=7, ecc=True),
    ),
)  # fmt: skip
BLACKWELL = Family(
    "Blackwell", "data center", "GB200|B200|B100", ("cuda-gpus", "mamf", *_DATABASES),
    capability=(10, 0), tensor=8192, fp32=256, generation=5, nvlink=5,
    products=(
        Product("B200", (180, 192), (148,), 7700, 1850, 1000, 16, pci=(0x2901,),
                bf16=2250, fp8=4500, measured=(1745, "mamf"),
                links=18, wiring="switch", mig=7, ecc=True),
        Product("GB200", (186, 192), (152,), 8000, 1850, 1200, 16, pci=(0x2941,),
                bf16=2500, fp8=5000, links=18, wiring="switch", mig=7, ecc=True),
    ),
)  # fmt: skip
BLACKWELL_ULTRA = Family(
    "Blackwell Ultra", "data center", "GB300|B300", ("cuda-gpus", *_DATABASES),
    capability=(10, 3), tensor=8192, fp32=256, generation=6, nvlink=5,
    products=(
        Product("B300 SXM6 AC", (270, 288), (148,), 7700, None, 1400, 16, pci=(0x3182,),
                aliases=("B300",), bf16=2250, fp8=4500, links=18, wiring="switch", mig=7,
                ecc=True),
        Product("GB300", (279, 288), (152,), 7700, None, 1400, 16, pci=(0x31C2, 0x31C3),
                bf16=2500, fp8=5000, links=18, wiring="switch", mig=7, ecc=True),
    ),
)  # fmt: skip

FAMILIES = (
    BLACKWELL_ULTRA, BLACKWELL, HOPPER, ADA, AMPERE_100, AMPERE, TURING, VOLTA, PASCAL_100, PASCAL,
    MAXWELL, MAXWELL_50, KEPLER, KEPLER_35, KEPLER_30,
)  # fmt: skip
