"""What holds processors, clocks and limits of a machine down: its programs run, only slowly.

`doctor.pasted.clocks` and `doctor.pasted.smi_load` write most of these lines.
"""

from __future__ import annotations

from doctor._util.owner import Owner
from doctor.errors.cause import Cause, Wording

ROWS = (
    Cause(id="clock-source-slow",
        messages=(r"the kernel reads the time from (?:hpet|acpi_pm|jiffies|pit)\b",),
        examples=("the kernel reads the time from hpet, not from the processor (tsc)",),
        why="The kernel found the processor's time stamp counter unreliable and uses a slow "
            "chip: each reading of the time is a system call of microseconds, and torch, CUDA "
            "and Python read it with every launch.",
        fix="Upgrade the firmware and the kernel and reboot: the kernel then tries tsc again. "
            "Where the counters are known to be in step, boot with tsc=reliable (a wrong one "
            "lets the clock drift). Rented: ask for another machine.",
        commands=("cat /sys/devices/system/clocksource/clocksource0/current_clocksource",
            "sudo dmesg | grep -iE 'tsc|clocksource'"),
        sources=("redhat-timestamping",), owner=Owner.MACHINE, role="warning"),
    Cause(id="numa-balancing-on",
        messages=("NUMA auto balancing enabled",),
        examples=("NCCL WARN NUMA auto balancing enabled which can lead to variability in the "
            'RCCL performance! Disable by "sudo sysctl kernel.numa_balancing=0"',),
        why="The kernel moves pages between the sockets while the GPUs copy from them: "
            "bandwidth of collectives falls and varies.",
        fix="Switch it off on all nodes: sudo sysctl kernel.numa_balancing=0, and for good in "
            "/etc/sysctl.d.",
        commands=("sudo sysctl kernel.numa_balancing=0",), owner=Owner.MACHINE, role="warning"),
    Cause(id="power-limit-low",
        messages=(r"power limit \d{1,4} W of \d{1,4} W by default holds the clock",),
        examples=("GPU 0: power limit 200 W of 350 W by default holds the clock at 1005 of 1980 "
            "MHz",),
        wordings=(
            Wording(r"power limit \d{2,4} W, the other GPUs have \d{2,4} W",
                "GPU 1: power limit 150 W, the other GPUs have 300 W, at 99 % "
                    "utilization",
                "This GPU may draw less power than the others of its kind and runs "
                    "at a lower clock: each step waits for it.",
                "Give it the same limit: sudo nvidia-smi -i N -pl WATTS. If it does "
                    "not stay, look at its power cables, the power supplies and the "
                    "BMC's power cap. Rented: ask the provider.",
                ("nvidia-smi -q -d POWER,CLOCK,PERFORMANCE",)),
        ),
        sources=("club-3090-1277",),
        why="Somebody lowered the limit of the GPU's power so far that it runs at a fraction of "
            "its clock. Cooling and program are not the reason.",
        fix="Restore the default as root, nvidia-smi -i N -pl WATTS, on every GPU, and look for "
            "the service or script that sets it at the start. Rented: ask the provider.",
        commands=("nvidia-smi -q -d POWER,CLOCK,PERFORMANCE",),
        owner=Owner.MACHINE, role="warning", next_check="GPU009"),
    Cause(id="jetson-power-mode",
        messages=(r"the Jetson's power mode is \S{1,30}, not MAXN",),
        examples=("the Jetson's power mode is 15W, not MAXN",),
        why="A power mode of a Jetson limits the clocks of GPU and memory and switches cores "
            "off: published figures are of MAXN.",
        fix="Choose the largest mode, sudo nvpmodel -m 0 (its number stands in "
            "/etc/nvpmodel.conf), reboot if it asks, then sudo jetson_clocks. It needs the "
            "power supply and cooling of that mode.",
        commands=("sudo nvpmodel -q",
            "sudo jetson_clocks --show"),
        owner=Owner.MACHINE, role="warning"),
)  # fmt: skip
