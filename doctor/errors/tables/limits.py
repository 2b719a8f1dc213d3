"""Samples that are longer than a model takes, other processes that the training asks, and starts
that train nothing."""

from __future__ import annotations

from doctor._util.owner import Owner
from doctor.errors.cause import Cause, Wording

LENGTH = (
    r"(?:sequence|label|input|prompt|token|text|target|context|sample|audio|duration|length|"
    r"transcript|caption)"
)
BEYOND = (
    r"(?:cannot exceed|exceeds?|exceeded|exceeding|is (?:too long|(?:longer|larger|greater|bigger) "
    r"than)|are longer than|must be (?:less|shorter|smaller) than|longer than)"
)
MOST = r"(?:max|limit|allowed|position|context|block|length|window|\d{3})"

ROWS = (
    Cause(id="system-call-of-cuda-refused",
        errors=("RuntimeError", "AcceleratorError"),
        messages=(r"OS call failed or operation not supported on this OS",),
        examples=("RuntimeError: CUDA error: OS call failed or operation not supported on this "
            "OS",),
        why="CUDA asked the system for something that it refuses here: more pinned host memory "
            "than it grants (WSL, a limit of locked memory), or GPU memory that is shared between "
            "processes (Windows, WSL, some virtual machines).",
        fix="Read what the last frame does. Pinning (pin_memory, offloading to the CPU): "
            "pin_memory=False, ulimit -l unlimited, in a container --ulimit memlock=-1. GPU "
            "tensors from workers or to other processes: return CPU tensors, or num_workers=0.",
        commands=("ulimit -l",), owner=Owner.ENVIRONMENT),
    Cause(id="database-locked",
        errors=("OperationalError", "MlflowException", "StorageInternalError"),
        messages=(r"database is locked",),
        examples=("mlflow.exceptions.MlflowException: (sqlite3.OperationalError) database is "
            "locked",
            "sqlite3.OperationalError: database is locked"),
        sources=("sqlite-faq",),
        why="An SQLite file takes one writer at a time, and several ranks, trials or runs write to "
            "it, or it lies on a network file system, where its locks do not work.",
        fix="Write from rank 0 alone, and keep the file on a local disk. For several writers use a "
            "server (mlflow server or Optuna with PostgreSQL or MySQL) or files that are appended "
            "to (Optuna's JournalStorage).",
        owner=Owner.ENVIRONMENT, retry="again"),
    Cause(id="inotify-limit-reached",
        errors=("OSError",), refines=("disk-full",),
        messages=(r"inotify (?:watch|instance)\w{0,3} limit reached",),
        examples=("OSError: [Errno 28] inotify watch limit reached",),
        why="Errno 28 is no full disk here: a program watches more files for changes than the "
            "system lets a user watch (TensorBoard, a reloading server, Streamlit, an editor).",
        fix="Raise the limit (sudo sysctl fs.inotify.max_user_watches=524288 "
            "fs.inotify.max_user_instances=1024), end what watches the directory of the outputs "
            "or of the data, or point it at a smaller one.",
        commands=("sysctl fs.inotify",), owner=Owner.ENVIRONMENT),
    Cause(
        id="sample-over-limit",
        unless=r"deadline exceeded|number of samples exceeded",
        errors=("ValueError", "RuntimeError", "AssertionError", "NotImplementedError"),
        messages=(
            rf"(?:Error|Exception)\b[^\n]{{0,40}}?\b{LENGTH}\w*'?s?\b[^\n]{{0,120}}?\b{BEYOND}\b"
            rf"[^\n]{{0,80}}?{MOST}",
            r"Cannot forward sequence of length \d{1,7}, block size is only",
            r"maximum context length is \d{1,8} tokens",
        ),
        examples=(
            "ValueError: Labels' sequence length 495 cannot exceed the maximum allowed length of "
            "448 tokens.",
            "AssertionError: Cannot forward sequence of length 1200, block size is only 1024",
            "openai.BadRequestError: This model's maximum context length is 8192 tokens. However, "
            "you requested 9120 tokens",
        ),
        why="One sample is longer than the model has positions, or than the limit that the program "
        "sets; the training ends when it meets it, often after hours.",
        fix="Measure every sample once with the tokenizer of the training and leave out, cut or "
        "split those over the limit: dataset.filter(lambda row: len(row['labels']) < LIMIT), "
        "truncation=True with max_length, truncation='left' or filter_overlong_prompts in verl, "
        "shorter segments for speech. Raise a limit that is your own setting only as far as the "
        "model's positions go (max_position_embeddings; 448 for Whisper's decoder).",
        sources=("transformers-tokenization",),
    ),
    Cause(id="object-store-refuses",
        errors=("ClientError", "EndpointConnectionError", "ReadError"),
        wordings=(
            Wording(r"\(SlowDown\)|\(RequestLimitExceeded\)|\(ThrottlingException\)|reduce your "
                r"request rate|503 Slow ?Down|429 .{0,60}storage\.googleapis",
                "botocore.exceptions.ClientError: An error occurred (SlowDown) when calling the "
                "GetObject operation: Please reduce your request rate.",
                "All ranks and workers ask the bucket at once, more often than one prefix may "
                "be asked.",
                "Read fewer, larger objects (shards of 100 MB and more), fewer workers, spread "
                "keys over prefixes, and retry with growing pauses (retries={'mode': "
                "'adaptive'}); copy the data to local disks once before the training.",
                owner=Owner.ENVIRONMENT),
            Wording(r"EndpointConnectionError|Could not connect to the endpoint URL|"
                r"botocore\S{1,40}Timeout|tarfile\.ReadError|download failed: s3://|upload "
                r"failed: ",
                "botocore.exceptions.EndpointConnectionError: Could not connect to the endpoint "
                'URL: "https://s3.us-east-1.amazonaws.com/b/ckpt"',
                "The bucket could not be reached, or the transfer of a shard broke off.",
                "Try the same path by hand on that node (aws s3 ls). Check region, endpoint "
                "(AWS_ENDPOINT_URL), proxy and the node's way out; let the loader retry "
                "(handler=wds.warn_and_continue skips a shard), or copy the data to a local "
                "disk first. Save checkpoints locally and upload them after.",
                ("aws s3 ls s3://BUCKET/ --debug 2>&1 | tail -5",),
                owner=Owner.ENVIRONMENT)),
        why="The object store of the data or checkpoints did not serve the request.",
        retry="again"),
    Cause(id="answer-not-in-time",
        errors=("TimeoutError", "ConnectionError", "RemoteProtocolError",
            "ServerDisconnectedError"),
        messages=(r"asyncio\.(?:exceptions\.)?TimeoutError|"
            r"concurrent\.futures\.(?:_base\.)?TimeoutError|^(?:\S{1,40} )?TimeoutError\s*$",
            r"waitForInput: (?:poll for )?socket [^\n]{1,300}(?:timed out|likely a timeout)"),
        examples=("asyncio.exceptions.TimeoutError",
            "[c10d] waitForInput: socket SocketImpl(fd=60, addr=[::1]:52894, "
            "remote=[::1]:51216) timed out after 300000ms"),
        wordings=(
            Wording(r"RemoteDisconnected|ServerDisconnectedError|Server disconnected without "
                r"sending a response|RemoteProtocolError|httpx?\.(?:core\.)?(?:ConnectError|"
                r"ReadError)|All connection attempts failed",
                "requests.exceptions.ConnectionError: ('Connection aborted.', "
                "RemoteDisconnected('Remote end closed connection without response'))",
                "The process on the other side of the connection ended or was restarted while "
                "the training waited for its answer.",
                "Read the log of that server to its end: out of memory (lower "
                "gpu_memory_utilization or max_num_seqs), an exception in its worker, a killed "
                "process, a proxy or a keep-alive that ends idle connections. Start it again "
                "and resume from the last checkpoint; let the client retry (newer TRL does), "
                "and watch the server with the job.",
                ("curl -s http://HOST:PORT/health",
                    "nvidia-smi"),
                more=("httpx.ConnectError: All connection attempts failed",)),),
        why="Something that the training asked did not answer within its limit: the server that "
            "generates, a reward model, a sandbox that runs code, or the group over which "
            "weights are sent to the sampler.",
        fix="Read the log of that process first: it is slow, stuck or gone. Both sides must "
            "reach each other's address and port (for the weights' group of TRL and ms-swift "
            "port 51216, vllm_server_host as the other node sees it, NCCL_SOCKET_IFNAME the "
            "same), and prompts must fit its max_model_len. Then a longer timeout, fewer "
            "requests at once, and a retry for single answers.",
        retry="again"),
    Cause(id="run-ends-at-once",
        messages=(r"This run will do zero steps|[Rr]eached the end \(\d+ epochs?\) of our "
            r"training run",
            r"is finished, nothing to resume|[Tt]raining (?:is |was |has )?already (?:been "
            r")?(?:completed?|finished|done)|already trained for \d+ (?:epochs|steps)",
            r"max_(?:steps|epochs)=\d+` reached\.[^\n]{0,40}resum"),
        examples=("Reached the end (58 epochs) of our training run (42 epochs). This run will "
            "do zero steps.",
            "AssertionError: runs/last.pt training to 100 epochs is finished, nothing to resume.",
            "`Trainer.fit` stopped: `max_steps=1000` reached. (resumed at step 1000)"),
        why="The checkpoint that the run continues from is at or beyond the end that is set, "
            "counted with another number of samples, ranks or accumulated steps than before.",
        fix="Set the end above what was trained (num_train_epochs, max_steps, max_epochs), or "
            "begin a new run from the weights alone: a fine-tuning starts from the model, not "
            "with resume_from_checkpoint (for an adapter: its own init option)."),
    Cause(id="label-file-refused", refines=("number-out-of-type",),
        messages=(r"ignoring corrupt image/label: (?:negative label|could not convert)",),
        examples=("train: WARNING: /data/images/1.jpg: ignoring corrupt image/label: negative "
            "label values [-1]",
            "val: WARNING /data/images/1.jpg: ignoring corrupt image/label: could not convert "
            "string to float: 'gun'"),
        why="The label file of this image is not what the loader reads, and the image is left "
            "out: its class is a name or below 0.",
        fix="Write a line for each box: the number of the class from 0, then center and size as "
            "parts of 1. Export in YOLO's format, list the names in the data file in the order of "
            "the numbers, and delete the caches (*.cache).",
        sources=("yolov5-8475", "ultralytics-8128"), role="warning"),
    Cause(id="labels-not-found",
        messages=(r"[Nn]o labels found in \S{3,300}|Labels are missing or empty in|\b0 images, "
            r"[1-9]\d* backgrounds",
            r"no labels found in \w+ set, can ?not compute metrics|"
            r"[Cc]an ?not train without labels",
            r"(?:[Ff]ound|[Ll]oaded|[Gg]ot) 0 (?:labels|annotations|objects|boxes|targets|"
            r"transcripts|masks)\b"),
        examples=("WARNING Labels are missing or empty in /data/images/train.cache, training "
            "may not work correctly.",
            "WARNING no labels found in detect set, can not compute metrics without labels",
            "INFO: found 0 annotations in /data/ann/train.json"),
        why="Every sample counts as one without a label: nothing can be learned, losses of "
            "boxes are 0 and so are the metrics, while the run goes on.",
        fix="Put the labels where the loader looks for them (Ultralytics: .../labels/NAME.txt "
            "for .../images/NAME.jpg, the folder names exactly so), correct path, train and val "
            "in the data file, and delete the caches (*.cache). Train only once the first lines "
            "count the images with labels.",
        title="Labels are found beside the samples", sources=("ultralytics-20595",),
        role="warning", code="LOG079"),
    Cause(id="targets-broadcast",
        refines=("extra-dimension",),
        messages=("UserWarning: Using a target size .{1,60} that is different to the input size",),
        examples=("UserWarning: Using a target size (torch.Size([32])) that is different to the "
            "input size (torch.Size([32, 1])). This will likely lead to incorrect results due "
            "to broadcasting.",),
        why="The loss compares every prediction with every target, (n, 1) with (n,), so that "
            "the best answer is the mean of the targets. The run goes on and learns nothing "
            "else.",
        fix="Give both one shape before the loss: prediction.squeeze(-1), or "
            "target.unsqueeze(1) (view_as). Train again: what was trained until now predicts "
            "the mean.",
        title="Predictions and targets have one shape", sources=("torch-functional",),
        role="warning", code="LOG104"),
    Cause(id="gpu-not-used",
        messages=(r"GPU available: True[^\n]{0,20}, used: False",
            "GPU available but not used",
            "An NVIDIA GPU may be present on this machine, but a CUDA-enabled jaxlib is not",
            r"(?:CUDA|GPU|cuda)[^\n]{0,30}(?:not available|unavailable|not found|not "
            r"detected)[^\n]{0,30}(?:[Uu]sing|[Ff]all(?:ing)? ?back|[Dd]efault(?:ing)?|"
            r"[Ss]witch(?:ing)?|[Rr]unning|[Tt]raining)[^\n]{0,12} (?:the )?(?:CPU|cpu)\b",
            r"(?:[Nn]o (?:\w{1,10} )?(?:GPU|CUDA)|(?:CUDA|GPU)s? (?:is |are )?not (?:available|"
            r"found|detected))[^\n]{0,40}[Ff]all(?:ing|s)? back to (?:the )?(?:CPU|cpu)\b",
            r"Setting ds_accelerator to cpu\b|not compiled to use GPU|Could not find cuda "
            r"drivers on your machine, GPU will not be used"),
        examples=("GPU available: True (cuda), used: False",
            "GPU available but not used. You can set it by doing `Trainer(accelerator='gpu')`.",
            "An NVIDIA GPU may be present on this machine, but a CUDA-enabled jaxlib is not "
            "installed. Falling back to cpu.",
            "WARNING CUDA not available, using CPU",
            "No GPU found, falling back to CPU",
            "Could not find cuda drivers on your machine, GPU will not be used."),
        why="The program found no GPU that it may use, or was told to take the processor, and "
            "goes on there: tens of times slower, while the GPU is paid for.",
        fix="Ask for it (accelerator='gpu', devices; --device cuda), and check that this very "
            "process sees it: torch.cuda.is_available() with CUDA_VISIBLE_DEVICES as the job "
            "sets it, a torch or jax built for CUDA (jax[cuda12]), --gpus all for a container.",
        commands=('python -c "import torch; print(torch.__version__, torch.cuda.is_available())"',),
        title="The training uses the GPU that is there",
        sources=("lightning-hardware-agnostic",),
        owner=Owner.ENVIRONMENT, role="warning", code="LOG083"),
    Cause(id="value-over-limit",
        messages=(r"(?:Error|Exception)\b[^\n]{0,240}?\b(?:is|are) (?:greater|larger|more|"
            r"bigger|higher|longer|smaller|less|lower|fewer|shorter) than (?:the "
            r")?(?:tokenizer\w*|min\w*|required|max\w*|limit|allowed|available|number of|total|"
            r"supported|configured)\b",
            r"(?:Error|Exception)\b[^\n]{0,240}?\b(?:exceeds?|exceeded|exceeding) (?:the "
            r")?(?:max\w*|limit|allowed|available|number of|capacity|supported|model)\b",
            r"(?:Error|Exception)\b[^\n]{0,240}?\b(?:must|should|has to|needs to) be (?:less|"
            r"smaller|lower|fewer|greater|larger|at most|at least|no more|bigger|higher|<=?|"
            r">=?) ?(?:than|or equal)?\b"),
        examples=("ValueError: LoRA rank 64 is greater than max_lora_rank 16.",
            "RuntimeError: the request exceeds the maximum number of tokens",
            "AssertionError: mini batch size must be less than or equal to 8"),
        why="Two numbers of the configuration, or a number and the data, do not go together; "
            "the message names the limit.",
        fix="Change the number to what the message asks for, or raise the limit where it is "
            "a setting of yours: the engine's (max_lora_rank, max_model_len, "
            "max_num_batched_tokens), the loader's, the model's. A limit of the model or of the "
            "hardware stays: filter or split what is larger.",
        quotes=True),
)  # fmt: skip
