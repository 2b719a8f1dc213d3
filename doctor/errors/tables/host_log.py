"""What the host itself reports beside its GPUs: processor, memory modules, disks, power supplies.

The lines of the kernel and of the board's controller, mostly without the word "error".
"""

from __future__ import annotations

from doctor._util.owner import Owner
from doctor.errors.cause import Cause, Wording

ROWS = (
    Cause(id="processor-too-hot",
        wordings=(
            Wording("temperature above threshold, cpu clock throttled",
                "CPU0: Core temperature above threshold, cpu clock throttled (total events = 1)",
                "The processor is too hot and lowers its clock: loaders and launches become "
                "slow.",
                "Check the processor's cooling and the airflow. Rented: return the machine.",
                ("sensors",)),
            Wording(r"cpu clock (?:is )?throttled \(total events = \d{4,12}",
                "mce: CPU44: Package temperature is above threshold, cpu clock is throttled "
                "(total events = 120933)",
                "The processor is too hot and lowers its clock: loading of data and launching "
                "of kernels take longer, and the GPUs wait.",
                "Clean and check its cooler, the fans and the airflow (the GPUs' heat may pass "
                "over it), and the thermal paste. Rented: ask for another machine.",
                ("sensors",
                    "sudo dmesg | grep -c 'clock is throttled'"))),
        why="The processor is too hot and lowers its clock: loaders and launches become slow.",
        owner=Owner.MACHINE, role="warning"),
    Cause(id="host-part-failing",
        wordings=(
            Wording(r"\[Hardware Error\]: (?:Machine check|CPU \d|.{0,40}Uncorrected)|EDAC "
                r".{0,40}(?:UE|CE) memory (?:read|write|scrub)",
                "mce: [Hardware Error]: Machine check events logged",
                "The processor reports errors of its memory, caches or buses.",
                "Read which part it names (ras-mc-ctl --summary, rasdaemon, the BMC's log); "
                "replace a module with uncorrected errors. Rented: return the machine.",
                ("sudo ras-mc-ctl --summary",
                    "sudo dmesg | grep -iE 'mce|edac'"),
                more=("EDAC MC0: 1 UE memory read error on CPU_SrcID#0_MC#0_Chan#1_DIMM#0",)),
            Wording(r"SMART overall-health self-assessment test result: FAILED|Critical "
                r"Warning: {1,40}0x(?!00)[\da-f]{2}|\bblocks\b.{0,120}\[\d{1,3}/\d{1,3}\] "
                r"\[U{0,16}_[U_]{0,16}\]",
                "SMART overall-health self-assessment test result: FAILED!",
                "A disk reports that it fails, or an array of disks runs without one of them: "
                "reads become slow, and the next failure loses data.",
                "Copy what is needed elsewhere, replace the disk and let the array rebuild. "
                "Until then train from another disk. Rented: return the machine.",
                ("sudo smartctl -a /dev/nvme0",
                    "cat /proc/mdstat; sudo mdadm --detail /dev/md0"),
                more=("Critical Warning:                   0x09",
                    "11251261440 blocks super 1.2 level 5, 512k chunk [4/3] [UU_U]")),
            Wording("Power Supply (?!.{0,120}Deasserted).{0,80}(?:Failure detected|AC lost)|"
                "Power Unit (?!.{0,120}Deasserted).{0,60}Redundancy Lost",
                "1a | 03/04/2025 | 09:12:11 | Power Supply #0x52 | Failure detected () | "
                "Asserted",
                "A power supply of the machine failed or lost its input: the rest brakes the "
                "GPUs (power brake) or drops one off the bus under load.",
                "Restore the input or replace the supply, then clear the event; until then "
                "lower the GPUs' power limit (sudo nvidia-smi -pl WATTS). Rented: return the "
                "machine.",
                ("sudo ipmitool sdr type 'Power Supply'",
                    "sudo ipmitool sel elist | tail"),
                more=("1c | 03/04/2025 | 09:12:13 | Power Unit #0x01 | Redundancy Lost | "
                    "Asserted",))),
        why="A part of the host reports that it fails.",
        owner=Owner.MACHINE, role="warning"),
    Cause(id="file-system-failed",
        messages=(r"(?:EXT4-fs|XFS|BTRFS)\S{0,2} (?:error|\(\S{1,20}\): .{0,60}(?:shutdown|"
            r"corrupt))",
            r"nvme\S{0,12}: (?:I/O \d+ .{0,30}timeout|controller is down)|blk_update_request: "
            r"I/O",
            "Remounting filesystem read-only"),
        examples=("EXT4-fs error (device nvme0n1p1): ext4_find_entry",
            "nvme nvme0: controller is down; will reset: CSTS=0xffffffff",
            "EXT4-fs (sda1): Remounting filesystem read-only"),
        why="A disk or its file system failed; the kernel may have made it read-only.",
        fix="Save what can be read, look at the disk's own report, then replace it or check the "
            "file system unmounted. Rented: return the machine.",
        commands=("sudo smartctl -a /dev/nvme0",
            "mount | grep ' ro[,)]'"),
        owner=Owner.MACHINE),
    Cause(id="file-locks-missing",
        errors=("OSError", "NotImplementedError", "BlockingIOError", "RuntimeError"),
        messages=("No locks available",
            r"\[Errno 38\] Function not implemented",
            "FileSystem does not appear to support flock"),
        examples=("OSError: [Errno 37] No locks available",
            "OSError: [Errno 38] Function not implemented",
            "NotImplementedError: FileSystem does not appear to support flock; use SoftFileLock"),
        wordings=(
            Wording("[Uu]nable to (?:lock|synchronously open) file|unable to lock file",
                "BlockingIOError: [Errno 11] Unable to open file (unable to lock file, errno = "
                "11, error message = 'Resource temporarily unavailable')",
                "HDF5 locks a file that is open, and another process writes it, or the file "
                "system has no locks.",
                'Open the file in each worker, for reading (h5py.File(path, "r") at the first '
                "__getitem__), close writers, and set HDF5_USE_FILE_LOCKING=FALSE on network "
                "file systems.",
                ("export HDF5_USE_FILE_LOCKING=FALSE",),
                owner=Owner.JOB),
            Wording("while accessing SQLite database",
                "MIOpen Error: /src/miopen/src/sqlite_db.cpp:227: Internal error while "
                "accessing SQLite database: disk I/O error",
                "MIOpen keeps what it measured in a SQLite database below the home directory, "
                "and that file system cannot lock or write it: a network file system, or one "
                "that is full.",
                "Put it on a local disk: MIOPEN_USER_DB_PATH and MIOPEN_CUSTOM_CACHE_DIR, one "
                "directory for each rank.",
                ("df -hT ~",
                    'export MIOPEN_USER_DB_PATH="/tmp/miopen-$USER-${SLURM_PROCID:-0}"',
                    'export MIOPEN_CUSTOM_CACHE_DIR="$MIOPEN_USER_DB_PATH"'))),
        why="The file system grants no locks: Lustre or BeeGFS mounted without flock, NFS 3 "
            "without rpc.statd or mounted with nolock, some FUSE mounts; caches and Hugging "
            "Face's downloads lock their files.",
        fix="Put HF_HOME, HF_DATASETS_CACHE, TRITON_CACHE_DIR and TORCH_EXTENSIONS_DIR on a "
            "local disk; data sets that were saved with save_to_disk can stay. Or mount Lustre "
            "with -o flock, use NFS 4 (vers=4.2), or start rpc-statd on client and server.",
        commands=("findmnt -t nfs,nfs4,lustre,beegfs -o TARGET,FSTYPE,OPTIONS",
            "export HF_HOME=/local/hf"),
        owner=Owner.ENVIRONMENT),
)  # fmt: skip
