"""JOB: whether the hardware and software are what [expect] of the job file states."""

from __future__ import annotations

from functools import partial

from doctor.checks import expected_judges as judges
from doctor.hardware.vendors import ON_CUDA
from doctor.judge.check import Check, Owner

_expected = partial(Check, returns=True, required="always", also=("read",))

CHECKS: tuple[Check, ...] = (
    _expected(
        code="JOB001",
        slug="expected-gpu",
        title="Every GPU is the expected model",
        why="GPUs of one family differ in speed and memory (H100 PCIe and SXM, A100 with 40 and "
        "80 GB). Another model raises no error: the training is slower, or runs out of memory "
        "hours later.",
        passes=("the name of every visible GPU matches the pattern",),
        fails=("a visible GPU has another name", "no GPU is visible"),
        fix="Return the machine and keep this report as evidence of what was delivered. If "
        "another GPU is intended, change gpu in [expect] of the job file.",
        limits="that the GPU is genuine: its name comes from the driver.",
        owner=Owner.MACHINE,
        judge=judges.gpu_model,
        targets=ON_CUDA,
        sources=("vast-contract",),
    ),
    _expected(
        code="JOB002",
        slug="expected-gpu-count",
        title="The expected number of GPUs is visible",
        why="A GPU that fell off the bus or was not passed into the container is missing without "
        "an error; a launcher that counts visible GPUs then trains on fewer, with another global "
        "batch size.",
        passes=("at least the expected number of GPUs is visible to the job",),
        fails=("fewer GPUs are visible",),
        fix="Return the machine and keep this report. In a container of your own, pass all GPUs "
        "into it:\ndocker run --gpus all ...",
        limits="that the GPUs can communicate: GPU007 and GPU008 test that.",
        owner=Owner.MACHINE,
        judge=judges.gpu_count,
        targets=ON_CUDA,
        sources=("vast-contract",),
    ),
    _expected(
        code="JOB003",
        slug="expected-gpu-memory",
        title="Every GPU has the expected memory",
        why="One model name is sold with different memory sizes, and a MIG slice reports the name "
        "of the whole GPU with a part of its memory.",
        passes=(
            f"every visible GPU has the size, or at most {judges.GPU_RESERVE:.0%} less: ECC and "
            "firmware keep a part of the nominal size (GB is decimal, GiB binary)",
        ),
        fails=("a visible GPU has less",),
        fix="Return the machine and keep this report. If MIG is on and the machine is yours, use "
        "the whole GPU. If another size is intended, change memory in [expect].",
        owner=Owner.MACHINE,
        judge=judges.gpu_memory,
        targets=ON_CUDA,
        sources=("t4-ecc",),
    ),
    _expected(
        code="JOB004",
        slug="expected-driver",
        title="The driver has the expected version",
        why="A container cannot bring its own kernel driver. Hosts of one provider run different "
        "versions, so an image that worked yesterday can meet an older driver today.",
        passes=("driver in [expect] admits the driver's version",),
        fails=("the driver has another version",),
        fix="Take another host, or upgrade the driver if the host is yours. If this driver is "
        "intended, change driver in [expect].",
        limits="that the driver is free of known bugs.",
        owner=Owner.MACHINE,
        judge=judges.driver_version,
        targets=("nvidia",),
        sources=("vast-docker",),
    ),
    _expected(
        code="JOB005",
        slug="expected-torch",
        title="torch has the expected version",
        why="A rebuilt image, or a requirement that upgraded torch, changes kernels and defaults "
        "under a training that worked.",
        passes=("torch in [expect] admits torch's version without its local part (+cu130)",),
        fails=("torch has another version",),
        fix="Install the torch that the job was written for into the training environment, or "
        "change torch in [expect].",
        owner=Owner.ENVIRONMENT,
        judge=judges.torch_version,
        sources=("ps-U28",),
    ),
    _expected(
        code="JOB006",
        slug="expected-cuda",
        title="torch is built for the expected CUDA",
        why="Extensions compiled for one CUDA fail to load next to a torch built for another, and "
        "the wheel that pip selects by default changes its CUDA with torch's version. nvidia-smi "
        "shows the driver's CUDA, not this one.",
        passes=("cuda in [expect] admits the CUDA of the torch build",),
        fails=("torch is built for another CUDA", "torch is built without CUDA"),
        fix="Install the torch wheel of that CUDA (the index /whl/cuXYZ of download.pytorch.org), "
        "or change cuda in [expect].",
        owner=Owner.ENVIRONMENT,
        judge=judges.cuda_version,
        targets=("nvidia",),
        sources=("ps-U28",),
    ),
    _expected(
        code="JOB007",
        slug="expected-shm",
        title="Shared memory has the expected size",
        why="Data loader workers and NCCL use it. Its size is set when a container starts and "
        "cannot be changed from inside.",
        passes=("shared memory has at least the size",),
        fails=("shared memory is smaller", "there is no shared memory file system"),
        fix="Start the container with --shm-size; in Kubernetes, mount an emptyDir with medium: "
        "Memory at /dev/shm.",
        owner=Owner.ENVIRONMENT,
        judge=judges.shared_memory,
        sources=("pytorch-5040", "vast-contract"),
    ),
    _expected(
        code="JOB008",
        slug="expected-host-memory",
        title="The host has the expected memory",
        why="Loading and saving a checkpoint takes host memory. Above a container's limit the "
        "kernel kills the process, and the only message is 'Killed'.",
        passes=(
            f"the host has the size, or at most {judges.KERNEL_RESERVE:.0%} less, which the kernel "
            "keeps",
            "a cgroup limit below the host's memory has the full size",
        ),
        fails=("the host or the cgroup limit has less",),
        fix="Take another machine. If the host has the memory and the container's limit is yours, "
        "raise the limit.",
        owner=Owner.MACHINE,
        judge=judges.host_memory,
        sources=("ps-U9",),
    ),
    _expected(
        code="JOB009",
        slug="expected-cpus",
        title="The expected number of CPUs is usable",
        why="os.cpu_count shows the host's CPUs; a container's quota and affinity leave fewer, "
        "and a data loader without enough CPUs leaves the GPU idle.",
        passes=("affinity and quota leave at least the expected number",),
        fails=("affinity and quota leave fewer",),
        fix="Take another machine. If the host has the CPUs and the container's quota is yours, "
        "raise the quota.",
        limits="that the CPUs are yours alone: on a shared host others use them too.",
        owner=Owner.MACHINE,
        judge=judges.cpu_count,
        sources=("vast-contract",),
    ),
    _expected(
        code="JOB010",
        slug="expected-disk",
        title="The disks have the expected free space",
        why="A rented disk has a size of its own, which is easy to overlook when ordering and "
        "cannot always be changed afterwards.",
        passes=("every directory of [expect.disk] has at least the size free for this user",),
        fails=("a directory has less free space", "a directory does not exist"),
        fix="Mount the volume at that path, free space on it, or rent a larger one.",
        commands=("df -h",),
        limits="that the space is still free when the job writes.",
        owner=Owner.ENVIRONMENT,
        judge=judges.free_disk,
        sources=("runpod-disk", "vast-contract"),
    ),
)
