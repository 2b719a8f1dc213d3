"""What is installed and does not agree: requirements of torch, wheels for another torch, toolkits.

`doctor.pasted.requirements` writes these lines of what pip, uv, nvcc and lists of packages print.
"""

from __future__ import annotations

from doctor._util.owner import Owner
from doctor.errors.cause import Cause, Wording

CHECK = ("python -m pip check", "python -m pip list | grep -iE 'torch|nvidia|triton'")

ROWS = (
    Cause(
        id="requirement-of-torch-broken",
        messages=(r"needs \S{2,40} .{1,90}, and \S{1,40} is installed",),
        examples=("torch needs nvidia-nccl-cu12 ==2.27.3, and 2.21.5 is installed",),
        why="Another package replaced it: torch is built with this version of its libraries, and "
        "what is compiled for torch with one release of it, so that symbols are missing or calls "
        "differ.",
        fix="Install what is named in the version that is needed, python -m pip install "
        "'NAME==VERSION', or torch again with --force-reinstall (torchvision, torchaudio, vllm and "
        "xformers in the releases for it, in one command), and keep the package that replaced it "
        "in an environment of its own.",
        owner=Owner.ENVIRONMENT,
        commands=CHECK,
        next_check="TOR004",
    ),
    Cause(
        id="requirement-of-torch-differs",
        messages=(r"needs \S{2,40} .{1,90}, and \S{1,40} is installed",),
        examples=("torch needs triton ==3.2.0, and 3.4.0 is installed",),
        told_by="Nothing in the text has failed.",
        why="torch pins the libraries that it is built with, and what is compiled for torch pins "
        "torch. A newer library of the same major version often works all the same; an older one, "
        "another triton or another torch does not.",
        fix="Install what is named in the version that is needed, python -m pip install "
        "'NAME==VERSION', or torch and what is compiled for it in one command; unless somebody "
        "chose the other version on purpose.",
        owner=Owner.ENVIRONMENT,
        role="warning",
        commands=CHECK,
        next_check="TOR004",
    ),
    Cause(id="wheel-for-other-torch", sources=("flash-attention-1832",),
        messages=(r"is a wheel for torch \d\.\d{1,2}, and torch \d\.\d{1,2} is installed",),
        examples=("flash_attn is a wheel for torch 2.6, and torch 2.8 is installed",),
        why="Code that is compiled against torch runs with that release alone: with another one "
            "symbols are undefined, or it crashes.",
        fix="Install the wheel of the package that names the installed torch, its CUDA, its "
            "cxx11abi (the command prints it) and this Python (cp311 is 3.11), a newer release "
            "of the package if there is none, or build it: pip install --no-build-isolation "
            "--no-cache-dir PACKAGE. Or go back to the torch that the wheel names.",
        commands=('python -c "import torch; print(torch.__version__, torch.version.cuda, '
            'torch.compiled_with_cxx11_abi())"',),
        owner=Owner.ENVIRONMENT, next_check="TOR004"),
    Cause(id="wheel-for-other-torch-listed",
        messages=(r"is a wheel for torch \d\.\d{1,2}, and torch \d\.\d{1,2} is installed",),
        examples=("flash_attn is a wheel for torch 2.6, and torch 2.8 is installed",),
        told_by="Nothing in the text has failed to load.",
        why="Code that is compiled against torch is promised to run with that release alone. With "
            "the next one some of it loads and runs, and then nothing is wrong.",
        fix="Leave that wheel while its import works and results are right. If it fails to import "
            "or the process ends in it, install the wheel that names the installed torch.",
        owner=Owner.ENVIRONMENT, role="warning", next_check="TOR004"),
    Cause(id="nccl-packages-listed",
        messages=(r"nvidia-nccl-cu\d\d is listed beside the NCCL that is loaded",),
        examples=("nvidia-nccl-cu11 is listed beside the NCCL that is loaded, 2.20.5",),
        why="The packages of NCCL for different CUDA versions write the same file. The text shows "
            "that torch's own is the one that is loaded.",
        fix="Leave NCCL while it works. Later uninstall the other one and then reinstall torch's "
            " own with --force-reinstall --no-deps, because uninstalling removes the file.",
        owner=Owner.ENVIRONMENT, role="warning", next_check="TOR004"),
    Cause(id="cpu-build-listed",
        messages=(r"is built for the CPU only, and the list says that it has no GPU",),
        examples=("torch 2.9.0+cpu is built for the CPU only, and the list says that it has no GPU "
            "to use",),
        why="Whether the machine has a GPU is not in the text. If it has, this build does not use "
            "it; PyPI's builds for Windows are of this kind.",
        fix="If the machine has an NVIDIA GPU, install a CUDA build in its place: python -m pip "
            "install --force-reinstall torch --index-url https://download.pytorch.org/whl/cu126 "
            "(cu128 or newer for RTX 50, B200 and GB10), torchvision and torchaudio in the same "
            "command if they are there. If it has none, nothing is wrong.",
        owner=Owner.ENVIRONMENT, role="warning", next_check="TOR002"),
    Cause(id="cuda-not-available-listed",
        messages=(r"is built for CUDA \d\d\.\d, and the list says that it has no GPU",),
        examples=("torch 2.3.1+cu121 is built for CUDA 12.1, and the list says that it has no GPU "
            "to use",),
        why="The list was made where torch.cuda.is_available() is False: on a machine or in a "
            "container without GPUs, as on a login node, or where the driver does not respond or "
            "is too old.",
        fix="Run both commands where the training runs: nvidia-smi; python -c 'import "
            "torch; torch.zeros(1).cuda()'. If nvidia-smi lists GPUs, the message of the other one "
            "says why torch does not use them; if it lists none, start the job or the container "
            "with GPUs.",
        owner=Owner.ENVIRONMENT, role="warning", next_check="GPU001"),
    Cause(id="wsl1-listed",
        messages=(r"runs in WSL1, and the list says that it has no GPU",),
        examples=("torch 1.12.1+cu116 runs in WSL1, and the list says that it has no GPU to use",),
        why="The kernel is that of WSL 1, which has no access to the GPU. WSL 2 has.",
        fix="In Windows: wsl -l -v lists the distributions, and wsl --set-version NAME 2 converts "
            "the one with that name. Then nvidia-smi in it must list the GPU; the driver is that "
            "of Windows.",
        sources=("wsl-guide",), owner=Owner.ENVIRONMENT, role="warning", next_check="GPU001"),
    Cause(id="toolkit-of-other-cuda",
        messages=(r"nvcc is of CUDA \d\d\.\d, torch was built with CUDA \d\d\.\d",),
        examples=("nvcc is of CUDA 11.5, torch was built with CUDA 12.1",),
        why="Extensions are compiled by the toolkit that PATH and CUDA_HOME name, and it must "
            "be of torch's major CUDA version; wheels do not need it.",
        fix="Install the toolkit of torch's CUDA (conda install -c nvidia "
            "cuda-toolkit=VERSION, or NVIDIA's package cuda-toolkit-VERSION; VERSION as "
            "torch.version.cuda has it), and set CUDA_HOME and PATH to it. "
            "Remove the distribution's package nvidia-cuda-toolkit, whose /usr/bin/nvcc comes "
            "first, and empty ~/.cache/torch_extensions.",
        commands=("which -a nvcc; nvcc --version",
            'python -c "import torch; print(torch.version.cuda)"',
            "export CUDA_HOME=/usr/local/cuda"),
        sources=("torch-cpp-extension",), owner=Owner.ENVIRONMENT),
    Cause(id="driver-parts-differ",
        messages=(r"the driver's libraries are (?:\d{3}\.|not,)",),
        examples=("the kernel module on the disk is 595.58.03, the driver's libraries are 595.71",),
        why="The kernel module and the driver's libraries are of different releases on the disk: "
            "a restart loads the same module again. The GPU is not at fault.",
        fix="Bring both to one version, then reboot. A package: build the module of the libraries' "
            "version for the running kernel (dkms status; sudo dkms install nvidia/VERSION), or "
            "reinstall the packages of module, firmware and libraries together, and rebuild the "
            "initramfs. A .run installer beside a module of your own: take the installer of "
            "exactly the module's version. A system that is one image, or a package whose module "
            "is of another version than its name: go back to the release before it.",
        commands=("modinfo -F version nvidia; cat /proc/driver/nvidia/version",
            "ldconfig -p | grep libnvidia-ml; dkms status"),
        wordings=(
            Wording(r"module that is loaded is \d",
                "the module that is loaded is 470.103.01, the driver's libraries are 470.63.01 as "
                    "on the disk",
                "The start of the system loads a kernel module of another release than the one on "
                    "the disk, which is left in the initramfs or in another directory of modules.",
                "Rebuild the initramfs with the module on the disk, then reboot: sudo "
                    "update-initramfs -u -k all (Debian, Ubuntu), or sudo dracut --regenerate-all "
                    "--force (RHEL, Fedora, SUSE).",
                commands=("cat /proc/driver/nvidia/version; modinfo -F version nvidia",),
                sources=("nvidia-driver-g06-25",)),
        ),
        sources=("driver-mismatch",), owner=Owner.ENVIRONMENT, next_check="DRV001"),
    Cause(id="torchvision-code-missing",
        messages=(r"and torchvision \S{1,30} are of one release, and its compiled part",),
        examples=("torch 2.9.0+cpu and torchvision 0.24.0 are of one release, and its compiled "
            "part did not load",),
        wordings=(
            Wording("compiled part did not load in torch.hub",
                "torch 2.7.1 and torchvision 0.22.1 are of one release, and its compiled part did "
                    "not load in torch.hub",
                "torch.hub imports the sources of pytorch/vision, which have no compiled part, in "
                    "place of the installed torchvision.",
                "Take the model from the installed package, as torchvision.models.resnet50(weights="
                    "'DEFAULT'), instead of torch.hub. Both packages fit each other."),
        ),
        why="The releases belong together, so the compiled part of torchvision is of another build "
            "(+cpu beside PyPI's own), or Python imports its sources, as torch.hub does with "
            "pytorch/vision, instead of the installed package.",
        fix="Install torch and torchvision again in one command from one index, which gives both "
            "the same suffix (+cpu, +cu128). If both have it, print torchvision.__file__: it has "
            "to be in site-packages, not in a hub cache or a clone in the current directory.",
        commands=('python -c "import torch; print(torch.__version__)"; python -m pip show '
            'torchvision',),
        owner=Owner.ENVIRONMENT, next_check="TOR004"),
)  # fmt: skip
