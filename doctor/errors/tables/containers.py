"""Containers, Kubernetes and Slurm: what ends a job before Python starts."""

from __future__ import annotations

from doctor._util.owner import Owner
from doctor.errors.cause import Cause, Wording

ROWS = (
    Cause(id="container-without-gpu-runtime",
        wordings=(
            Wording("nvidia-container-cli: .{0,60}version mismatch",
                "nvidia-container-cli: initialization error: nvml error: driver/library version "
                "mismatch: unknown",
                "The host's driver was upgraded under the running kernel module, so that no new "
                "container gets a GPU.",
                "Reboot the host once running jobs have ended (or unload and load the nvidia "
                "modules while nothing uses them), and hold the driver's packages out of "
                "automatic upgrades.",
                ("nvidia-smi",
                    "cat /proc/driver/nvidia/version")),
            Wording("unresolvable CDI devices|failed to inject CDI devices",
                "failed to inject CDI devices: unresolvable CDI devices nvidia.com/gpu=all",
                "The container engine asks for GPUs by CDI, and no specification names them.",
                "Write it: sudo nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml, again "
                "after each upgrade of the driver; nvidia-ctk cdi list shows the names.",
                ("sudo nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml",
                    "nvidia-ctk cdi list")),
            Wording(r"bpf_prog_query\(BPF_CGROUP_DEVICE\)|failed to add device rules",
                "nvidia-container-cli: mount error: failed to add device rules: unable to find "
                "any existing device filters attached to the cgroup: "
                "bpf_prog_query(BPF_CGROUP_DEVICE) failed: operation not permitted",
                "A rootless engine may not write the device rules of the control group.",
                "Set no-cgroups = true in the toolkit's config.toml for rootless engines (false "
                "for those of root), or use CDI.",
                ("sudo nvidia-ctk config --set nvidia-container-cli.no-cgroups --in-place",)),
            Wording("mount error: file creation failed.{0,200}(?:libnvidia|libcuda).{0,60}file "
                "exists",
                "nvidia-container-cli: mount error: file creation failed: "
                "/var/lib/docker/overlay2/x/merged/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1: "
                "file exists",
                "The image holds files of the driver, which the runtime mounts from the host: "
                "it was committed from a container in WSL, or a driver was installed in it.",
                "Remove them in the Dockerfile: rm -f /usr/lib/x86_64-linux-gnu/libcuda.so* "
                "/usr/lib/x86_64-linux-gnu/libnvidia-*.so*, and install no nvidia-driver there.",
                owner=Owner.ENVIRONMENT),
            Wording(r"NVIDIA_DRIVER_CAPABILITIES=['\"]?(?!\S{0,40}(?:compute|all))[a-z]{4}",
                "NVIDIA_DRIVER_CAPABILITIES=utility",
                "The container gets the driver's tools and not libcuda: nvidia-smi works there, "
                "with N/A for the CUDA version, and CUDA does not.",
                "Start the container with NVIDIA_DRIVER_CAPABILITIES=compute,utility (or all), "
                "in the image's ENV, docker run -e or the pod.",
                ("ldconfig -p | grep libcuda",
                    "env | grep NVIDIA_"),
                owner=Owner.ENVIRONMENT),
            Wording(r"This container was built for NVIDIA Driver Release [\d.]{3,12} or later",
                "ERROR: This container was built for NVIDIA Driver Release 570.00 or later, but "
                "version 535.129.03 was detected and compatibility mode is UNAVAILABLE.",
                "The image's CUDA needs a newer driver than the host has.",
                "Upgrade the host's driver to the release in the line, or take an older tag of "
                "the image; rented, take a machine with a newer driver.",
                ("nvidia-smi",)),
            Wording("unsatisfied condition: (?:cuda|driver)",
                "nvidia-container-cli: requirement error: unsatisfied condition: cuda>=12.4, "
                "please update your driver to a newer version, or use an earlier cuda container",
                "The image demands a driver for its CUDA version, and the host's is older.",
                "Upgrade the host's driver, or take an image of a CUDA version that nvidia-smi "
                "of the host lists; NVIDIA_DISABLE_REQUIRE=1 starts it all the same, and it "
                "works only within the same major version of CUDA.",
                ("nvidia-smi",)),
            Wording(r"Incompatible (?:strategy|platform) detected|did you configure the NVIDIA "
                r"Container Toolkit|No devices found\. Waiting indefinitely|Detected non-NVML "
                r'platform|no runtime for \"?nvidia\"? is configured',
                "E0326 factory.go:112] Incompatible strategy detected auto",
                "The device plugin's container sees no GPU, so the node offers none: the node's "
                "container engine does not use NVIDIA's runtime.",
                "On the node: sudo nvidia-ctk runtime configure --runtime=containerd "
                "--set-as-default (crio, docker: their names), restart the engine, and restart "
                "the plugin's pod; or create a RuntimeClass nvidia and set runtimeClassName: "
                "nvidia for the plugin and the pods.",
                ("sudo nvidia-ctk runtime configure --runtime=containerd --set-as-default",
                    "sudo systemctl restart containerd",
                    "kubectl -n kube-system rollout restart ds nvidia-device-plugin-daemonset"),
                more=("If this is a GPU node, did you configure the NVIDIA Container Toolkit?",
                    "I0326 main.go:381] No devices found. Waiting indefinitely.",
                    "Detected non-NVML platform: could not load NVML library: libnvidia-ml.so.1",
                    'Failed to create pod sandbox: no runtime for "nvidia" is configured')),
            Wording(r"The NVIDIA Driver was not detected|Failed to detect NVIDIA driver version|"
                r"Could not find any nv files on this host|No supported GPU\(s\) detected to "
                r"run this container",
                "WARNING: The NVIDIA Driver was not detected.  GPU functionality will not be "
                "there.",
                "The container was started without the host's GPUs, or the host has no driver "
                "that this image supports.",
                "Start it with the GPUs: docker run --gpus all, apptainer --nv, podman --device "
                "nvidia.com/gpu=all. If it was, look at nvidia-smi on the host.",
                ("nvidia-smi",
                    "docker run --rm --gpus all ubuntu nvidia-smi"),
                owner=Owner.ENVIRONMENT,
                more=("INFO:    Could not find any nv files on this host!",
                    "ERROR: No supported GPU(s) detected to run this container")),
            Wording(r"exec: ..?nvidia-smi..?: executable file not found",
                'error during container init: exec: "nvidia-smi": executable file not found in '
                "$PATH: unknown",
                "Images have no nvidia-smi: NVIDIA's runtime mounts it from the host, and this "
                "container was started without that runtime.",
                "Start it with the GPUs: docker run --gpus all; in Kubernetes a limit "
                "nvidia.com/gpu: 1 and, where nvidia is not the default runtime, "
                "runtimeClassName: nvidia. If it was, configure the toolkit on the node: sudo "
                "nvidia-ctk runtime configure --runtime=containerd (docker: its name), then "
                "restart the engine.",
                ("sudo nvidia-ctk runtime configure --runtime=containerd",
                    "sudo systemctl restart containerd")),
            Wording(r"could not select device driver|unknown or invalid runtime name: nvidia|"
                r"nvidia-container-runtime\S{0,40}: executable file not found|"
                r"nvidia-container-cli: (?:initialization|mount|detection|ldcache|device) error",
                'docker: Error response from daemon: could not select device driver "" with '
                "capabilities: [[gpu]].",
                "Docker cannot give the container a GPU: the NVIDIA container toolkit is not "
                "installed or not configured, Docker was not restarted afterwards, or the "
                "host's driver does not work.",
                "On the host: check nvidia-smi, install nvidia-container-toolkit, then sudo "
                "nvidia-ctk runtime configure --runtime=docker and sudo systemctl restart "
                "docker. A driver that was upgraded without a restart gives the same error: "
                "restart the host. Docker Desktop and the snap package of Docker are other "
                "cases: use the distribution's docker.",
                ("nvidia-smi",
                    "sudo nvidia-ctk runtime configure --runtime=docker",
                    "sudo systemctl restart docker",
                    "docker run --rm --gpus all ubuntu nvidia-smi"),
                more=("docker: Error response from daemon: unknown or invalid runtime name: "
                    "nvidia.",
                    "nvidia-container-cli: initialization error: driver error: failed to "
                    "process request"))),
        why="Docker cannot give the container a GPU: the NVIDIA container toolkit is not "
            "installed or not configured, Docker was not restarted afterwards, or the host's "
            "driver does not work.",
        yields_to=("container-started-without-gpus",),
        sources=("dcgm-exporter-33", "nvidia-docker-1034"), owner=Owner.MACHINE),
    Cause(id="pod-not-scheduled",
        messages=(r"Insufficient (?:nvidia\.com/gpu|amd\.com/gpu|memory|cpu|ephemeral-storage)",
            "FailedScheduling|had untolerated taint"),
        examples=("0/5 nodes are available: 5 Insufficient nvidia.com/gpu.",
            "0/1 nodes are available: 1 node(s) had untolerated taint {nvidia.com/gpu: present}",
            "Warning  FailedScheduling  2m  default-scheduler"),
        why="No node has what the pod requests free: GPUs, memory, CPU or disk; or a taint, a "
            "selector or a volume keeps it away; or the device plugin of a node does not report "
            "its GPUs.",
        fix="Compare the request with what is free; end leftover pods, request fewer GPUs per "
            "pod, give the pod a toleration of the GPU nodes' taint. If a GPU node reports 0 "
            "nvidia.com/gpu, look at the device plugin's pod there.",
        commands=("kubectl describe pod POD",
            r"kubectl get nodes -o "
            r"custom-columns=NAME:.metadata.name,GPU:.status.allocatable.nvidia\\.com/gpu"),
        yields_to=("container-without-gpu-runtime", "gpus-not-allocatable"), owner=Owner.MACHINE),
    Cause(id="directory-shared-by-ranks",
        errors=("OSError", "FileNotFoundError"),
        refines=("file-missing",),
        wordings=(
            Wording(r"FileExistsError: \[Errno 17\] File exists: ['\"]/?(?:\d{3,8}_\w{3,30}|"
                r"psm_\w{1,20}|torch_\d\w{0,30}|wnsm_\w{1,20})['\"]",
                "FileExistsError: [Errno 17] File exists: '/000010_locals'",
                "A block of shared memory of that name is in /dev/shm already: it is left over "
                "from a run that was interrupted or killed, or belongs to another one on this "
                "host.",
                "End what is left of the earlier run, then remove its blocks before the start: "
                "streaming.base.util.clean_stale_shared_memory() on one rank for "
                "mosaicml-streaming, else the files in /dev/shm that no process uses (lsof "
                "/dev/shm). Do not share one /dev/shm between two jobs that use the same names.",
                ("ls -la /dev/shm",
                    "lsof +D /dev/shm")),
            Wording(r"FileExistsError: \[Errno 17\] File exists",
                "FileExistsError: [Errno 17] File exists: 'out/run1'",
                "The path is there already: from an earlier run, or because another rank made "
                "it between the test and the call.",
                "Pass exist_ok=True to os.makedirs, make directories on rank 0 alone with a "
                "barrier after it, or name a new output directory.",
                ("ls -la out",)),
            Wording(r"\[Errno 39\] Directory not empty",
                "OSError: [Errno 39] Directory not empty: 'out/checkpoint-500'",
                "An old checkpoint is deleted while another process holds a file of it open "
                "(NFS keeps .nfs files), or several ranks delete at once.",
                "Let one process per shared directory delete (save_on_each_node=False), upgrade "
                "transformers and accelerate, or keep old checkpoints (save_total_limit=None) "
                "and delete them after the run.",
                ("ls -a out/checkpoint-500",)),
            Wording(r"tmp-checkpoint-\d{1,12}",
                "FileNotFoundError: [Errno 2] No such file or directory: "
                "'out/tmp-checkpoint-500' -> 'out/checkpoint-500'",
                "In transformers 4.36 and 4.37 every node renames the same checkpoint on a "
                "shared file system, and the second finds it gone.",
                "Upgrade transformers (newer ones write in place), or set "
                "save_on_each_node=False with one shared directory. The checkpoint of the first "
                "node is whole.",
                ("python -m pip show transformers",)),
            Wording(r"No such file or directory: '[^'\n]{0,300}(?:\.triton/cache/|\.tmp\.pid_\d|"
                r"(?:torchinductor|torch_extensions/|torch_compile_cache|unsloth_compiled)"
                r"[^'\n]{0,200}(?:\.tmp\b|' -> '))",
                "FileNotFoundError: [Errno 2] No such file or directory: "
                "'/home/u/.triton/cache/3QFZ7K/__triton_launcher.so.tmp.pid_41222_88121' -> "
                "'/home/u/.triton/cache/3QFZ7K/__triton_launcher.so'",
                "Several processes write compiled kernels into one cache directory, mostly on a "
                "home that all nodes share: one moved or deleted the file of another.",
                "Give each node, best each job, a cache on its own disk: "
                "TRITON_CACHE_DIR=/tmp/triton-$USER-$SLURM_JOB_ID, and TORCHINDUCTOR_CACHE_DIR "
                "and TORCH_EXTENSIONS_DIR alike; or compile once with one process.",
                ("export TRITON_CACHE_DIR=/tmp/triton-$USER",)),
            Wording(r"No such file or directory: '[^'\n]{0,300}(?:_indices/|GPTDataset|"
                r"_(?:document|sample|shuffle|doc)_(?:index|idx)|_indexmap_)",
                "FileNotFoundError: [Errno 2] No such file or directory: "
                "'/data/cache/GPTDataset_indices/fa73-GPTDataset-train-document_index.npy'",
                "Megatron builds the index files of a dataset on global rank 0 alone, and this "
                "node does not see the disk that they were written to.",
                "Put the data, or --data-cache-path, on a file system that all nodes share, or "
                "build the cache once and copy it to the same path of every node.",
                ("df -h PATH",))),
        why="Several processes use one directory, each as if it were alone or shared by all.",
        owner=Owner.ENVIRONMENT),
    Cause(id="pod-evicted",
        refines=("scheduler-ended",),
        messages=("The node was low on resource|Need to kill Pod|Pod ephemeral local storage "
            "usage exceeds",),
        examples=("The node was low on resource: memory.",),
        sources=("kubernetes-eviction",),
        why="Kubernetes evicted the pod because the node ran short of memory or of disk, not "
            "because the training failed: it takes first what uses more than it requested.",
        fix="Request as much memory and ephemeral-storage as the job uses (requests equal to "
            "limits makes a pod the last to be evicted), use fewer loader workers, and write "
            "caches and checkpoints to a volume.",
        commands=("kubectl describe pod POD",
            "kubectl top node"),
        owner=Owner.ENVIRONMENT, retry="again"),
    Cause(id="pod-not-started",
        wordings=(
            Wording(r"MountVolume\.\w{4,12} failed|Unable to attach or mount volumes|"
                r'FailedAttachVolume|persistentvolumeclaim \"[^\"]{1,120}\" not found|unbound '
                r"immediate PersistentVolumeClaims",
                'MountVolume.SetUp failed for volume "data" : mount failed: exit status 32',
                "A volume of the pod does not exist in this namespace, is attached to another "
                "node, or its server does not answer.",
                "kubectl describe pod POD and kubectl get pvc name the volume: create the claim "
                "in the pod's namespace with a storage class that exists; a ReadWriteOnce "
                "volume serves one node, so ranks on several need ReadWriteMany; for NFS test "
                "the mount from that node.",
                ("kubectl describe pod POD",
                    "kubectl get pvc"),
                more=('persistentvolumeclaim "data" not found',)),
            Wording("ErrImagePull|ImagePullBackOff|Back-off pulling image|Failed to pull image|"
                "pull access denied for|manifest unknown|exec format error|reached your "
                "(?:unauthenticated )?pull rate limit|pyxis: (?:container start failed|couldn't "
                "start container|failed to import)",
                "Back-off pulling image",
                "The container's image cannot be pulled (name, tag, credentials), or was built "
                "for another processor (exec format error: arm64 against amd64).",
                "Pull it by hand with the same name; docker login, or an imagePullSecret for "
                "the pod (it also lifts the rate limit); read the lines above for enroot's own "
                "error; build with docker build --platform linux/amd64 (or linux/arm64 for "
                "Grace).",
                ("kubectl describe pod POD",),
                more=("toomanyrequests: You have reached your pull rate limit.",
                    "slurmstepd: error: pyxis: container start failed with error code: 1",
                    "exec /bin/sh: exec format error",
                    "docker: Error response from daemon: pull access denied for org/train, "
                    "repository does not exist or may require 'docker login'"))),
        why="What the pod needs is not there: a volume, or the container's image.",
        owner=Owner.ENVIRONMENT),
)  # fmt: skip
