"""Jobs that were started without a GPU, and GPUs and nodes that something else holds back.

`doctor.pasted.starts` writes most of these lines of what docker, apptainer, kubectl, lspci and
scontrol print, because a single line of them says nothing.
"""

from __future__ import annotations

from doctor._util.owner import Owner
from doctor.errors.cause import Cause, Wording
from doctor.errors.tables.commands import KERNEL_LOG

ROWS = (
    Cause(id="container-started-without-gpus",
        wordings=(
            Wording("has no option for GPUs|gives the container no GPU|was given no GPU",
                "docker run has no option for GPUs (--gpus all)",
                "A container sees the host's driver and GPUs only if it is started with them, "
                "and keeps what it was started with.",
                "Create the container anew with the GPUs: docker run --gpus all, podman run "
                "--device nvidia.com/gpu=all, apptainer exec --nv (--rocm for AMD); in compose "
                "deploy.resources.reservations.devices with driver: nvidia and capabilities: "
                "[gpu]. nvidia-smi inside must then list them.",
                ("docker run --rm --gpus all ubuntu nvidia-smi",
                    "nvidia-smi")),
            Wording(r"the pod's resources name no nvidia\.com/gpu",
                "the pod's resources name no nvidia.com/gpu: Kubernetes gave it none",
                "Kubernetes gives a container only the devices that it requests; a node with "
                "GPUs alone gives none.",
                "Request them under resources.limits of the container, nvidia.com/gpu: 1, and "
                "create the pod again; on clusters that need it, runtimeClassName: nvidia too.",
                ("kubectl describe node NODE | grep nvidia.com/gpu",))),
        why="The container or pod was started without GPUs.",
        owner=Owner.ENVIRONMENT, next_check="GPU001"),
    Cause(id="mig-slices-not-joined",
        messages=(r"CUDA_VISIBLE_DEVICES names \d{1,2} MIG instances",),
        examples=("CUDA_VISIBLE_DEVICES names 2 MIG instances, and a process uses one",),
        why="A CUDA process sees only the first MIG instance, so that two of them are no two "
            "devices, and NCCL between instances is experimental.",
        fix="Give each process one instance (CUDA_VISIBLE_DEVICES=MIG-... of its own) for "
            "separate jobs. For one training over more memory, take a larger instance or switch "
            "MIG mode off.",
        commands=("nvidia-smi -L",), sources=("pytorch-130181", "nccl-1716"),
        role="warning", next_check="GPU001"),
    Cause(id="gpus-not-allocatable",
        messages=(r"the node has \d{1,3} \w{3,6}\.com/gpu and offers \d{1,3}",
            r"AcceleratedHardwareReady {1,20}False|\bGpu\w{2,30}(?:Watch|Error) {1,20}True\b"),
        examples=("the node has 8 nvidia.com/gpu and offers 0, its device plugin marked GPUs as "
            "unhealthy (Xid 74)",
            "AcceleratedHardwareReady   False   Fri, 11 Jul 2025 20:00:09   NvidiaXID79Error"),
        why="The device plugin of the node holds GPUs back that it found unhealthy, or it does "
            "not run: pods that request them stay pending.",
        fix="Cordon and drain the node, read its kernel log for the Xid that the plugin names "
            "(74: NVLink, 79: off the bus), reset the GPUs or reboot, and restart the device "
            "plugin's pod; if the GPUs are marked again, return or replace the node. Pods run "
            "elsewhere meanwhile.",
        commands=("kubectl describe node NODE",
            "kubectl -n gpu-operator logs -l app=nvidia-device-plugin-daemonset",
            *KERNEL_LOG),
        owner=Owner.MACHINE, retry="node"),
    Cause(id="slurm-lacks-gpus",
        refines=("slurm-node-held-back",),
        messages=(r"gres/\w{2,12} count (?:reported lower than configured|too low|changed)",),
        examples=("Reason=gres/gpu count reported lower than configured (7 < 8) [slurm@2025-06]",
            "Slurm holds node g07 back (IDLE+DRAIN): gres/gpu count reported lower than "
            "configured"),
        why="The node reports fewer GPUs than slurm.conf gives it, and Slurm drains it: a GPU "
            "is lost, the driver was not up when slurmd started, MIG changed, or gres.conf is "
            "wrong.",
        fix="On the node, compare nvidia-smi -L, lspci -d 10de: and slurmd -G (gres.conf). A "
            "GPU that nvidia-smi lacks: read the kernel log for Xid and NVRM lines, reboot, "
            "then replace it. If all are there, restart slurmd. Then: scontrol update "
            "nodename=NODE state=resume.",
        commands=("nvidia-smi -L; lspci -d 10de:; sudo slurmd -G",
            *KERNEL_LOG),
        owner=Owner.MACHINE, retry="node"),
    Cause(id="slurm-node-held-back",
        messages=(r"Slurm holds node \S{1,80} back",),
        examples=("Slurm holds node g07 back (IDLE+DRAIN): Kill task failed",),
        why="Slurm starts no job on a node that is drained, down or does not respond; the "
            "reason is what its administrators or a health check wrote.",
        fix="Leave the node out (--exclude=NODE) or ask the administrators, with its reason. "
            "They return it with scontrol update nodename=NODE state=resume once the reason is "
            "gone.",
        commands=("scontrol show node NODE",
            "sinfo -R"),
        owner=Owner.MACHINE, role="warning"),
    Cause(id="gpu-of-virtual-machine",
        messages=(r"\d{1,3} of \d{1,3} GPUs? (?:is|are) bound to vfio-pci",),
        examples=("2 of 2 GPUs are bound to vfio-pci, which hands them to virtual machines",),
        why="A GPU that vfio-pci holds belongs to a virtual machine: NVIDIA's driver on this "
            "system does not see it.",
        fix="Train inside the virtual machine, or give the GPU back: stop the machine that has "
            "it, remove its id from vfio-pci's options (/etc/modprobe.d, vfio-pci.ids= in "
            "/proc/cmdline), rebuild the initramfs and reboot.",
        commands=("lspci -nnk -d 10de:",
            "grep -rn vfio /etc/modprobe.d; cat /proc/cmdline"),
        owner=Owner.MACHINE),
    Cause(id="mps-not-reachable",
        messages=(r"MPS client failed to connect|CUDA_ERROR_MPS_\w{4,40}|cudaErrorMps\w{4,40}",
            "MPS server is not ready|Error 80[5-9]: MPS"),
        examples=("Error 805: MPS client failed to connect to the MPS control daemon or the MPS "
            "server.",
            "CUDA error: the MPS server is not ready to accept new MPS client requests"),
        why="CUDA asks the Multi-Process Service for the GPU, and its daemon does not answer: "
            "it ended, it runs for another user, or the container does not share its pipe "
            "directory.",
        fix="Without MPS: end the daemon (echo quit | nvidia-cuda-mps-control), delete a stale "
            "/tmp/nvidia-mps, unset CUDA_MPS_PIPE_DIRECTORY, and set the compute mode to "
            "default. With MPS: start the daemon as root, and the container with --ipc=host, -v "
            "/tmp/nvidia-mps:/tmp/nvidia-mps and the same CUDA_MPS_PIPE_DIRECTORY.",
        commands=("ps -ef | grep mps; ls -la /tmp/nvidia-mps",
            'echo "$CUDA_MPS_PIPE_DIRECTORY"; nvidia-smi -q -d COMPUTE'),
        owner=Owner.ENVIRONMENT),
    Cause(id="confidential-gpu-not-ready",
        messages=("Confidential Compute GPUs? [Rr]eady state: not[- ]ready",),
        examples=("Confidential Compute GPUs Ready state: not-ready",),
        why="In confidential-computing mode a GPU accepts no work (CUDA error 802) until the "
            "guest declares it ready, after its attestation.",
        fix="Attest the GPU, then set it ready as root inside the virtual machine, after each "
            "boot: sudo nvidia-smi conf-compute -srs 1. If it stays not ready, the attestation "
            "or nvidia-persistenced (--uvm-persistence-mode) failed.",
        commands=("sudo nvidia-smi conf-compute -srs 1",
            "nvidia-smi conf-compute -grs"),
        owner=Owner.ENVIRONMENT, sources=("nvtrust-37",)),
)  # fmt: skip
