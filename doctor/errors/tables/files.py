"""Files, disks and downloads."""

from __future__ import annotations

from doctor._util.owner import Owner
from doctor.errors.cause import Cause, Wording

ROWS = (
    Cause(id="weights-only-load",
        errors=("UnpicklingError",),
        messages=("Weights only load failed",
            r"WeightsUnpickler error: Unsupported (?:global: GLOBAL (?P<global>[\w.]{1,200})|"
            r"\w+)"),
        examples=("_pickle.UnpicklingError: Weights only load failed. This file can still be "
            "loaded, to do so you have two options",
            "\tWeightsUnpickler error: Unsupported global: GLOBAL "
            "numpy.core.multiarray._reconstruct was not an allowed global by default."),
        why="Since torch 2.6 torch.load refuses pickles that name other classes than tensors "
            "and plain containers: often the random state or the optimizer of an older "
            "checkpoint.",
        fix="Examine the file with `doctor scan FILE`. If it is your own or one that you trust, "
            "allow the names that are refused, one after the other, with "
            "torch.serialization.add_safe_globals([...]). A whole pickled model has many: load it "
            "once with weights_only=False and save its state_dict. Or upgrade the framework that "
            "loads it.",
        commands=("doctor scan FILE",),
        title="torch.load accepts the checkpoint",
        sources=("transformers-34631", "transformers-40500", "ms-swift-5808"),
        next_check="CKP001", code="LOG057"),
    Cause(id="disk-full",
        messages=(r"No space left on device(?!\W{1,4}/dev/shm)",
            r"\[Errno 28\](?![^\n]{0,60}/dev/shm)",
            "PytorchStreamWriter failed writing file",
            r"unexpected pos \d+ vs \d+",
            r"inline_container\.cc:\d+\] \. (?:unexpected pos|PytorchStreamWriter)",
            "basic_ios::clear: iostream error|StorageFull"),
        examples=("OSError: [Errno 28] No space left on device",
            "RuntimeError: [Errno 28] writing the file",
            "RuntimeError: [enforce fail at inline_container.cc:603] . unexpected pos 64 vs 0",
            "RuntimeError: PytorchStreamWriter failed writing file data/3: file write failed",
            "RuntimeError: basic_ios::clear: iostream error"),
        wordings=(
            Wording(r"Disk quota exceeded|\[Errno 122\] \w{4}",
                "OSError: [Errno 122] Disk quota exceeded: '/home/a/x'",
                "The quota of the user or the group is used up, in bytes or in files, however "
                "much is free on the disk. df does not show it.",
                "Free space in your quota or name a directory of another one (scratch, project); "
                "keep fewer checkpoints (save_total_limit), and move caches (~/.cache, ~/.triton, "
                "conda's and pip's) out of the home directory.",
                ("quota -s",
                    "du -xsh ~/.[a-z]* ~/* 2>/dev/null | sort -h | tail")),
            Wording("no free inodes|low on resource: inodes",
                "/dev/md0 on /data has no free inodes",
                "The file system has free space and no free inodes: each file needs one, "
                "however small it is.",
                "Delete small files that nothing needs, or pack them (tar shards, parquet, "
                "lmdb), or use another file system: XFS makes inodes as it needs them, ext4 has "
                "the number that mkfs.ext4 -N set.",
                ("df -i .",
                    "sudo du --inodes -xd 2 / 2>/dev/null | sort -n | tail")),),
        why="A file system is full, out of inodes, or over the user's quota: the output "
            "directory, /tmp, the Hugging Face cache, or /dev/shm.",
        fix="Free space or name another directory; keep fewer checkpoints (save_total_limit). "
            "Check df -h and df -i for the path in the message.",
        commands=("df -h . /tmp /dev/shm",
            "df -i ."),
        title="The disks have room", sources=("dolly-139", "mmdetection-12069"),
        owner=Owner.ENVIRONMENT, next_check="DSK001", code="LOG058"),
    Cause(id="checkpoint-damaged",
        messages=("PytorchStreamReader failed",
            "Error while deserializing header|HeaderTooLarge|MetadataIncompleteBuffer|"
            "InvalidHeaderDeserialization",
            "UnpicklingError: invalid load key|EOFError: Ran out of input",
            r"unexpected EOF, expected \d+ more bytes|Unable to load weights from pytorch "
            r"checkpoint|pickle data was truncated"),
        examples=("RuntimeError: PytorchStreamReader failed reading zip archive: failed finding "
            "central directory",
            "safetensors_rust.SafetensorError: Error while deserializing header: HeaderTooLarge",
            "_pickle.UnpicklingError: invalid load key, 'v'.",
            "RuntimeError: unexpected EOF, expected 4096 more bytes. The file might be "
            "corrupted."),
        wordings=(
            Wording("UnpicklingError: invalid load key, '(?:v|<)'|could not parse ModelProto|"
                "version https://git-lfs",
                "_pickle.UnpicklingError: invalid load key, 'v'.",
                "The file begins with v: it is a Git LFS pointer of some hundred bytes in "
                    "place of the weights (with < it is an HTML page): the repository was cloned "
                    "without Git LFS, or over its limit.",
                "Fetch the real file: git lfs install && git lfs pull in the repository, or "
                    "download it by its address (hf download). ls -l shows that it is some "
                    "hundred bytes long.",
                ("ls -l FILE", "head -c 100 FILE", "git lfs install && git lfs pull",),
                more=("version https://git-lfs.github.com/spec/v1",)),
            Wording("Error while deserializing header|HeaderTooLarge|header too "
                "large|MetadataIncompleteBuffer|InvalidHeaderDeserialization|HeaderTooSmall",
                "safetensors_rust.SafetensorError: Error while deserializing header: "
                    "HeaderTooLarge",
                "HeaderTooLarge: usually the file is no safetensors file: a Git LFS pointer, "
                    "an error page, or a pickle with that name. MetadataIncompleteBuffer: it is "
                    "cut off: a broken download, or the disk was full when it was saved. "
                    "InvalidHeaderDeserialization: both, or a sharded training saved it without "
                    "its tensors. A sound file is refused, too, if its header is over 100 MB.",
                "Examine it with doctor scan FILE. A file of about 130 bytes is a pointer of "
                    "Git LFS; a large one with a million tensors is sound: store fewer, larger "
                    "tensors or several files. Fetch it again: git lfs pull, or hf download "
                    "after deleting the file from the cache. If your own training wrote it, free "
                    "the disk (df -h) and save again; under ZeRO-3 and FSDP save through the "
                    "trainer.",
                ("ls -l FILE", "doctor scan FILE", "df -h .",)),
        ),
        why="The file is cut off, is a Git LFS pointer or an error page instead of the weights, "
            "or was written while the disk was full.",
        fix="Examine it with `doctor scan`, download it again (git lfs pull), or resume from an "
            "earlier checkpoint.",
        commands=("doctor scan FILE",),
        title="The checkpoint is complete", sources=("stable-diffusion-93",),
        next_check="CKP001", code="LOG059"),
    Cause(id="file-missing",
        errors=("OSError",),
        messages=(r"(?:FileNotFound|IsADirectory|NotADirectory)Error: (?:\[Errno \d\d?\] )?"
              r"(?P<what>.{0,300})",
            r"does not appear to have a file named (?P<file>\S{1,200})",
            r"Error no file named \S{1,200}",
            r"(?:Error|Exception): Dataset not found\b",
            r"PermissionError: \[Errno 13\]",
            r"can't open file '(?P<script>[^'\n]{1,300})': \[Errno 2\]",
            r"(?:Error|Exception): (?:[^\n:]{0,60} )?(?:[Dd]irectory|[Ff]ile|[Pp]ath|[Ff]older|"
            r"[Cc]heckpoint|[Mm]anifest)\b[^\n]{0,300}?(?:does not exist|doesn't exist|not "
            r"found|is missing|could not be found|cannot be found)",
            r"(?:Error|Exception): [^\n]{1,300} is not a valid (?:directory|folder|path)\b",
            r"\bassert os\.path\.(?:exists|isfile|isdir)\([^\n]{1,200}\n[^\n]{0,30}AssertionError"),
        examples=("FileNotFoundError: [Errno 2] No such file or directory: 'data/train.json'",
            "OSError: /models/a does not appear to have a file named config.json.",
            "OSError: Error no file named pytorch_model.bin, model.safetensors found in "
            "directory a.",
            "Exception: Dataset not found.",
            "PermissionError: [Errno 13] Permission denied: '/data/out'",
            "python: can't open file '/job/train.py': [Errno 2] No such file or directory",
            "CheckpointingException: Checkpoint directory /ckpt/iter_10 does not exist",
            "AssertionError: ../trainsets/DIV2K is not a valid directory",
            "    assert os.path.exists(args.config_file)\nAssertionError"),
        why="A path does not exist on this node or may not be read. The line does not say "
            "whether the configuration is wrong or the storage is not mounted.",
        fix="Check the path as the training's user on the node that reports it: ls -ld PATH; "
            "use absolute paths in batch jobs and mounts that every node has.",
        title="Files that the training reads exist", sources=("python-exceptions",),
        role="exception", code="LOG061"),
    Cause(id="input-channel-missing",
        refines=("file-missing",),
        messages=(r"/opt/ml/input/data/[\w.-]{1,80}/?['\"]?[:,]? (?:is |was |directory )?(?:not "
            r"found|does not exist|No such)|(?:FileNotFound|NotADirectory)Error[^\n]{0,200}"
            r"/opt/ml/input/data/[\w.-]{1,80}(?:/[\w-]{1,80}\.\w{2,8})?/?['\"]?(?![\w./-])",),
        examples=("FileNotFoundError: [Errno 2] No such file or directory: "
            "'/opt/ml/input/data/train/train.jsonl'",),
        why="SageMaker mounts each channel of the job as /opt/ml/input/data/CHANNEL, under the "
            "name that fit() gave it.",
        fix="Look whether the channel's directory is there; SM_CHANNELS in the log lists them. If "
            "it is not, read the directory from SM_CHANNEL_TRAINING (SM_CHANNEL_ and the name of "
            "the channel in capitals), or name the channel as the script expects: "
            "fit({'train': 's3://...'}). If it is, it holds no file of that name: correct the "
            "name or the prefix of S3, which without objects gives an empty channel.",
        commands=("ls -R /opt/ml/input/data | head",)),
    Cause(id="dataset-paths-of-yaml",
        refines=("file-missing",),
        messages=(r"images not found[^\n]{0,8}, missing path",),
        examples=("FileNotFoundError: Dataset 'data.yaml' images not found, missing path "
            "'/datasets/valid/images'",),
        why="Ultralytics joins path: of the data file with train: and val:; a path that is not "
            "absolute lies below datasets_dir of its settings, not below the working directory.",
        fix="Write an absolute path: into the data file, with train: and val: relative to it, or "
            "move the files to the missing path that the message names. yolo settings "
            "datasets_dir=DIR changes where relative ones begin.",
        commands=("yolo settings",)),
    Cause(id="too-many-open-files",
        messages=(r"Too many open files|\[Errno 24\] \w{3} many",
            "received 0 items of ancdata"),
        examples=("OSError: [Errno 24] Too many open files",
            "RuntimeError: received 0 items of ancdata"),
        why="DataLoader workers pass each tensor as an open file, and the soft limit is often "
            "1024.",
        fix="Raise the limit (ulimit -n 65536), or call "
            "torch.multiprocessing.set_sharing_strategy('file_system').",
        commands=("ulimit -n",),
        title="The limit of open files is not reached",
        sources=("pytorch-973", "torch-multiprocessing"), owner=Owner.ENVIRONMENT, code="LOG062"),
    Cause(id="hf-auth",
        messages=("GatedRepoError|Cannot access gated repo|trying to access a gated repo",
            "Make sure to have access to it at https?://huggingface",
            r"RepositoryNotFoundError: 40[14]|40[13] Client Error\. \(Request ID: \w{4}",
            r"40[13] Client Error: \w{4,20} for url: https?://(?:[\w-]{1,40}\.)?huggingface",
            "Invalid user token|You must have access to it and be authenticated",
            "Token is required .{0,60}but no token found"),
        examples=("huggingface_hub.errors.GatedRepoError: 401 Client Error. Cannot access gated "
            "repo",
            "OSError: You are trying to access a gated repo.",
            "Make sure to have access to it at https://huggingface.co/meta-llama/Llama-2-7b",
            "huggingface_hub.errors.RepositoryNotFoundError: 401 Client Error. (Request ID: a)",
            "401 Client Error: Unauthorized for url: "
            "https://huggingface.co/a/resolve/main/b.json",
            "Access to model a is restricted. You must have access to it and be authenticated",
            "huggingface_hub.errors.LocalTokenNotFoundError: Token is required (`token=True`), "
            "but no token found."),
        wordings=(
            Wording(r"40[13] Client Error: \w{4,20} for url: "
                r"https?://huggingface\.co/api/\S{0,60}(?:create|commit|preupload)|don't have the "
                "rights to create a|Cannot create repo",
                "403 Client Error: Forbidden for url: https://huggingface.co/api/repos/create",
                "The token may read and not write, or the name before the slash is of "
                    "another account or organization.",
                "Use a token with write permission for that namespace (`hf auth whoami` "
                    "names the account), set hub_model_id to a name of your own, or "
                    "push_to_hub=False.",
                ("hf auth whoami",),
                more=("403 Forbidden: You don't have the rights to create a model under the "
                        "namespace a.",)),
        ),
        why="The repository is gated or private, the licence was not accepted, or the token is "
            "missing in the job's environment.",
        fix="Accept the licence on the model's page, and log in where the job runs: `hf auth "
            "login`, or HF_TOKEN in its environment.",
        commands=("hf auth whoami",),
        title="The Hugging Face account may read the model", sources=("hf-gated",),
        code="LOG063"),
    Cause(id="hf-offline",
        messages=(r"we cannot find the requested files in the cached path|couldn\'t find it in "
            r"the cached files",
            "outgoing traffic has been disabled|OfflineModeIsEnabled",
            "We couldn't connect to 'https?://huggingface",
            "(?:Max retries exceeded with url|NameResolutionError)(?:(?!thrown while "
            "requesting).){0,400}huggingface(?!.{0,700}thrown while requesting)|"
            "huggingface.{0,400}(?:Max retries exceeded|NameResolutionError|Read timed "
            "out)(?!.{0,700}thrown while requesting)",
            r"\[Retry (?P<tries>\d{1,3})/(?P=tries)\]",
            r"(?P<confirmed>429 (?:Client Error|Too Many Requests)).{0,120}(?:huggingface|\bhf\.co)"
            r"|(?P<limited>We had to rate limit you)",
            "LocalEntryNotFoundError"),
        examples=("ValueError: Connection error, and we cannot find the requested files in the "
            "cached path.",
            "huggingface_hub.errors.OfflineModeIsEnabled: Cannot reach "
            "https://huggingface.co/a: offline mode is enabled.",
            "OSError: We couldn't connect to 'https://huggingface.co' to load the files",
            "HTTPSConnectionPool(host='huggingface.co', port=443): Max retries exceeded with "
            "url: /a",
            "WARNING:huggingface_hub.utils._http:Retrying in 8s [Retry 5/5].",
            "huggingface_hub.errors.HfHubHTTPError: 429 Client Error: Too Many Requests for url: "
            "https://huggingface.co/api/datasets/a",
            "We had to rate limit your IP (10.0.0.1).",
            "huggingface_hub.errors.LocalEntryNotFoundError: An error happened while trying to "
            "locate the files on the Hub"),
        why="A file is not in the cache, and the node has no network or HF_HUB_OFFLINE is set.",
        fix="Download it before on a node with a network (hf download REPOSITORY), into the "
            "HF_HOME that the job uses, and set HF_HUB_OFFLINE=1 there.",
        commands=("hf cache scan",),
        title="The model hub is reachable or not needed", sources=("hf-offline",),
        yields_to=("hf-offline",), owner=Owner.ENVIRONMENT, code="LOG064"),
    Cause(id="wandb-auth",
        messages=("wandb.{0,300}(?:api_key not configured|UsageError)",
            "wandb: ERROR .{0,200}(?:API key|api_key|authenticat)",
            r"wandb\.errors\.(?:errors\.)?(?:CommError|AuthenticationError|UsageError)",
            r"Error while calling W&B API(?!.{0,200}<Response \[5)|[Tt]imed out waiting for wandb "
            "service"),
        wordings=(
            Wording(r"wandb(?:\.errors\.\S{3,60}:|: ERROR (?!Error while calling)).{0,200}"
                r"(?:<Response \[5\d\d\]>|HTTP 5\d\d|deadline exceeded)",
                "wandb.errors.CommError: context deadline exceeded (<Response [500]>)",
                "The server of Weights & Biases failed or did not answer in time; the key is not "
                "at fault.",
                "Nothing needs to be corrected where the training went on: what was logged is "
                "kept in the directory wandb, and wandb sync sends what is missing. If it ends "
                "runs: WANDB_MODE=offline, and wandb sync afterwards.",
                ("wandb sync --sync-all",)),),
        examples=("wandb.errors.UsageError: api_key not configured (no-tty). call "
            "wandb.login(key=[k])",
            "wandb: ERROR Unable to verify login in offline mode. API key must be 40 characters "
            "long",
            "wandb.errors.CommError: Error communicating with wandb backend",
            "wandb: ERROR Error while calling W&B API: permission denied (<Response [403]>)",
            "wandb.sdk.lib.service_connection.ServiceStartTimeoutError: Timed out waiting for "
            "wandb service to start"),
        why="Weights & Biases is not logged in on this node, or it cannot be reached; the "
            "Trainer reports to it by default when it is installed.",
        fix="Set WANDB_API_KEY in the job's environment, WANDB_MODE=offline on nodes without a "
            "network, or report_to=[] (WANDB_DISABLED=true). No permission (403): entity and "
            "project must be those of the account that the key belongs to.",
        commands=("export WANDB_MODE=offline",),
        title="The experiment tracker accepts the login", sources=("wandb-variables",),
        owner=Owner.ENVIRONMENT, code="LOG065"),
    Cause(id="path-not-permitted",
        errors=("PermissionError", "OSError", "ImportError", "InductorError"),
        refines=("file-missing", "address-space-limit", "compile-failed"),
        messages=(r"PermissionError: \[Errno 13\]",
            r"\[WinError 5\] Access is denied"),
        examples=("PermissionError: [Errno 13] Permission denied: '/root/.cache/huggingface'",
            r"PermissionError: [WinError 5] Access is denied: 'C:\\Users\\a\\.cache'"),
        wordings=(
            Wording(r"\[Errno 30\] Read-only file system",
                "OSError: [Errno 30] Read-only file system: '/root/.cache'",
                "The program writes where this container or node mounts read-only: the home "
                "directory, the image (Apptainer, a read-only root), a data volume, or a file "
                "system that went read-only after an error.",
                "Point what is written to a writable directory: output_dir, HF_HOME, TMPDIR, "
                "TRITON_CACHE_DIR, TORCHINDUCTOR_CACHE_DIR, MPLCONFIGDIR, WANDB_DIR. If the "
                "file system was writable before, read dmesg: it may have failed.",
                ("mount | grep ' ro[,)]'",
                    "export HF_HOME=/scratch/hf TMPDIR=/scratch/tmp")),
            Wording(r"(?:torchinductor|triton|torch_extensions|/tmp/)[^\n]{0,200}\.so: failed "
                r"to map segment",
                "torch._inductor.exc.InductorError: ImportError: "
                "/tmp/torchinductor_me/triton/0/A/cuda_utils.so: failed to map segment from "
                "shared object",
                "A library that was built at run time lies on a file system that is mounted "
                "noexec.",
                "Put the caches on a file system without noexec: TMPDIR, "
                "TORCHINDUCTOR_CACHE_DIR, TRITON_CACHE_DIR and TORCH_EXTENSIONS_DIR. If it has "
                "no noexec, the limit of address space (ulimit -v) is too low.",
                ("findmnt --target DIR",
                    "ulimit -v"))),
        why="The user of the process may not read or write this path: a file of root (from a "
            "container or sudo), a home that a container or Slurm replaced, or a cache that "
            "another user made.",
        fix="ls -ld PATH and id show both. A cache: point it to a directory of your own "
            "(HF_HOME, TRITON_CACHE_DIR, TORCH_HOME, TMPDIR). Outputs: another output_dir, or "
            "sudo chown -R $USER PATH. Docker: --user $(id -u):$(id -g).",
        commands=("id; ls -ld PATH",), yields_to=("file-system-failed",),
        sources=("python-exceptions",), owner=Owner.ENVIRONMENT),
)  # fmt: skip
