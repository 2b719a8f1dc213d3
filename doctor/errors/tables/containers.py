"""Containers, Kubernetes and Slurm: what ends a job before Python starts."""

from __future__ import annotations

from doctor._util.owner import Owner
from doctor.errors.cause import Cause, Wording

ROWS = (
    Cause(
        id="container-without-gpu-runtime",
        messages=(
            r"could not select device driver",
            r"unknown or invalid runtime name: nvidia|nvidia-container-runtime\S{0,40}: "
            r"executable file not found",
            r"nvidia-container-cli: (?:initialization|mount|detection|ldcache|device) error",
        ),
        examples=(
            'docker: Error response from daemon: could not select device driver "" with '
            "capabilities: [[gpu]].",
            "docker: Error response from daemon: unknown or invalid runtime name: nvidia.",
            "nvidia-container-cli: initialization error: driver error: failed to process request",
        ),
        wordings=(
            Wording(
                r"nvidia-container-cli: .{0,60}version mismatch",
                "nvidia-container-cli: initialization error: nvml error: driver/library version "
                "mismatch: unknown",
                "The host's driver was upgraded under the running kernel module, so that no new "
                "container gets a GPU.",
                "Reboot the host once running jobs have ended (or unload and load the nvidia "
                "modules while nothing uses them), and hold the driver's packages out of automatic "
                "upgrades.",
                ("nvidia-smi", "cat /proc/driver/nvidia/version"),
            ),
        ),
        why="Docker cannot give the container a GPU: the NVIDIA container toolkit is not "
        "installed or not configured, Docker was not restarted afterwards, or the host's driver "
        "does not work.",
        fix="On the host: check nvidia-smi, install nvidia-container-toolkit, then sudo nvidia-ctk "
        "runtime configure --runtime=docker and sudo systemctl restart docker. A driver that was "
        "upgraded without a restart gives the same error: restart the host. Docker Desktop and the "
        "snap package of Docker are other cases: use the distribution's docker.",
        owner=Owner.MACHINE,
        commands=(
            "nvidia-smi",
            "sudo nvidia-ctk runtime configure --runtime=docker",
            "sudo systemctl restart docker",
            "docker run --rm --gpus all ubuntu nvidia-smi",
        ),
        next_check="DRV001",
        sources=("dcgm-exporter-33", "nvidia-docker-1034"),
    ),
    Cause(
        id="image-needs-newer-driver",
        messages=(r"unsatisfied condition: (?:cuda|driver)",),
        examples=(
            "nvidia-container-cli: requirement error: unsatisfied condition: cuda>=12.4, please "
            "update your driver to a newer version, or use an earlier cuda container",
        ),
        wordings=(
            Wording(
                r"This container was built for NVIDIA Driver Release [\d.]{3,12} or later",
                "ERROR: This container was built for NVIDIA Driver Release 570.00 or later, but "
                "version 535.129.03 was detected and compatibility mode is UNAVAILABLE.",
                "The image's CUDA needs a newer driver than the host has.",
                "Upgrade the host's driver to the release in the line, or take an older tag of "
                "the image; rented, take a machine with a newer driver.",
            ),
        ),
        why="The image demands a driver for its CUDA version, and the host's is older.",
        fix="Upgrade the host's driver, or take an image of a CUDA version that nvidia-smi of the "
        "host lists; NVIDIA_DISABLE_REQUIRE=1 starts it all the same, and it works only within "
        "the same major version of CUDA.",
        owner=Owner.MACHINE,
        commands=("nvidia-smi",),
        next_check="DRV002",
    ),
    Cause(
        id="pod-not-scheduled",
        yields_to=("device-plugin-without-driver", "gpus-not-allocatable"),
        messages=(
            r"Insufficient (?:nvidia\.com/gpu|amd\.com/gpu|memory|cpu|ephemeral-storage)",
            r"FailedScheduling|had untolerated taint",
        ),
        examples=(
            "0/5 nodes are available: 5 Insufficient nvidia.com/gpu.",
            "0/1 nodes are available: 1 node(s) had untolerated taint {nvidia.com/gpu: present}",
            "Warning  FailedScheduling  2m  default-scheduler",
        ),
        why="No node has what the pod requests free: GPUs, memory, CPU or disk; or a taint, a "
        "selector or a volume keeps it away; or the device plugin of a node does not report its "
        "GPUs.",
        fix="Compare the request with what is free; end leftover pods, request fewer GPUs per "
        "pod, give the pod a toleration of the GPU nodes' taint. If a GPU node reports 0 "
        "nvidia.com/gpu, look at the device plugin's pod there.",
        owner=Owner.MACHINE,
        commands=(
            "kubectl describe pod POD",
            "kubectl get nodes -o "
            "custom-columns=NAME:.metadata.name,GPU:.status.allocatable.nvidia\\\\.com/gpu",
        ),
    ),
    Cause(
        id="slurm-request-refused",
        messages=(
            r"Batch job submission failed",
            r"Unable to allocate resources|Requested node configuration is not available|Invalid "
            r"generic resource",
            r"Memory required by task is not available|Unable to create step for job|More "
            r"processors requested than permitted|"
            r"QOSMax\w{3,40}|QOSGrp\w{3,40}|AssocMax\w{3,40}|AssocGrp\w{3,40}",
        ),
        examples=(
            "sbatch: error: Batch job submission failed: Requested node configuration is not "
            "available",
            "srun: error: Unable to allocate resources: Invalid generic resource (gres) "
            "specification",
            "sbatch: error: QOSMaxSubmitJobPerUserLimit",
            "srun: error: Unable to create step for job 123: More processors requested than "
            "permitted",
        ),
        why="Slurm refuses the request: a partition, GPU type, account, time or memory that does "
        "not exist or is not allowed, or a step that asks for more than its job holds.",
        fix="Compare with what the partition has (sinfo) and with your limits: --gres=gpu:N or "
        "--gpus-per-node=N in the names of sinfo, --mem or --mem-per-gpu below the node's, --time "
        "below the partition's limit. A step inside a job needs no more tasks and cores than the "
        "job; srun --overlap shares them.",
        owner=Owner.ENVIRONMENT,
        commands=('sinfo -o "%P %G %m %c %l"', "scontrol show job JOBID"),
    ),
    Cause(
        id="slurm-credential-refused",
        messages=(
            r"Job credential (?:expired|revoked|replayed)|Invalid job credential|Munge (?:en|"
            r"de)code failed|Protocol authentication error",
        ),
        examples=(
            "srun: error: Task launch for 36.0 failed on node cn131: Job credential expired",
            "slurmstepd: error: Munge decode failed: Expired credential",
        ),
        why="A node refuses Slurm's credential: its clock differs from the controller's, its "
        "munge key is another one, or the launch took longer than the credential lasts.",
        fix="Compare the clocks (chronyc tracking on that node) and ask the administrators to "
        "correct time or munge there; leave the node out meanwhile: --exclude=NODE.",
        owner=Owner.MACHINE,
        commands=("srun --nodelist=NODE date; date", "munge -n | ssh NODE unmunge"),
        retry="node",
    ),
    Cause(
        id="directory-shared-by-ranks",
        refines=("file-missing",),
        errors=("OSError", "FileNotFoundError"),
        wordings=(
            Wording(
                r"FileExistsError: \[Errno 17\] File exists: ['\"]/?(?:\d{3,8}_\w{3,30}|"
                r"psm_\w{1,20}|torch_\d\w{0,30}|wnsm_\w{1,20})['\"]",
                "FileExistsError: [Errno 17] File exists: '/000010_locals'",
                "A block of shared memory of that name is in /dev/shm already: it is left over "
                "from a run that was interrupted or killed, or belongs to another one on this "
                "host.",
                "End what is left of the earlier run, then remove its blocks before the start: "
                "streaming.base.util.clean_stale_shared_memory() on one rank for "
                "mosaicml-streaming, else the files in /dev/shm that no process uses (lsof "
                "/dev/shm). Do not share one /dev/shm between two jobs that use the same names.",
                ("ls -la /dev/shm", "lsof +D /dev/shm"),
            ),
            Wording(
                r"FileExistsError: \[Errno 17\] File exists",
                "FileExistsError: [Errno 17] File exists: 'out/run1'",
                "The path is there already: from an earlier run, or because another rank made it "
                "between the test and the call.",
                "Pass exist_ok=True to os.makedirs, make directories on rank 0 alone with a "
                "barrier after it, or name a new output directory.",
                ("ls -la out",),
            ),
            Wording(
                r"\[Errno 39\] Directory not empty",
                "OSError: [Errno 39] Directory not empty: 'out/checkpoint-500'",
                "An old checkpoint is deleted while another process holds a file of it open "
                "(NFS keeps .nfs files), or several ranks delete at once.",
                "Let one process per shared directory delete (save_on_each_node=False), upgrade "
                "transformers and accelerate, or keep old checkpoints (save_total_limit=None) "
                "and delete them after the run.",
                ("ls -a out/checkpoint-500",),
            ),
            Wording(
                r"tmp-checkpoint-\d{1,12}",
                "FileNotFoundError: [Errno 2] No such file or directory: "
                "'out/tmp-checkpoint-500' -> 'out/checkpoint-500'",
                "In transformers 4.36 and 4.37 every node renames the same checkpoint on a "
                "shared file system, and the second finds it gone.",
                "Upgrade transformers (newer ones write in place), or set save_on_each_node=False "
                "with one shared directory. The checkpoint of the first node is whole.",
                ("python -m pip show transformers",),
            ),
            Wording(
                r"No such file or directory: '[^'\n]{0,300}(?:_indices/|GPTDataset|_(?:document|"
                r"sample|shuffle|doc)_(?:index|idx)|_indexmap_)",
                "FileNotFoundError: [Errno 2] No such file or directory: "
                "'/data/cache/GPTDataset_indices/fa73-GPTDataset-train-document_index.npy'",
                "Megatron builds the index files of a dataset on global rank 0 alone, and this "
                "node does not see the disk that they were written to.",
                "Put the data, or --data-cache-path, on a file system that all nodes share, or "
                "build the cache once and copy it to the same path of every node.",
                ("df -h PATH",),
            ),
        ),
        why="Several processes use one directory, each as if it were alone or shared by all.",
        owner=Owner.ENVIRONMENT,
    ),
    Cause(
        id="file-locked",
        errors=("BlockingIOError", "OSError"),
        messages=(r"[Uu]nable to (?:lock|synchronously open) file|unable to lock file",),
        examples=(
            "BlockingIOError: [Errno 11] Unable to open file (unable to lock file, errno = 11, "
            "error message = 'Resource temporarily unavailable')",
        ),
        why="HDF5 locks a file that is open, and another process writes it, or the file system "
        "has no locks.",
        fix='Open the file in each worker, for reading (h5py.File(path, "r") at the first '
        "__getitem__), close writers, and set HDF5_USE_FILE_LOCKING=FALSE on network file systems.",
        commands=("export HDF5_USE_FILE_LOCKING=FALSE",),
    ),
    Cause(
        id="pod-evicted",
        refines=("scheduler-ended",),
        messages=(
            r"The node was low on resource|Need to kill Pod|Pod ephemeral local storage usage "
            r"exceeds",
        ),
        examples=("The node was low on resource: memory.",),
        why="Kubernetes evicted the pod because the node ran short of memory or of disk, not "
        "because the training failed: it takes first what uses more than it requested.",
        fix="Request as much memory and ephemeral-storage as the job uses (requests equal to "
        "limits makes a pod the last to be evicted), use fewer loader workers, and write caches "
        "and checkpoints to a volume.",
        owner=Owner.ENVIRONMENT,
        retry="again",
        commands=("kubectl describe pod POD", "kubectl top node"),
    ),
    Cause(
        id="pod-not-started",
        wordings=(
            Wording(
                r"MountVolume\.\w{4,12} failed|Unable to attach or mount volumes|"
                r"FailedAttachVolume|persistentvolumeclaim \"[^\"]{1,120}\" not found|unbound "
                r"immediate PersistentVolumeClaims",
                'MountVolume.SetUp failed for volume "data" : mount failed: exit status 32',
                "A volume of the pod does not exist in this namespace, is attached to another "
                "node, or its server does not answer.",
                "kubectl describe pod POD and kubectl get pvc name the volume: create the claim in "
                "the pod's namespace with a storage class that exists; a ReadWriteOnce volume "
                "serves one node, so ranks on several need ReadWriteMany; for NFS test the mount "
                "from that node.",
                commands=("kubectl describe pod POD", "kubectl get pvc"),
                more=('persistentvolumeclaim "data" not found',),
            ),
            Wording(
                r"ErrImagePull|ImagePullBackOff|Back-off pulling image|Failed to pull image|pull "
                r"access denied for|manifest unknown|exec format error|reached your "
                r"(?:unauthenticated )?pull rate limit|pyxis: (?:container start failed|couldn't "
                r"start container|failed to import)",
                "Back-off pulling image",
                "The container's image cannot be pulled (name, tag, credentials), or was built for "
                "another processor (exec format error: arm64 against amd64).",
                "Pull it by hand with the same name; docker login, or an imagePullSecret for the "
                "pod (it also lifts the rate limit); read the lines above for enroot's own error; "
                "build with docker build --platform linux/amd64 (or linux/arm64 for Grace).",
                commands=("kubectl describe pod POD",),
                more=(
                    "toomanyrequests: You have reached your pull rate limit.",
                    "slurmstepd: error: pyxis: container start failed with error code: 1",
                    "exec /bin/sh: exec format error",
                    "docker: Error response from daemon: pull access denied for org/train, "
                    "repository does not exist or may require 'docker login'",
                ),
            ),
        ),
        why="What the pod needs is not there: a volume, or the container's image.",
        owner=Owner.ENVIRONMENT,
    ),
)
