"""Why the kernel has no module for a GPU: what the kernel and an installation print.

Most of these lines stand in kernel logs, without the word "error".
"""

from __future__ import annotations

from doctor._util.owner import Owner
from doctor.errors.cause import Cause, Wording
from doctor.errors.tables.commands import KERNEL_LOG

ROWS = (
    Cause(id="driver-module-fails",
        wordings=(
            Wording("requires use of the NVIDIA open kernel modules",
                "NVRM: installed in this system requires use of the NVIDIA open kernel modules.",
                "Blackwell GPUs (RTX 50, RTX PRO, B200, GB200) are driven by the open kernel "
                "module alone.",
                "Install the open kernel module of the same driver version "
                "(nvidia-driver-580-open, nvidia-open, --kernel-module-type=open), then reboot.",
                ("modinfo -F license nvidia",)),
            Wording(r"not supported by open\s{0,3}nvidia\.ko|installed in this system is not "
                r"supported by open|does not include the required GPU",
                "NVRM: installed in this system is not supported by open nvidia.ko",
                "The open kernel module drives GPUs since Turing: Volta (V100), Pascal and "
                "older ones have no GSP.",
                "Install the proprietary kernel module of the same driver version "
                "(nvidia-driver-570 without -open, --kernel-module-type=proprietary). Drivers "
                "since 590 have none for GPUs before Turing: stay on 580 there.",
                ("modinfo -F license nvidia",
                    "apt list --installed 2>/dev/null | grep nvidia")),
            Wording(r"installed in this system is not supported by the\b",
                "NVRM: installed in this system is not supported by the NVIDIA 550.163.01 "
                "driver release.",
                "This release of the driver does not drive the GPU: the GPU is newer, or it is "
                "the virtual GPU (vGPU) of a virtual machine.",
                "Install the driver that supports this GPU, then reboot: 570 or newer for "
                "Blackwell (RTX 50, RTX PRO, B200), with the open kernel module "
                "(nvidia-driver-580-open); in a virtual machine, where the release is newer than "
                "the GPU, the guest driver (GRID) that belongs to its host's vGPU. A GPU in "
                "confidential-computing mode needs a release that supports it.",
                ("cat /proc/driver/nvidia/version",
                    "lspci -nn -d 10de:")),
            Wording(r"supported through the NVIDIA \d{3}\.xx Legacy|driver will "
                r"ignore\s{0,3}this GPU",
                "NVRM: installed in this system is supported through the NVIDIA 470.xx Legacy "
                "drivers.",
                "This driver no longer knows a GPU of that age.",
                "Install the legacy branch that the line names: 470 for Kepler (K40, K80), 580 "
                "for Maxwell, Pascal and Volta. It limits CUDA and torch: 470 runs CUDA 11.4.",
                ("lspci -nn | grep -i nvidia",)),
            Wording(r"Key was rejected by service|Required key not available|[Ss]ecure [Bb]oot "
                r"is enabled on this system|Loading of unsigned module is rejected|unsigned "
                r"module loading is restricted|could not insert 'nvidia\S{0,10}': Operation not "
                r"permitted",
                "modprobe: ERROR: could not insert 'nvidia': Key was rejected by service",
                "Secure Boot refuses a kernel module that is not signed with a key it knows.",
                "Enroll the key that signed the module (sudo mokutil --import MOK.der, then "
                "confirm at the next boot), install the distribution's signed package "
                "(linux-modules-nvidia-*), or switch Secure Boot off in the firmware.",
                ("mokutil --sb-state",
                    "modinfo -F signer nvidia"),
                more=("Secure boot is enabled on this system, so this is likely because it was "
                    "not signed",
                    "Lockdown: modprobe: Loading of unsigned module is rejected",
                    "modprobe: ERROR: could not insert 'nvidia': Operation not permitted")),
            Wording(r"Module nvidia\S{0,12} not found in directory|nvidia\S{0,12}: disagrees "
                r"about version of symbol|Bad return status for module build on kernel|DKMS "
                r"make\.log for nvidia|Unable to find the kernel source tree|"
                r"[Yy]our kernel headers for kernel \S{1,60} cannot be found|"
                r"\bnvidia/\d{3}\.[\d.]{1,12}: added\b|Could not resolve Linux kernel version|"
                r"Unable to locate package linux-headers-|dkms built the module for|performing the "
                r"step: .{0,2}(?:Building kernel modules|Checking to see whether the nvidia)",
                "modprobe: FATAL: Module nvidia not found in directory "
                "/lib/modules/6.8.0-45-generic",
                "No module of the driver was built for the kernel that runs: the kernel was "
                "upgraded, its headers are missing, or this driver does not compile with it.",
                "Install the headers of the running kernel and build the module "
                "(linux-headers-$(uname -r), then dkms autoinstall), or take a newer driver "
                "that knows this kernel; then modprobe nvidia or reboot.",
                ("uname -r",
                    "dkms status",
                    "sudo dkms autoinstall"),
                more=("nvidia: disagrees about version of symbol module_layout",
                    "Error! Bad return status for module build on kernel: 6.8.0-45-generic "
                    "(x86_64)",
                    "Error! Your kernel headers for kernel 6.8.0-45-generic cannot be found at "
                    "/lib/modules/6.8.0-45-generic/build",
                    "nvidia/535.129.03: added",
                    'ERROR: An error occurred while performing the step: "Building kernel modules"',
                    "E: Unable to locate package linux-headers-6.8.0-1024-aws",
                    "dkms built the module for 6.11.0-29-generic, and the kernel that runs is "
                    "6.14.0-33-generic")),
            Wording(r"BAR\d is 0M @ 0x0|PCI I/O region assigned to your NVIDIA device is "
                r"invalid|This is a 64-bit BAR mapped above",
                "NVRM: BAR1 is 0M @ 0x0 (PCI:0000:0a:00.0)",
                "The firmware, the hypervisor or the kernel gave the GPU no window of PCI "
                "memory.",
                "Switch on Above 4G Decoding (large MMIO) in the firmware, or boot with "
                "pci=realloc; a GPU in an external box needs pci=realloc,hpmmioprefsize=16G as "
                "well. In a virtual machine: UEFI instead of BIOS, and a 64-bit MMIO space as "
                "large as all GPUs' memory.",
                ("lspci -vv -d 10de: | grep -i region",
                    "sudo dmesg | grep -iE 'BAR|nvrm'"),
                owner=Owner.MACHINE,
                more=("NVRM: This PCI I/O region assigned to your NVIDIA device is invalid:",
                    "NVRM: This is a 64-bit BAR mapped above 4GB by the system BIOS or the "
                    "Linux kernel")),
            Wording("API mismatch: the client (?:has the version|')|GSP firmware image version "
                "mismatch",
                "NVRM: API mismatch: the client has the version 535.54.03, but",
                "A library or the firmware of the driver has another version than the loaded "
                "kernel module: the driver was upgraded without a restart, the module was not "
                "built again or is an old one in the initramfs, or the image brings its own.",
                "On the host: reboot, or unload and load the nvidia modules while nothing uses "
                "them. If that changes nothing, modinfo shows the old version: install the module "
                "of the packages' version (dkms autoinstall, or linux-modules-nvidia-*, kmod-*), "
                "rebuild the initramfs (update-initramfs -u, dracut --force, mkinitcpio -P) and "
                "reboot. In a container: remove the driver's libraries from the image.",
                ("cat /proc/driver/nvidia/version; modinfo -F version nvidia",
                    "dpkg -l | grep nvidia-driver"),
                more=("NVRM: API mismatch: the client 'kwin_wayland' (pid 1005)",
                    "NVRM: GPU0 _kgspFwContainerVerifyVersion: GSP firmware image version "
                    "mismatch:"),
                sources=("driver-mismatch", "nvidia-driver-g06-25", "rpm-sources-526")),
            Wording(r"Kernel driver in use: nouveau|Nouveau kernel driver is currently in use|"
                r"^\s{0,8}nouveau +\d{5,9} +\d|NVIDIA probe routine was not called for|"
                r"nouveau.{0,40} already bound",
                "Kernel driver in use: nouveau",
                "Another kernel driver (nouveau, sometimes vfio-pci) holds the GPU, so that "
                "NVIDIA's cannot.",
                "Blacklist nouveau (blacklist nouveau and options nouveau modeset=0 in "
                "/etc/modprobe.d), rebuild the initramfs (update-initramfs -u or dracut "
                "--force) and reboot. If the GPU is bound to vfio-pci, it belongs to a virtual "
                "machine.",
                ("lspci -nnk -d 10de:",
                    "lsmod | grep -E 'nouveau|nvidia'"),
                more=("nouveau              2306048  1",
                    "NVRM: The NVIDIA probe routine was not called for 1 device(s).")),
            Wording(r"firmware load for nvidia/.{0,60}gsp\w{0,12}\.bin failed|(?:RISC-V|"
                r"GSP).{0,60}(?:firmware|bootstrap).{0,40}(?:fail|error)|_kgspBootGspRm|"
                r"kgspBootstrap|Cannot initialize GSP",
                "Direct firmware load for nvidia/535.129.03/gsp_tu10x.bin failed with error -2",
                "The GPU's system processor did not start: its firmware file is missing or of "
                "another driver version, or the GPU did not take it.",
                "Install the firmware package of exactly the module's version "
                "(nvidia-firmware-*, linux-firmware-nvidia) and rebuild the initramfs. If the "
                "file is there, update the driver and the board's firmware and power-cycle. A GPU "
                "that fails so in another slot or machine, too, is to be replaced.",
                ("ls /lib/firmware/nvidia/",
                    *KERNEL_LOG,
                    "uname -r; cat /proc/driver/nvidia/version"),
                more=("NVRM: GPU0 GSP firmware load failed",
                    "NVRM: RmInitAdapter: Cannot initialize GSP firmware RM")),
            Wording(r"amdgpu: Fatal error during GPU init|amdgpu: probe of \S{4,14} failed|"
                r"amdgpu not found in modules|Driver not initialized \(amdgpu",
                "amdgpu 0000:03:00.0: amdgpu: Fatal error during GPU init",
                "The kernel's amdgpu module is missing or could not start the GPU.",
                "Load it (sudo modprobe amdgpu); the lines before it in the kernel log say why "
                "it fails: firmware that is missing (linux-firmware), a kernel that is too old "
                "for the GPU, a module of ROCm (amdgpu-dkms) built for another kernel, or, with "
                "BARs that cannot be assigned, Above 4G Decoding in the BIOS. Power-cycle; a "
                "GPU that fails so in another slot or machine, too, is to be replaced.",
                ("sudo dmesg | grep -i amdgpu",
                    "lsmod | grep amdgpu"),
                more=("amdgpu: probe of 0000:03:00.0 failed with error -22",
                    "ERROR:root:Driver not initialized (amdgpu not found in modules)"))),
        why="The driver's kernel module was not built for this kernel or GPU, may not be "
            "loaded, or cannot start the GPU.",
        yields_to=("gpu-of-virtual-machine", "driver-parts-differ", "gpu-firmware-not-booted",
            "driver-older-than-kernel"),
        sources=("driver-mismatch",),
        owner=Owner.ENVIRONMENT),
    Cause(id="driver-older-than-kernel",
        messages=(r"GPL-incompatible module nvidia\S{0,12} uses GPL-only symbol",),
        examples=("ERROR: modpost: GPL-incompatible module nvidia.ko uses GPL-only symbol "
            "'rcu_read_unlock_strict'",),
        why="The driver's proprietary module does not compile for this kernel: it uses a symbol "
            "that this kernel reserves for modules under the GPL.",
        fix="Install the newest release of the driver's branch (for rcu_read_lock and "
            "rcu_read_unlock_strict 535.183 or newer), or the open kernel module of the same "
            "version (nvidia-driver-580-open, nvidia-open), which drives GPUs since Turing. Until "
            "then boot the previous kernel.",
        commands=("uname -r", "dkms status"), owner=Owner.ENVIRONMENT,
        sources=("konvoy-image-builder-1200", "gpu-operator-729")),
    Cause(id="module-needs-open-driver",
        messages=(r"module using GPL-only symbols uses symbols.{0,60} from proprietary module "
            r"nvidia",),
        examples=("nvidia_fs: module using GPL-only symbols uses symbols from proprietary module "
            "nvidia.",
            "libnvm: module using GPL-only symbols uses symbols nvidia_p2p_get_pages from "
            "proprietary module nvidia."),
        why="The kernel does not let the module before the colon (nvidia_fs is that of GPUDirect "
            "Storage) use the driver's proprietary module.",
        fix="For GPUDirect Storage and RDMA install the open kernel module of the same driver "
            "version (nvidia-driver-580-open, nvidia-open), which drives GPUs since Turing, and "
            "reboot. A training that uses neither runs without that module.",
        commands=("modinfo -F license nvidia",), sources=("gds-nvidia-fs-41",),
        owner=Owner.ENVIRONMENT),
    Cause(id="gpu-firmware-not-booted",
        messages=(r"failed to wait for GFW(?:_| )BOOT",),
        examples=("NVRM: gpuWaitForGfwBootComplete_TU102: failed to wait for GFW_BOOT: (progress "
            "0x3)",),
        why="The firmware on the board did not finish its own start, which comes before any "
            "driver: no file or version of the driver changes that.",
        fix="Switch the machine off and on again (a reboot keeps the board's state; in a virtual "
            "machine, the host), then check the board's power cables, its seat and the riser. If "
            "it fails in another slot or machine too, the board is at fault: replace it. Rented: "
            "return the machine.",
        commands=KERNEL_LOG, sources=("open-gpu-kernel-modules-862",), owner=Owner.MACHINE),
)  # fmt: skip
