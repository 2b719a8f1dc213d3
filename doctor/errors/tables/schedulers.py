"""What schedulers and clouds refuse: requests, credentials, machines."""

from __future__ import annotations

from doctor._util.owner import Owner
from doctor.errors.cause import Cause

ROWS = (
    Cause(id="slurm-request-refused",
        messages=("Batch job submission failed|Job submit/allocate failed",
            "Unable to allocate resources|Requested node configuration is not available|Invalid "
            "generic resource",
            r"Memory required by task is not available|Unable to create step for job|More "
            r"processors requested than permitted|QOSMax\w{3,40}|QOSGrp\w{3,40}|"
            r"AssocMax\w{3,40}|AssocGrp\w{3,40}"),
        examples=("sbatch: error: Batch job submission failed: Requested node configuration is "
            "not available",
            "srun: error: Unable to allocate resources: Invalid generic resource (gres) "
            "specification",
            "sbatch: error: QOSMaxSubmitJobPerUserLimit",
            "srun: error: Unable to create step for job 123: More processors requested than "
            "permitted"),
        why="Slurm refuses the request: a partition, GPU type, account, time or memory that "
            "does not exist or is not allowed, or a step that asks for more than its job holds.",
        fix="Compare with what the partition has (sinfo) and with your limits: --gres=gpu:N or "
            "--gpus-per-node=N in the names of sinfo, --mem or --mem-per-gpu below the node's, "
            "--time below the partition's limit; sacctmgr show assoc user=$USER names your "
            "accounts (--account). A step inside a job needs no more tasks and "
            "cores than the job; srun --overlap shares them.",
        commands=('sinfo -o "%P %G %m %c %l"',
            "scontrol show job JOBID"),
        owner=Owner.ENVIRONMENT),
    Cause(id="cloud-has-no-machine",
        messages=("InsufficientInstanceCapacity|Insufficient(?:Reserved)?CapacityError|"
            "do not have sufficient .{1,60}capacity|ZONE_RESOURCE_POOL_EXHAUSTED|"
            "does not have enough resources available to fulfill|OverconstrainedAllocationRequest|"
            "VcpuLimitExceeded|account-level service limit|ResourceLimitExceeded|"
            r"[Qq]uota '?[\w.-]{3,60}'? exceeded",),
        examples=("InsufficientInstanceCapacity: We currently do not have sufficient p5.48xlarge "
            "capacity in the Availability Zone you requested.",
            "ResourceLimitExceeded: The account-level service limit 'ml.p4d.24xlarge for training "
            "job usage' is 0 Instances",
            "Quota 'GPUS_ALL_REGIONS' exceeded. Limit: 0.0 globally."),
        why="The provider gives no machine: it has none free of that type in that zone "
            "(capacity), or the account may not have as many (quota, service limit). The training "
            "has not begun.",
        fix="Capacity: another zone, region or GPU type, spot and on-demand in turn, a reservation "
            "(capacity blocks), or try again later. Quota or service limit: ask for more in the "
            "provider's console (AWS Service Quotas, GCP IAM quotas; days, not minutes), for the "
            "exact type and for training jobs or spot apart.",
        owner=Owner.MACHINE, retry="again"),
    Cause(id="mpi-without-pmi",
        messages=("OMPI was not built with SLURM's PMI|PMI support and therefore cannot|"
            "PMI2?_Init failed|PMIX ERROR: (?:UNREACHABLE|ERROR) in file",),
        examples=("but OMPI was not built with SLURM's PMI support and therefore cannot",
            "PMI2_Init failed to intialize.  Return code: 14"),
        sources=("slurm-mpi",),
        why="srun starts the processes, and the MPI library of the program does not speak the "
            "protocol in which Slurm tells each its rank.",
        fix="See srun --mpi=list and choose what the library was built for (srun --mpi=pmix, or "
            "pmi2), load the cluster's own MPI module, or start with mpirun within the "
            "allocation. A training that only needs NCCL needs no MPI: one srun task per node "
            "with torchrun, and neither mpi4py nor DeepSpeed's MPI discovery.",
        commands=("srun --mpi=list",), owner=Owner.ENVIRONMENT),
    Cause(id="slurm-credential-refused",
        messages=("Job credential (?:expired|revoked|replayed)|Invalid job credential|Munge "
            "(?:en|de)code failed|Protocol authentication error",),
        examples=("srun: error: Task launch for 36.0 failed on node cn131: Job credential "
            "expired",
            "slurmstepd: error: Munge decode failed: Expired credential"),
        sources=("c3nl-cluster-18",),
        why="A node refuses Slurm's credential: its clock differs from the controller's, its "
            "munge key is another one, or the launch took longer than the credential lasts.",
        fix="Compare the clocks (chronyc tracking on that node) and ask the administrators to "
            "correct time or munge there; leave the node out meanwhile: --exclude=NODE.",
        commands=("srun --nodelist=NODE date; date",
            "munge -n | ssh NODE unmunge"),
        owner=Owner.MACHINE, retry="node"),
)  # fmt: skip
