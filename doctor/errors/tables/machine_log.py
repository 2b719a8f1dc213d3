"""Why a machine does not offer its GPUs: the kernel's, the driver's and other tools' own lines.

They stand in kernel logs, in what an installation prints and in tables of tools, mostly without the
word "error". A pasted report and a readable kernel log are searched for them (DRV003).
"""

from __future__ import annotations

from doctor._util.owner import Owner
from doctor.errors.cause import Cause, Wording
from doctor.errors.tables.commands import KERNEL_LOG

OF_KERNEL = (*KERNEL_LOG, "uname -r; cat /proc/driver/nvidia/version")

ROWS = (
    Cause(id="pcie-link-errors",
        messages=("PCIe Bus Error: severity=",
            "AER: (?:Multiple )?(?:Uncorrected|Uncorrectable|Corrected|Correctable)"),
        examples=("pcieport 0000:00:01.0: PCIe Bus Error: severity=Uncorrected (Fatal), "
            "type=Transaction",
            "pcieport 0000:00:01.0: AER: Corrected error received: 0000:01:00.0"),
        why="The PCIe link of a device loses packets. Corrected errors cost speed, uncorrected "
            "ones end in a lost GPU.",
        fix="Reseat the GPU, replace the riser or cable, and update the board's firmware; a "
            "lower generation of the slot in the firmware shows whether the link is the cause. "
            "Rented: return the machine.",
        commands=("sudo dmesg | grep -iE 'aer|pcie bus'",
            "sudo lspci -vv -d 10de: | grep LnkSta"),
        sources=("linux-aer-stats",), owner=Owner.MACHINE, role="warning"),
    Cause(id="acs-redirects-peers",
        messages=(r"ACSCtl:.{0,40}\bReqRedir\+",),
        examples=("ACSCtl: SrcValid+ TransBlk- ReqRedir+ CmpltRedir+ UpstreamFwd+ EgressCtrl-",),
        why="Access control (ACS) at a port above the GPUs sends copies between them through "
            "the processor's IOMMU: they hang, are wrong or are slow.",
        fix="On a host without virtual machines, switch ACS off on the bridges above the GPUs "
            "(in the firmware, or setpci ECAP_ACS+0x6.w=0), or boot with iommu=pt. Until then "
            "NCCL_P2P_DISABLE=1 avoids copies between GPUs. A host of virtual machines needs "
            "ACS.",
        commands=("sudo lspci -vvv | grep -i acsctl",), sources=("nccl-troubleshooting",),
        owner=Owner.MACHINE, role="warning"),
    Cause(id="iommu-blocks-gpu",
        messages=(r"\[IO_PAGE_FAULT\b|IO_PAGE_FAULT device=",
            r"DMAR:? \[DMA (?:Read|Write)"),
        examples=("AMD-Vi: Event logged [IO_PAGE_FAULT device=41:00.0 domain=0x0000 address=0x0]",
            "DMAR: [DMA Read] Request device [41:00.0] fault addr 0"),
        wordings=(
            Wording("Missing .{0,2}iommu=pt.{0,2} from kernel command line",
                'NCCL WARN Missing "iommu=pt" from kernel command line which can lead to system '
                "instablity or hang!",
                "RCCL reports that the IOMMU translates the GPUs' addresses, with which AMD "
                "GPUs may hang when they talk to each other. It says so as well where the kernel "
                "passes them through by default (CONFIG_IOMMU_DEFAULT_PASSTHROUGH=y), and then "
                "nothing is wrong.",
                "On bare metal add iommu=pt to the kernel's command line (GRUB_CMDLINE_LINUX, "
                "update-grub) and restart; until then NCCL_P2P_DISABLE=1. In a virtual machine "
                "ask its provider.",
                ("cat /proc/cmdline",), sources=("rccl-1129", "rocm-systems-7916")),),
        why="The IOMMU refuses an access of a device: copies between GPUs hang or return zeros.",
        fix="On a host without virtual machines, boot with iommu=pt, or switch the IOMMU off in "
            "the firmware. Until then NCCL_P2P_DISABLE=1 avoids copies between GPUs.",
        commands=("cat /proc/cmdline",
            "sudo dmesg | grep -iE 'dmar|amd-vi|iommu'"),
        owner=Owner.MACHINE),
    Cause(id="cuda-not-initialized",
        refines=("cuda-unavailable",),
        messages=("CUDA driver initialization failed, you might not have",
            r"cuInit\S{0,4} (?:returned|failed with|=) ?3\b|CUDA_ERROR_NOT_INITIALIZED"),
        examples=("CUDA driver initialization failed, you might not have a CUDA gpu.",
            "cuInit(0) returned 3: CUDA_ERROR_NOT_INITIALIZED"),
        why="cuInit returns 3: libcuda is there, and the kernel's part does not serve it. If "
            "nvidia-smi lists the GPUs, the module nvidia_uvm is at fault, not torch.",
        fix="Look at nvidia_uvm: it must be loaded (modprobe nvidia_uvm) and its nodes "
            "/dev/nvidia-uvm exist, in a container as well. On some kernels (RHEL 9.6, "
            "6.13) its support of HMM breaks the start: set `options nvidia_uvm "
            "uvm_disable_hmm=1` in /etc/modprobe.d, then reload nvidia_uvm or reboot. If "
            "nvidia-smi lists no GPU, begin there.",
        commands=("ls -l /dev/nvidia-uvm*; lsmod | grep nvidia_uvm",
            "cat /sys/module/nvidia_uvm/parameters/uvm_disable_hmm",
            "sudo rmmod nvidia_uvm && sudo modprobe nvidia_uvm uvm_disable_hmm=1"),
        owner=Owner.ENVIRONMENT, next_check="DRV001",
        sources=("open-gpu-kernel-modules-901", "open-gpu-kernel-modules-797")),
    Cause(id="wsl-gpu-blocked",
        refines=("cuda-unavailable",),
        messages=("GPU access blocked by the operating system",),
        examples=("Failed to initialize NVML: GPU access blocked by the operating system",),
        why="Windows does not hand the GPU to WSL: it is in TCC mode, its driver is too old for "
            "WSL 2, or a Linux driver was installed inside WSL.",
        fix="Run nvidia-smi on Windows. If its column Driver-Model says TCC: set WDDM (or MCDM) "
            "with nvidia-smi -i 0 -dm 0 as administrator and reboot. Else upgrade the driver of "
            "Windows and WSL (wsl --update, wsl --shutdown), and remove NVIDIA drivers that "
            "were installed inside WSL.",
        commands=("nvidia-smi -i 0 -dm 0",
            "wsl --update"),
        sources=("nvml-errors",), owner=Owner.ENVIRONMENT, next_check="DRV001"),
    Cause(id="mig-without-instances",
        messages=("No MIG devices found",
            "No (?:GPU|compute) instances found: Not Found"),
        examples=("|  No MIG devices found                                                    |",
            "No GPU instances found: Not Found"),
        wordings=(
            Wording(r"MIG mode is in pending (?:en|dis)able state|No MIG-enabled devices found",
                "Warning: MIG mode is in pending enable state for GPU 00000000:3B:00.0:In use by "
                "another client",
                "A change of MIG mode takes effect at a reset of the GPU, which waits until "
                "nothing uses it; instances cannot be created before.",
                "Stop what uses the GPU (jobs, dcgm, nvidia-persistenced, the display), then: sudo "
                "nvidia-smi -i N --gpu-reset; in a virtual machine reboot. Where MIG mode was "
                "never requested: sudo nvidia-smi -i N -mig 1 before that.",
                ("nvidia-smi --query-gpu=mig.mode.current,mig.mode.pending --format=csv",
                    "sudo fuser -v /dev/nvidia*"),
                more=("No MIG-enabled devices found.",)),),
        why="The GPU is in MIG mode and nobody created an instance on it: CUDA finds no device.",
        fix="Create instances, sudo nvidia-smi mig -cgi 0 -C for one of the whole GPU, or "
            "switch MIG mode off: sudo nvidia-smi -i 0 -mig 0, then reset the GPU.",
        commands=("sudo nvidia-smi mig -lgi",
            "sudo nvidia-smi -i 0 -mig 0"),
        owner=Owner.ENVIRONMENT, sources=("mig-guide",)),
    Cause(id="fabric-service-not-ready",
        refines=("version-required",),
        wordings=(
            Wording(r"GPU driver interface version .{0,40}don't match|"
                r"nvidia-fabricmanager\.service could not be found|"
                r"nvidia-fabricmanager\S{0,10}: Failed with result",
                "fabric manager NVIDIA GPU driver interface version 550.54.15 don't match with "
                "driver version 550.90.07. Please update with matching NVIDIA driver package.",
                "GPUs on NVSwitches need a fabric manager of exactly the driver's version, and "
                "it is missing, of another version or stopped.",
                "Install nvidia-fabricmanager in exactly the driver's version (nvidia-smi "
                "prints it), hold both packages together, then: sudo systemctl enable --now "
                "nvidia-fabricmanager. Rented: return the machine.",
                ("systemctl status nvidia-fabricmanager",
                    "cat /proc/driver/nvidia/version"),
                more=("Unit nvidia-fabricmanager.service could not be found.",)),
            Wording(r"nvidia-imex\S{0,10}: Failed with result|nvidia-imex\.service could not be "
                r"found|Node #\d{1,3}\b.{0,60}- UNAVAILABLE\b|MNNVL .{0,60}not supported on some "
                r"system component|cannot access '?/dev/nvidia-caps-imex-channels",
                "nvidia-imex.service: Failed with result 'exit-code'.",
                "The nodes of an NVLink domain (GB200 NVL72) share memory through the service "
                "IMEX, and it does not run on one of them.",
                "Start nvidia-imex on every node of the domain, in the driver's version and "
                "with the same /etc/nvidia-imex/nodes_config.cfg; nvidia-imex-ctl -N must show "
                "all READY. Until then NCCL_MNNVL_ENABLE=0 uses InfiniBand between the nodes. "
                "Rented: return the machine.",
                ("nvidia-imex-ctl -N",
                    "systemctl status nvidia-imex"),
                more=("ls: cannot access '/dev/nvidia-caps-imex-channels': No such file or "
                    "directory",
                    "Node #1   - 10.0.0.12      - UNAVAILABLE          - Version: ?",
                    "NCCL WARN MNNVL (cliqueSize 8) is available but not supported on some "
                    "system component"))),
        why="GPUs on NVSwitches and in NVLink domains need a service of exactly the driver's "
            "version, which does not run.",
        owner=Owner.MACHINE),
    Cause(id="nvswitch-error",
        messages=(r"SXid \(PCI:.{0,30}\): \d{5}, (?:Fatal|Non-fatal)",),
        examples=("nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 20034, Fatal, Link 30 LTSSM Fault "
            "Up",),
        why="An NVSwitch reports an error of itself or of a link. A fatal one ends the jobs of "
            "all GPUs on it.",
        fix="Fatal: drain the node, reset all GPUs and switches together (or reboot), and "
            "restart the fabric manager; if it comes back, the baseboard or the GPU on that "
            "link is at fault. Rented: return the machine.",
        commands=("sudo dmesg | grep -i sxid",
            "systemctl status nvidia-fabricmanager"),
        owner=Owner.MACHINE, retry="node"),
    Cause(id="gpu-device-failed",
        wordings=(
            Wording(r"(?:NVIDIA|AMD|ATI)\b.{0,90}\(rev ff\)",
                "01:00.0 3D controller: NVIDIA Corporation GA102GL [RTX A6000] (rev ff)",
                "The device answers reads on the PCI bus with ones only: it lost power or its "
                "link. Laptops that switch their GPU off show the same.",
                "Power-cycle the machine, check the GPU's power cables, seat and heat. Rented: "
                "return the machine. On a laptop: wake the GPU (prime-select nvidia) first.",
                ("lspci -d 10de:",
                    *KERNEL_LOG)),
            Wording("infoROM is corrupted",
                "WARNING: infoROM is corrupted at gpu 0000:18:00.0",
                "The GPU's own memory of its identity and error counts cannot be read: its "
                "health is not known.",
                "Power-cycle the machine. If the warning stays, return a rented machine; on "
                "your own machine, ask the board's maker, who can write the infoROM or replaces "
                "the GPU.",
                ("nvidia-smi -q | grep -A5 -i inforom",)),
            Wording(r"Windows has stopped this device|reported problems\.? \(Code 43\)",
                "Windows has stopped this device because it has reported problems. (Code 43)",
                "The driver of Windows could not start the GPU. In a virtual machine older "
                "drivers refuse a GeForce this way.",
                "Reinstall the driver cleanly (DDU, then a current one), check power and seat. "
                "In a virtual machine: a driver of 465 or newer, and the GPU's own VBIOS handed "
                "through."),
            Wording(r"\b(?:910|310)\w{0,5} +\| (?:Alarm|Critical)\b",
                "| 0     910B3               | Alarm         | 93.5        36                |",
                "npu-smi reports that this Ascend NPU is not healthy.",
                "Read its event (npu-smi info -t health), power-cycle the machine; if it comes "
                "back, the NPU, its cooling or its power is at fault. Rented: return the "
                "machine.",
                ("npu-smi info -t health -i 0",)),
            Wording(r"amdgpu: ring \S{2,20} timeout|amdgpu: GPU reset begin",
                "amdgpu 0000:03:00.0: amdgpu: ring gfx_0.0.0 timeout, signaled seq=1, emitted "
                "seq=3",
                "The AMD GPU stopped answering and was reset: programs on it lose their memory.",
                "Update kernel, linux-firmware and ROCm; undo overclocking and undervolting, "
                "check power and heat. If one GPU of several does it, that one is at fault.",
                ("sudo dmesg | grep -i amdgpu",),
                more=("amdgpu 0000:03:00.0: amdgpu: GPU reset begin!",)),
            Wording(r"(?:TOTAL_)?UNCORRECTABLE_COUNT: [1-9]|amdgpu: [1-9]\d{0,6} uncorrectable "
                r"hardware errors detected",
                "TOTAL_UNCORRECTABLE_COUNT: 7",
                "The AMD GPU's memory had errors that could not be corrected.",
                "Reset the GPU or reboot, so that the bad page is retired. If the count rises "
                "again, return a rented machine; on your own machine, replace the GPU.",
                ("amd-smi metric --ecc",
                    "amd-smi bad-pages"),
                more=("amdgpu 0000:0c:00.0: amdgpu: 1 uncorrectable hardware errors detected in "
                    "umc block",)),
            Wording("PCI rejects atomics|PCIE atomic ops is not supported",
                "kfd kfd: amdgpu: skipped device 1002:7550, PCI rejects atomics 730<0",
                "ROCm needs PCIe atomics, which this slot, riser or processor does not route.",
                "Move the GPU to a slot that is wired to the processor, without a riser or a "
                "chipset in between; in a virtual machine pass the whole root port.",
                ("sudo dmesg | grep -i atomics",))),
        why="A GPU, a switch between GPUs or another accelerator does not answer or reports a "
            "failure of itself.",
        sources=("open-gpu-kernel-modules-507", "nvml-errors"), owner=Owner.MACHINE),
    Cause(id="driver-call-hangs",
        messages=(r"task (?:nvidia|nv_|cuda|kworker/\S{1,20}nv|rocm|amdgpu)\S{0,20}:\d+ blocked "
            r"for",
            r" D[sl<+N]{0,3} {1,20}(?:nvidia_\w{3,20}|uvm_va_\w{3,20}|os_acquire_rwlock)"),
        examples=("INFO: task nvidia-smi:812 blocked for more than 120 seconds.",
            "  8812 D    nvidia_ioctl                     nvidia-smi"),
        why="A program waits inside the driver and cannot be killed: a GPU does not answer.",
        fix="Read the Xid lines before it, drain the node and reboot it; power-cycle if the "
            "reboot hangs. Rented: return the machine.",
        commands=KERNEL_LOG, owner=Owner.MACHINE, retry="node"),
    Cause(id="nvlink-errors",
        messages=(r"NVLink \d{1,2} of GPU \d{1,4}: [\d,]+ errors",),
        examples=("NVLink 5 of GPU 0: 991,823 errors since the last reset",),
        why="An NVLink lost data and sent it again: copies become slow, and it may go down.",
        fix="Reset all GPUs together, or reboot, run the job and look again. If the count of "
            "the same link rises, return a rented machine; on your own machine, reseat or "
            "replace the board.",
        commands=("nvidia-smi nvlink -e",), sources=("nvml-fields",),
        owner=Owner.MACHINE, role="warning"),
    Cause(
        id="package-database-locked",
        wordings=(
            Wording(
                r"E: Could not get lock /var/lib/|E: Unable to acquire the dpkg frontend lock|"
                r"can't create transaction lock on",
                "E: Could not get lock /var/lib/dpkg/lock-frontend. It is held by process 1234 "
                "(unattended-upgr)",
                "Another installation is at work; after a boot these are often automatic upgrades.",
                "Wait until the process of that number has ended (ps -p NUMBER), then repeat the "
                "command. Do not remove the lock while it runs.",
                more=(
                    "error: can't create transaction lock on /var/lib/rpm/.rpm.lock (Resource "
                    "temporarily unavailable)",
                ),
            ),
            Wording(
                r"dpkg was interrupted, you must manually run",
                "E: dpkg was interrupted, you must manually run 'sudo dpkg --configure -a' to "
                "correct the problem.",
                "An installation was ended in the middle.",
                "Finish it with sudo dpkg --configure -a, then repeat the command.",
                ("sudo dpkg --configure -a",),
            ),
            Wording(
                r"Thread died in Berkeley DB|DB_RUNRECOVERY: Fatal error",
                "error: db5 error(-30973) from dbenv->failchk: BDB0087 DB_RUNRECOVERY: Fatal "
                "error, "
                "run database recovery",
                "rpm was ended while it wrote, and its database is inconsistent: nothing can be "
                "installed or removed.",
                "End other rpm, yum and dnf processes, move /var/lib/rpm/__db.* to another "
                "directory as a copy, and rebuild: sudo rpm --rebuilddb.",
                ("ps aux | grep -E 'rpm|yum|dnf'", "sudo rpm --rebuilddb"),
                more=(
                    "error: rpmdb: BDB0113 Thread/process 2417/140 failed: BDB1507 Thread died in "
                    "Berkeley DB library",
                ),
            ),
        ),
        why="The package manager refuses to work, so that no driver or library can be installed.",
        owner=Owner.ENVIRONMENT,
    ),
)  # fmt: skip
