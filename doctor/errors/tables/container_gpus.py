"""Containers and pods that do not get the node's GPUs: engines, runtimes and images."""

from __future__ import annotations

from doctor._util.owner import Owner
from doctor.errors.cause import Cause, Wording

ROWS = (
    Cause(
        id="device-plugin-without-driver",
        messages=(
            r"Incompatible (?:strategy|platform) detected",
            r"did you configure the NVIDIA Container Toolkit",
            r"No devices found\. Waiting indefinitely",
            r"Detected non-NVML platform",
            r"no runtime for \"?nvidia\"? is configured",
        ),
        examples=(
            "E0326 factory.go:112] Incompatible strategy detected auto",
            "If this is a GPU node, did you configure the NVIDIA Container Toolkit?",
            "I0326 main.go:381] No devices found. Waiting indefinitely.",
            "Detected non-NVML platform: could not load NVML library: libnvidia-ml.so.1",
            'Failed to create pod sandbox: no runtime for "nvidia" is configured',
        ),
        why="The device plugin's container sees no GPU, so the node offers none: the node's "
        "container engine does not use NVIDIA's runtime.",
        fix="On the node: sudo nvidia-ctk runtime configure --runtime=containerd --set-as-default "
        "(crio, docker: their names), restart the engine, and restart the plugin's pod; or create "
        "a RuntimeClass nvidia and set runtimeClassName: nvidia for the plugin and the pods.",
        owner=Owner.MACHINE,
        commands=(
            "sudo nvidia-ctk runtime configure --runtime=containerd --set-as-default",
            "sudo systemctl restart containerd",
            "kubectl -n kube-system rollout restart ds nvidia-device-plugin-daemonset",
        ),
    ),
    Cause(
        id="container-refuses-gpus",
        refines=("container-without-gpu-runtime",),
        wordings=(
            Wording(
                r"unresolvable CDI devices|failed to inject CDI devices",
                "failed to inject CDI devices: unresolvable CDI devices nvidia.com/gpu=all",
                "The container engine asks for GPUs by CDI, and no specification names them.",
                "Write it: sudo nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml, again "
                "after each upgrade of the driver; nvidia-ctk cdi list shows the names.",
                (
                    "sudo nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml",
                    "nvidia-ctk cdi list",
                ),
            ),
            Wording(
                r"bpf_prog_query\(BPF_CGROUP_DEVICE\)|failed to add device rules",
                "nvidia-container-cli: mount error: failed to add device rules: unable to find "
                "any existing device filters attached to the cgroup: "
                "bpf_prog_query(BPF_CGROUP_DEVICE) failed: operation not permitted",
                "A rootless engine may not write the device rules of the control group.",
                "Set no-cgroups = true in the toolkit's config.toml for rootless engines (false "
                "for those of root), or use CDI.",
                ("sudo nvidia-ctk config --set nvidia-container-cli.no-cgroups --in-place",),
            ),
            Wording(
                r"mount error: file creation failed.{0,200}(?:libnvidia|libcuda).{0,60}file exists",
                "nvidia-container-cli: mount error: file creation failed: "
                "/var/lib/docker/overlay2/x/merged/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1: "
                "file exists",
                "The image holds files of the driver, which the runtime mounts from the host: "
                "it was committed from a container in WSL, or a driver was installed in it.",
                "Remove them in the Dockerfile: rm -f /usr/lib/x86_64-linux-gnu/libcuda.so* "
                "/usr/lib/x86_64-linux-gnu/libnvidia-*.so*, and install no nvidia-driver there.",
                owner=Owner.ENVIRONMENT,
            ),
        ),
        why="The container toolkit could not put the GPUs into the container: no list of "
        "devices, no rights on cgroups, or driver libraries in the image.",
        owner=Owner.MACHINE,
    ),
    Cause(
        id="container-without-compute",
        messages=(r"NVIDIA_DRIVER_CAPABILITIES=['\"]?(?!\S{0,40}(?:compute|all))[a-z]{4}",),
        examples=("NVIDIA_DRIVER_CAPABILITIES=utility",),
        why="The container gets the driver's tools and not libcuda: nvidia-smi works there, with "
        "N/A for the CUDA version, and CUDA does not.",
        fix="Start the container with NVIDIA_DRIVER_CAPABILITIES=compute,utility (or all), in the "
        "image's ENV, docker run -e or the pod.",
        owner=Owner.ENVIRONMENT,
        commands=("ldconfig -p | grep libcuda", "env | grep NVIDIA_"),
        next_check="DRV001",
    ),
    Cause(
        id="container-without-driver",
        yields_to=("container-started-without-gpus",),
        messages=(
            r"The NVIDIA Driver was not detected|Failed to detect NVIDIA driver version",
            r"Could not find any nv files on this host",
            r"No supported GPU\(s\) detected to run this container",
        ),
        examples=(
            "WARNING: The NVIDIA Driver was not detected.  GPU functionality will not be there.",
            "INFO:    Could not find any nv files on this host!",
            "ERROR: No supported GPU(s) detected to run this container",
        ),
        why="The container was started without the host's GPUs, or the host has no driver that "
        "this image supports.",
        fix="Start it with the GPUs: docker run --gpus all, apptainer --nv, podman --device "
        "nvidia.com/gpu=all. If it was, look at nvidia-smi on the host.",
        owner=Owner.ENVIRONMENT,
        commands=("nvidia-smi", "docker run --rm --gpus all ubuntu nvidia-smi"),
    ),
)
