"""What the host itself reports beside its GPUs: processor, memory modules, disks, power supplies.

The lines of the kernel and of the board's controller, mostly without the word "error".
"""

from __future__ import annotations

from doctor._util.owner import Owner
from doctor.errors.cause import Cause

ROWS = (
    Cause(
        id="cpu-too-hot",
        messages=(r"temperature above threshold, cpu clock throttled",),
        examples=(
            "CPU0: Core temperature above threshold, cpu clock throttled (total events = 1)",
        ),
        why="The processor is too hot and lowers its clock: loaders and launches become slow.",
        fix="Check the processor's cooling and the airflow. Rented: return the machine.",
        owner=Owner.MACHINE,
        role="warning",
        commands=("sensors",),
    ),
    Cause(
        id="host-hardware-error",
        messages=(
            r"\[Hardware Error\]: (?:Machine check|CPU \d|.{0,40}Uncorrected)",
            r"EDAC .{0,40}(?:UE|CE) memory (?:read|write|scrub)",
        ),
        examples=(
            "mce: [Hardware Error]: Machine check events logged",
            "EDAC MC0: 1 UE memory read error on CPU_SrcID#0_MC#0_Chan#1_DIMM#0",
        ),
        why="The processor reports errors of its memory, caches or buses.",
        fix="Read which part it names (ras-mc-ctl --summary, rasdaemon, the BMC's log); replace a "
        "module with uncorrected errors. Rented: return the machine.",
        owner=Owner.MACHINE,
        role="warning",
        commands=("sudo ras-mc-ctl --summary", "sudo dmesg | grep -iE 'mce|edac'"),
    ),
    Cause(
        id="file-system-failed",
        messages=(
            r"(?:EXT4-fs|XFS|BTRFS)\S{0,2} (?:error|\(\S{1,20}\): .{0,60}(?:shutdown|corrupt))",
            r"nvme\S{0,12}: (?:I/O \d+ .{0,30}timeout|controller is down)|blk_update_request: I/O",
            r"Remounting filesystem read-only",
        ),
        examples=(
            "EXT4-fs error (device nvme0n1p1): ext4_find_entry",
            "nvme nvme0: controller is down; will reset: CSTS=0xffffffff",
            "EXT4-fs (sda1): Remounting filesystem read-only",
        ),
        why="A disk or its file system failed; the kernel may have made it read-only.",
        fix="Save what can be read, look at the disk's own report, then replace it or check the "
        "file system unmounted. Rented: return the machine.",
        owner=Owner.MACHINE,
        commands=("sudo smartctl -a /dev/nvme0", "mount | grep ' ro[,)]'"),
    ),
    Cause(
        id="file-locks-missing",
        errors=("OSError", "NotImplementedError"),
        messages=(
            r"No locks available",
            r"\[Errno 38\] Function not implemented",
            r"FileSystem does not appear to support flock",
        ),
        examples=(
            "OSError: [Errno 37] No locks available",
            "OSError: [Errno 38] Function not implemented",
            "NotImplementedError: FileSystem does not appear to support flock; use SoftFileLock",
        ),
        why="The file system grants no locks: Lustre or BeeGFS mounted without flock, NFS 3 "
        "without rpc.statd or mounted with nolock, some FUSE mounts; caches and Hugging Face's "
        "downloads lock their files.",
        fix="Put HF_HOME, HF_DATASETS_CACHE, TRITON_CACHE_DIR and TORCH_EXTENSIONS_DIR on a local "
        "disk; data sets that were saved with save_to_disk can stay. Or mount Lustre with -o "
        "flock, use NFS 4 (vers=4.2), or start rpc-statd on client and server.",
        owner=Owner.ENVIRONMENT,
        commands=(
            "findmnt -t nfs,nfs4,lustre,beegfs -o TARGET,FSTYPE,OPTIONS",
            "export HF_HOME=/local/hf",
        ),
    ),
    Cause(
        id="disk-failing",
        messages=(
            r"SMART overall-health self-assessment test result: FAILED",
            r"Critical Warning: {1,40}0x(?!00)[\da-f]{2}",
            r"\bblocks\b.{0,120}\[\d{1,3}/\d{1,3}\] \[U{0,16}_[U_]{0,16}\]",
        ),
        examples=(
            "SMART overall-health self-assessment test result: FAILED!",
            "Critical Warning:                   0x09",
            "11251261440 blocks super 1.2 level 5, 512k chunk [4/3] [UU_U]",
        ),
        why="A disk reports that it fails, or an array of disks runs without one of them: reads "
        "become slow, and the next failure loses data.",
        fix="Copy what is needed elsewhere, replace the disk and let the array rebuild. Until then "
        "train from another disk. Rented: return the machine.",
        owner=Owner.MACHINE,
        role="warning",
        commands=("sudo smartctl -a /dev/nvme0", "cat /proc/mdstat; sudo mdadm --detail /dev/md0"),
    ),
    Cause(
        id="power-supply-failed",
        messages=(
            r"Power Supply (?!.{0,120}Deasserted).{0,80}(?:Failure detected|AC lost)",
            r"Power Unit (?!.{0,120}Deasserted).{0,60}Redundancy Lost",
        ),
        examples=(
            "1a | 03/04/2025 | 09:12:11 | Power Supply #0x52 | Failure detected () | Asserted",
            "1c | 03/04/2025 | 09:12:13 | Power Unit #0x01 | Redundancy Lost | Asserted",
        ),
        why="A power supply of the machine failed or lost its input: the rest brakes the GPUs "
        "(power brake) or drops one off the bus under load.",
        fix="Restore the input or replace the supply, then clear the event; until then lower the "
        "GPUs' power limit (sudo nvidia-smi -pl WATTS). Rented: return the machine.",
        owner=Owner.MACHINE,
        role="warning",
        commands=("sudo ipmitool sdr type 'Power Supply'", "sudo ipmitool sel elist | tail"),
    ),
)
