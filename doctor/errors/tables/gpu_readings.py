"""What nvidia-smi shows of single GPUs: a slow link or clock, heat, a fan, limits that differ.

`doctor.pasted.smi_load` writes most of these lines, of GPUs that work.
"""

from __future__ import annotations

from doctor._util.owner import Owner
from doctor.errors.cause import Cause
from doctor.errors.tables.commands import KERNEL_LOG

ROWS = (
    Cause(id="pcie-generation-low", sources=("pcie-link",),
        messages=(r"PCIe generation \d of \d at \d{1,3} % utilization",),
        examples=("GPU 2: PCIe generation 1 of 4 at 99 % utilization",),
        why="An idle link is slow on purpose; this one stays slow while the GPU works, so that "
            "copies from the host take many times as long.",
        fix="Reseat the GPU and its riser, clean the slot and try another one, switch power "
            "management of the link (ASPM) off in the firmware, and set the slot's generation "
            "there. If it stays, replace riser, cable or card. Rented: return the machine.",
        commands=("sudo lspci -vv -d 10de: | grep -E 'LnkCap|LnkSta'",),
        owner=Owner.MACHINE, role="warning", next_check="GPU005"),
    Cause(id="gpu-context-timeout",
        refines=("xid-hardware",),
        messages=(r"NVRM: Xid \([^)]{1,80}\): 109\b",),
        examples=("NVRM: Xid (PCI:0000:41:00): 109, pid=1, errorString CTX SWITCH TIMEOUT",),
        why="The GPU did not stop a program's work in time to serve another one: several "
            "processes share it, a kernel runs for very long, or the driver or its firmware is "
            "at fault.",
        fix="Start the job again as the only one on this GPU, and upgrade the driver: several "
            "branches had this defect. If it comes back on one GPU alone, reset it, then report "
            "it to the machine's owner.",
        commands=("nvidia-smi",
            *KERNEL_LOG),
        sources=("xid-catalog",), owner=Owner.MACHINE, role="warning"),
    Cause(id="clocks-set-low",
        messages=(r"\d{2,4} of \d{3,4} MHz at \d{1,3} % utilization",),
        examples=("GPU 0: 765 of 1410 MHz at 100 % utilization, neither hot nor at its power "
            "limit",),
        why="Somebody set the clock of the GPU far below what it reaches: every kernel is "
            "slower.",
        fix="Restore the clocks as root: nvidia-smi -rac (application clocks) and nvidia-smi "
            "-rgc (locked ones), on every GPU; look for a service or an energy policy that sets "
            "them. Rented: ask the provider.",
        commands=("nvidia-smi -q -d CLOCK,PERFORMANCE",
            "sudo nvidia-smi -rgc"),
        owner=Owner.MACHINE, role="warning", next_check="GPU004"),
    Cause(id="vgpu-unlicensed",
        messages=("License Status {1,40}: Unlicensed",
            "Failed to acquire(?:/renew)? license"),
        examples=("License Status                    : Unlicensed",
            "nvidia-gridd: Failed to acquire/renew license from license server"),
        why="A vGPU without a license works for some minutes, then its driver throttles it and "
            "refuses CUDA.",
        fix="Give the guest its license: the token in /etc/nvidia/ClientConfigToken (or "
            "ServerAddress and FeatureType in gridd.conf), a license server that it reaches, "
            "and nvidia-gridd running; then nvidia-smi -q says Licensed. Rented: return the "
            "machine.",
        commands=("nvidia-smi -q | grep -A2 -i licens",
            "sudo systemctl restart nvidia-gridd"),
        owner=Owner.MACHINE, role="warning"),
    Cause(id="gpu-shared-by-trainings",
        messages=(r"\d{1,3} processes compute on GPU \d",),
        examples=("2 processes compute on GPU 0: 33121 (python), 40771 (/home/ada/bin/python)",),
        why="Two programs that compute on one GPU take turns: each step takes as many times "
            "longer, although nothing in the program changed.",
        fix="End the one that does not belong there (ps shows whose it is), or move to a free "
            "GPU: CUDA_VISIBLE_DEVICES. On a shared machine reserve GPUs, or set the compute "
            "mode to exclusive process. A server that generates for the training may be one of "
            "them.",
        commands=("ps -o pid,user,lstart,cmd -p PID",
            "nvidia-smi pmon -c 3"),
        owner=Owner.MACHINE, role="warning", next_check="GPU002"),
    Cause(id="gpu-fan-stopped",
        messages=(r"its fan stands still at \d{2,3} C",),
        examples=("GPU 0: its fan stands still at 91 C",),
        why="A fan of a consumer board runs from about 60 C on: this one has failed or is "
            "blocked, and the GPU lowers its clock.",
        fix="Stop the job. Clean or replace the fan or the board, and check its cable and any "
            "tool that sets fan speeds (nvidia-settings, GreenWithEnvy, CoolBits). Rented: "
            "return the machine.",
        commands=("nvidia-smi -q -d TEMPERATURE,PERFORMANCE",),
        owner=Owner.MACHINE, role="warning", next_check="GPU004"),
    Cause(id="gpu-hot",
        messages=(r"GPU \d{1,3}: \d{2,3} C at \d{1,3} % utilization",),
        examples=("GPU 5: 93 C at 98 % utilization",),
        why="GPUs lower their clock at about this temperature and stop some degrees above.",
        fix="Improve the cooling: fans, dust, airflow, thermal pads, distance to the next card, "
            "the room. Until then a lower power limit (sudo nvidia-smi -pl WATTS) on all GPUs "
            "keeps the clock even. Rented: take another machine.",
        commands=("nvidia-smi -q -d TEMPERATURE,PERFORMANCE",),
        owner=Owner.MACHINE, role="warning", next_check="GPU004"),
    Cause(id="gpu-stays-in-idle-state",
        messages=(r"GPU \d{1,3}: state P\d{1,2} at \d{1,3} % utilization",),
        examples=("GPU 0: state P8 at 100 % utilization and 31 of 350 W",),
        why="The GPU stays at the clocks of its idle state although it works: locked clocks, a "
            "power supply or cable that it does not trust, or a driver that hangs.",
        fix="Reset the clocks (sudo nvidia-smi -rgc; sudo nvidia-smi -rmc), check its power "
            "cables, then reset the GPU or reboot. If it stays with other "
            "cables and another power supply, too, the board is to be replaced.",
        commands=("nvidia-smi -q -d CLOCK,PERFORMANCE,POWER",
            "sudo nvidia-smi -rgc"),
        owner=Owner.MACHINE, role="warning", next_check="GPU004"),
)  # fmt: skip
