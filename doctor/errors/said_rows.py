"""What the numbers and names of a message say: one sentence for each row of causes."""

from __future__ import annotations

Said = tuple[str, str, str]
"""Ids of rows, an expression with named groups, and the sentence with their names in braces."""

SAID: tuple[Said, ...] = (
    (
        "ray-killed-for-memory",
        r"memory used=(?P<worker>[\d.]+ ?GB)\) was running was (?P<used>[\d.]+ ?GB) / "
        r"(?P<whole>[\d.]+ ?GB)",
        "Let what runs on the node hold less: {used} of its {whole} were in use, {worker} by the "
        "worker that was ended.",
    ),
    (
        "nccl-timeout",
        r"WorkNCCL\(SeqNum=1,",
        "It is the first collective of its group, so the ranks never exchanged data: if all of "
        "them wait in it, try NCCL_P2P_DISABLE=1 (GPUs of one machine), NCCL_IB_DISABLE=1 and "
        "NCCL_SOCKET_IFNAME (several nodes).",
    ),
    (
        "checkpoint-of-other-keys",
        r"mismatch (?:for loaded|between saved) \(?(?:torch\.Size\()?[\[(](?P<stored>\d+), "
        r".{1,60}[\[(](?P<wanted>\d+), .{1,80}(?:word_embed|tok_embed|embed_tokens|"
        r"\bembed\.|wte|lm_head|output)",
        "Bring the vocabularies together: the checkpoint has {stored} rows of embeddings, this run "
        "makes {wanted}.",
    ),
    (
        "model-directory-damaged",
        r"; with (?P<size>\"\w+\": \d+) instead of \d+ in config\.json they fit",
        "Write {size} into config.json: all parameters of another shape then fit.",
    ),
    (
        "import-failed",
        r"ModuleNotFoundError: No module named '(?P<part>(?P<module>\w+)\.[\w.]+)'",
        "{module} was found, or a directory of that name, and has no {part}: install the release "
        "that the code was written for (a clone: pip install -e .), and do not start in a "
        "directory that has a part of it.",
    ),
    (
        "import-failed",
        r"No module named '(?P<module>google\.cloud\.\w+|google\.\w+|\w+)[.'\w]*|"
        r"requires the (?P<name>\S+) library but it was",
        "python -m pip install {package}, and restart.",
    ),
    (
        "failure-stands-above",
        r"because of the following error[^\n]{0,60}\n[^\n]{0,20}No module named "
        r"'(?P<module>\w{1,40})'",
        "python -m pip install {package}, and restart.",
    ),
    (
        "import-failed package-version-refused quantized-training",
        r"\brequires.{0,120}?[`'\"]pip install (?P<wanted>[^`\n]{1,60}?)[`\"\n]",
        "python -m pip install {wanted}, and restart.",
    ),
    (
        "hf-offline network-missing hub-transfer-failed",
        r"(?P<name>ProxyError|Cannot connect to proxy|Tunnel connection failed)",
        "A proxy stands between and refuses ({name}): check HTTPS_PROXY, HTTP_PROXY and "
        "NO_PROXY of "
        "this job.",
    ),
    (
        "network-missing hf-offline",
        r"(?P<name>mlflow|comet|clearml|neptune|swanlab|aim)\.\S{0,60}(?:Exception|Error)",
        "The tracking server of {name} is not reached from this node: correct its address "
        "(MLFLOW_TRACKING_URI and the like), or log to files and upload them later.",
    ),
    (
        "xid-hardware",
        r"node (?P<node>[\w.-]{1,80}), device (?P<device>\d{1,3}), iter[^:]{1,30}: Possible trans",
        "Suspect GPU {device} of node {node}.",
    ),
    (
        "xid-hardware",
        r"suspicious node: (?P<node>[\w.-]{1,80}), suspicious device: \D{0,6}(?P<device>\d{1,3})",
        "Leave out node {node}, whose GPU {device} is suspicious.",
    ),
    (
        "file-missing",
        r"(?P<name>index files for the data|No such file or directory: '\S{1,200}\.(?:idx|bin)')",
        "Megatron's data is given by its prefix, without .bin and .idx, both of which "
        "preprocess_data.py writes.",
    ),
    (
        "file-missing",
        r"Parent directory (?P<path>[^\n]{1,300}?) does not exist",
        "Create {path} before the training (mkdir -p): torch.save makes no directories, and on "
        "Windows it finds no path with letters outside of ASCII.",
    ),
    (
        "segmentation-fault dataloader-worker-killed",
        r"[Ss]egmentation fault encountered in worker|DataLoader worker \([^)\n]{1,200}\) is "
        r"killed by signal: Segm",
        "It is a worker of the DataLoader, and num_workers=0 goes on without one. Libraries that "
        "were used before the fork crash there: call cv2.setNumThreads(0) first, open readers "
        "(decord, h5py, lmdb) within the worker, or set multiprocessing_context='spawn'.",
    ),
    (
        "segmentation-fault",
        r"exitcode {0,6}: -(?P<signal>8)\b|(?P<name>Floating point exception|SIGFPE)",
        "A division by 0 of whole numbers in native code. On an H20 it is cuBLAS 12.4.5 or older: "
        "python -m pip install -U nvidia-cublas-cu12.",
    ),
    (
        "attribute-missing attribute-missing api-changed",
        r"'(?P<name>LLMEngine|LLM|EngineCoreClient|GPUModelRunner|SamplingParams)' object has no "
        r"attribute",
        "{name} is of vLLM: install the release of vllm that this trainer was written for (its "
        "requirements), or upgrade the trainer; VLLM_USE_V1=0 selects the old engine in releases "
        "up to 0.10.",
    ),
    (
        "api-changed",
        r"(?<!\w)(?!(?:SentencePiece)?Tokenizer\b)\w{1,60}Tokenizer(?:Fast)?'?(?: object)? has no "
        r"attribute '?(?P<name>(?:batch_)?encode_plus)\b",
        "If the class is one of transformers: release 5 has no {name}; call the tokenizer "
        "itself, tokenizer(texts, padding=True), which takes the same arguments, or "
        "install transformers<5.",
    ),
    (
        "api-changed",
        r"'(?!\w{0,40}(?:SFT|PO|LOO)Config)\w{1,60}Config' object has no attribute "
        r"'(?P<name>(?:pad|bos|eos|sep)_token_id|is_decoder|add_cross_attention|"
        r"tie_word_embeddings|pruned_heads|torchscript)'",
        "If the class is one of transformers: in release 4 every configuration had {name}, since "
        "5 only those that state it, and a model's own code of that time fails: install "
        "transformers<5, a newer revision of the model's repository, or set config.{name} before "
        "the model is made.",
    ),
    (
        "attribute-missing api-changed",
        r"'(?P<name>DeepSpeed\w*Optimizer\w*)' object has no attribute '(?:train|eval)'",
        "transformers calls train() of the optimizer, which the installed accelerate hands on to "
        "{name} as it is: python -m pip install -U accelerate transformers.",
    ),
    (
        "name-not-in-package",
        r"cannot import name '(?P<name>amp)' from 'apex' \((?!unknown)",
        "apex of 2025 has no {name} any more: upgrade transformers (4.53 or newer does without it) "
        "or the package of the frame above, or python -m pip uninstall apex.",
    ),
    (
        "name-not-in-package",
        r"'is_torch_tpu_available'",
        "is_torch_xla_available since transformers 4.41: upgrade the package that imports it.",
    ),
    (
        "name-not-in-package",
        r"'LLaMATokenizer'",
        "It is LlamaTokenizer: correct the name, also in tokenizer_config.json.",
    ),
    (
        "numpy-of-other-build",
        r"dtype size changed.{0,80}Expected (?P<built>88) from C header, got (?P<has>96)",
        "The package was built for numpy 2 and numpy 1 is installed: upgrade numpy to 2, or "
        "install a release of the package for numpy 1.",
    ),
    (  # a dtype has 96 bytes in numpy 1 and 88 in numpy 2
        "numpy-of-other-build",
        r"dtype size changed.{0,80}Expected (?P<built>96) from C header, got (?P<has>88)|"
        r"(?P<old>using NumPy 1\.x)",
        "The package was built for numpy 1 and numpy 2 is installed: upgrade the package that the "
        'traceback ends in, or python -m pip install "numpy<2".',
    ),
    (
        "weights-only-load",
        r"Unsupported global: GLOBAL (?P<name>[\w.]+)",
        "torch.serialization.add_safe_globals([{name}]) before torch.load allows this name, if the "
        "file is your own.",
    ),
    (
        "monitored-metric-missing",
        r"(?:metric `|monitor=')(?P<name>[\w/.-]+)[`']\)?`? .{0,160}?(?:following: |metrics: \[)"
        r"(?P<valid>[^\]\n]{1,2000})",
        "{name} is not among the logged names: monitor one that is ({near}), or log it under that "
        "name.",
    ),
    (
        "cuda-toolkit-mismatch",
        r"(?:detected CUDA version \(|Installed CUDA version )(?P<toolkit>[\d.]+\d)\)?.{0,80}?"
        r"compile(?:d with| PyTorch) \(?(?P<torch>[\d.]+\d)",
        "The toolkit is {toolkit} and torch was built with {torch}: set CUDA_HOME and PATH to "
        "toolkit {torch} (ls -d /usr/local/cuda-*; install it if it is not there), and empty "
        "~/.cache/torch_extensions. Within one major version DS_SKIP_CUDA_CHECK=1 lets DeepSpeed "
        "build.",
    ),
    (
        "disk-full",
        r"(?P<name>triton)/runtime/cache\.py",
        "Move the cache of {name} to a disk with room: export TRITON_CACHE_DIR=/DIRECTORY "
        "(~/.triton by default).",
    ),
    (
        "disk-full",
        r"torch/(?P<name>_inductor)/",
        "Move the cache of torch.compile to a disk with room: export TORCHINDUCTOR_CACHE_DIR="
        "/DIRECTORY (below /tmp by default).",
    ),
    (
        "disk-full",
        r"torch/utils/(?P<name>cpp_extension)\.py",
        "Move what torch compiles to a disk with room: export TORCH_EXTENSIONS_DIR=/DIRECTORY "
        "(~/.cache/torch_extensions by default).",
    ),
    (
        "disk-full",
        r"(?P<name>huggingface_hub)/|transformers/utils/hub\.py",
        "Move the cache of the hub to a disk with room: export HF_HOME=/DIRECTORY "
        "(~/.cache/huggingface by default).",
    ),
    (
        "disk-full",
        r"(?P<name>datasets)/(?:arrow_writer|builder|arrow_dataset)\.py",
        "Move the cache of {name} to a disk with room: export HF_DATASETS_CACHE=/DIRECTORY "
        "(~/.cache/huggingface/datasets by default).",
    ),
    (
        "disk-full",
        r"torch/(?P<name>hub)\.py",
        "Move the cache of torch.{name} to a disk with room: export TORCH_HOME=/DIRECTORY "
        "(~/.cache/torch by default).",
    ),
    (
        "disk-full",
        r"-packages/(?P<name>wandb)/",
        "Move the files of {name} to a disk with room: export WANDB_DIR=/DIRECTORY "
        "WANDB_CACHE_DIR=/DIRECTORY WANDB_DATA_DIR=/DIRECTORY.",
    ),
    (
        "network-missing",
        r"Pool\(host='(?P<host>[\w.:-]{1,100})', port=(?P<port>\d{1,5})\).{0,900}"
        r"Connection refused.{0,900}\nasked by (?P<package>[\w.-]{1,60})",
        "Start what is to listen at {host}:{port}, which {package} asks for, or correct that "
        "address.",
    ),
    (
        "network-missing",
        r"Pool\(host='(?P<host>[\w.:-]{1,100})', port=(?P<port>\d{1,5})\).{0,900}"
        r"Connection refused",
        "Start what is to listen at {host}:{port}, or correct that address.",
    ),
    (
        "environment-not-activated",
        r"Could not find conda environment: (?P<name>[\w./-]{1,100})",
        "Correct the name: conda finds no environment {name}.",
    ),
    (
        "disk-full",
        r"(?P<mount>/\S{0,200}) \(\S{1,12}\) is full; "
        r"(?P<other>/\S{0,200}) has (?P<free>\S{1,8}) free",
        "{mount} is full, whatever other disks have: move what is written there (output_dir, the "
        "caches, TMPDIR) to {other} ({free} free), delete old checkpoints and the truncated one.",
    ),
    (
        "architecture-unknown missing-key",
        r"model type `(?P<name>[\w.-]+)`|KeyError: '(?P<type>(?:(?:qwen|llama|gemma|phi|glm)\d|"
        r"mistral|mixtral|deepseek_v\d|minicpm|internvl)\w*)'",
        "The type is newer than the installed transformers: python -m pip install -U transformers.",
    ),
    (
        "collective-mismatch",
        r"Rank (?P<one>\d+) is running collective: CollectiveFingerPrint\(SequenceNumber="
        r"(?P<number>\d+),? ?OpType=(?P<op>\w+).{0,900}?but Rank (?P<other>\d+) is running "
        r"collective: CollectiveFingerPrint\(SequenceNumber=(?P<behind>\d+),? ?OpType=(?P<its>\w+)",
        "Rank {one} is in collective {number}, {op}, and rank {other} in collective {behind}, "
        "{its}: the logs of these two say where their paths part.",
    ),
    (
        "collective-mismatch",
        r"your (?P<name>LightningModule) has parameters that were not used",
        'Trainer(strategy="ddp_find_unused_parameters_true") trains the {name} as it is.',
    ),
    (
        "argument-of-another-release",
        r"forward\(\) got an unexpected keyword argument '(?P<name>num_items_in_batch)'",
        "Set accepts_loss_kwargs = False on the model before the Trainer is made, or let its "
        "forward take **kwargs; a class of transformers itself: upgrade transformers.",
    ),
    (
        "argument-of-another-release api-changed call-arguments",
        r"(?<!\w)(?P<callee>\w{1,80}(?:\.\w{1,80})?)\(\) got an unexpected keyword argument "
        r"'(?P<argument>\w+)'",
        "Instead of {argument}: {renamed}.",
    ),
    (
        "library-does-not-fit extension-abi-mismatch",
        r"(?P<name>lib(?:cudart|nvrtc|cublas|cusolver|cufft))\.so: cannot open",
        "{name}.so without a number is of the CUDA toolkit, which the wheels of torch and a "
        "runtime image lack: take the -devel image, or install the toolkit of torch's CUDA and add "
        "its lib64 to LD_LIBRARY_PATH.",
    ),
    (
        "cudnn-libraries-not-found",
        r"libcudnn\w*\.so\.8",
        "Upgrade what opens cuDNN 8 to a release for cuDNN 9, which torch has since 2.4 "
        "(ctranslate2 4.5 and newer, for faster-whisper).",
    ),
    (
        "library-does-not-fit extension-abi-mismatch cudnn-libraries-not-found",
        r"(?P<library>lib\w+?)(?:_\w+)?\.so\.(?P<major>\d+)[\d.]*(?:: cannot open|,)",
        "{library}.so.{major} is part of {wheel}.",
    ),
    (
        "name-moved",
        r"; torch 2\.\S{1,20} takes torchvision (?P<wanted>0\.\d{1,2})$",
        "Install torchvision {wanted} from this torch's index: python -m pip install --no-deps "
        "'torchvision=={wanted}.*'.",
    ),
    (
        "extension-not-built",
        r"; first error of the compiler: (?P<said>.{4,180})$",
        "Correct the first error of the compiler: {said}.",
    ),
    (
        "no-kernel-image",
        r"capability (?P<sm>sm_1[0-3]\d)a?",
        "{sm} needs torch 2.7 or newer from the index cu128 or newer: python -m pip install -U "
        "torch --index-url https://download.pytorch.org/whl/cu128.",
    ),
    (
        "no-kernel-image",
        r"capability (?P<sm>sm_(?:[56]\d|7[0-4])) is not compatible",
        "{sm} is in no wheel of CUDA 13: take a wheel of the index cu126.",
    ),
    (
        "no-kernel-image",
        r"(?P<sm>capability (?:3\.\d|sm_3\d))",
        "No current wheel has code for {sm} (Kepler). sm_37 (K80): torch up to 2.6 from the index "
        "cu118, with a driver of the series 450 to 470; other Kepler GPUs: torch 1.2 and older, or "
        "another GPU.",
    ),
    (
        "rendezvous-timeout peer-lost",
        r"\[(?P<host>[\w.:-]{2,80})\]:(?P<port>\d{2,5}) \(errno: (?:113|110|101)\b",
        "This node does not reach {host}: no route, a firewall, or a name that stands for another "
        "interface. nc -vz {host} {port} from here, open the port, or set MASTER_ADDR (the "
        "rendezvous endpoint) to an address that all nodes reach.",
    ),
    (
        "scheduler-ended",
        r"(?:Node failure on (?P<node>[\w.-]+)|(?P<own>DUE TO NODE FAILURE))",
        "A node failed, not the program: report it (srun's line names it), submit again with "
        "--exclude=NODE, and resume from the last checkpoint.",
    ),
    (
        "quantized-model-moved",
        r"precision on a different (?P<where>device)",
        "Every rank loaded it onto the same {where}: "
        'device_map={{"": int(os.environ["LOCAL_RANK"])}} for each process.',
    ),
    (
        "driver-too-old",
        r"found version (?P<driver>\d{4,5})\)",
        "This driver runs CUDA up to {cuda}: upgrade it, or install a torch wheel for {cuda} or "
        "an older CUDA.",
    ),
    (
        "generation-settings",
        r"is (?P<length>\d+), but `?max_length`? is set to (?P<limit>\d+)",
        "The prompt alone has {length} tokens of the {limit}.",
    ),
    (
        "kernel-does-not-fit-gpu",
        r"Required: (?P<need>\d+), Hardware limit: (?P<limit>\d+)",
        "A block asks for {need} bytes of a multiprocessor's {limit}: head dimension, block sizes "
        "and num_stages multiply into it.",
    ),
    (
        "network-interface-wrong",
        r"NCCL offers the address of \S+ to other nodes, which (?P<name>\S+) joins",
        "export NCCL_SOCKET_IFNAME={name} GLOO_SOCKET_IFNAME={name} on every node.",
    ),
    (
        "view-size",
        r"shape '\[-1, (?P<size>\d{5,6})\]' is invalid for input of size",
        "If {size} is the vocabulary, the logits have another last dimension, as after "
        "resize_token_embeddings: view(-1, logits.size(-1)).",
    ),
    (
        "index-out-of-range",
        r"index (?P<index>[1-9]\d{4,}) is out of bounds for dim\w{0,6}(?: \d+)? with size "
        r"(?P=index)\b",
        "The index is the size itself, the first row that is missing. In a vocabulary it is the "
        "first token that was added: model.resize_token_embeddings(len(tokenizer)). Other numbers "
        "that begin with 1 need 1 subtracted.",
    ),
    (
        "index-out-of-range",
        r"index (?P<index>[1-9]\d*) is out of bounds for dim\w{0,6}(?: \d+)? with size "
        r"(?P=index)\b",
        "The index is the size itself: numbers that begin with 1 (labels, nodes, tokens) need 1 "
        "subtracted.",
    ),
    (
        "engine-limits-exceeded",
        r"max seq len \((?P<need>\d+)\).{0,120}?\((?P<fits>\d+)\)",
        "max_model_len={fits} fits.",
    ),
    (
        "device-mismatch",
        r"at least two devices, (?P<first>[\w:]+) and (?P<second>[\w:]+)!"
        r"(?:.{0,60}argument (?P<name>\w+) in method (?:wrapper_\w*?_?_)?(?P<method>[a-z]\w*))?",
        "{operand} on {first} and on {second} meet.",
    ),
    (
        "index-out-of-range",
        r"Target (?P<label>(?!255\b)\d{1,6}) is out of bounds",
        "A label is {label}: it needs at least {classes} classes in the last layer, or labels that "
        "begin with 0.",
    ),
    (
        "pod-evicted",
        r"(?:exceeds the total limit of containers|ephemeral-storage) ?(?P<limit>\w*)",
        "It wrote more into the container's own file system than its ephemeral-storage limit "
        "({limit}): write checkpoints and caches to a volume, keep fewer (save_total_limit), or "
        "raise limits.ephemeral-storage.",
    ),
    (
        "hf-auth",
        r"is (?P<state>awaiting a review) from the repo authors",
        "The request for access is {state}: until its authors agree no token helps. Take a model "
        "that is not gated, or a copy of the same weights that is free.",
    ),
    (
        "hf-auth",
        r"(?:huggingface\.co/(?:api/models/|api/(?=datasets/))?|model |repo )"
        r"(?P<repo>(?:datasets/)?(?!api/|datasets/)[\w.-]+/[\w.-]+)"
        r"(?:/resolve| is restricted|\b)",
        "Request access at huggingface.co/{repo} with the account of the token.",
    ),
    (
        "checkpoint-of-other-sizes",
        r"(?P<name>\S*(?:embed|lm_head|wte)\S*): copying a param with shape torch\.Size\(\["
        r"(?P<saved>\d+), \d+\]\) from checkpoint, the shape in current model is torch\.Size\(\["
        r"(?P<own>\d+),",
        "The checkpoint has {saved} rows and the model {own}: "
        "model.resize_token_embeddings({saved}) before loading.",
    ),
    (
        "libstdcxx-too-old",
        r"(?P<version>(?:GLIBCXX|CXXABI)_[\d.]+)'? not found \(required by (?P<by>[^)\n]{1,200})",
        "{by} needs {version}. One that was compiled here (torch_extensions) can be built again "
        "instead, after its cache was emptied.",
    ),
    (
        "deepspeed-configuration",
        r"(?P<total>\d+) != (?P<micro>\d+) \* (?P<steps>\d+) \* (?P<ranks>\d+)",
        "{total} is not micro-batch {micro} x accumulation {steps} x ranks {ranks}: leave "
        'train_batch_size out or set it to "auto".',
    ),
    (
        "dtype-mismatch",
        r"same dtype, but got:? (?P<first>\w+) (?:!=|and) (?P<second>[\w:]+)",
        "The first operand, the input in a Linear, is {first}, the weight {second}.",
    ),
    (
        "locked-memory-limit nccl-system-error",
        r"max locked memory \(kbytes, -l\) (?P<limit>\d+)",
        "The log shows the limit of locked memory: {limit} KiB.",
    ),
    (
        "package-version-refused",
        r"is used but incompatible\. Please install (?P<wanted>mm\w+>=[\w.]+, ?<=?[\w.]*\w)",
        'mim install "{wanted}" (python -m pip install openmim for mim).',
    ),
    (  # versions as tuples: before mmcv 2
        "package-version-refused",
        r"Please install mmcv>=\((?P<one>\d+), (?P<minor>\d+), (?P<patch>\d+)[^)]{0,20}\), "
        r"(?P<less><=?)\((?P<other>\d+), (?P<below>\d+), (?P<last>\d+)",
        'mim install "mmcv-full>={one}.{minor}.{patch},{less}{other}.{below}.{last}" '
        "(python -m pip install openmim for mim).",
    ),
    (
        "value-over-limit",
        r"Label values must be <= vocab_size: (?P<size>\d+)",
        "The head has {size} classes, and the tokenizer more: load the model with "
        "vocab_size=len(processor.tokenizer).",
    ),
    (
        "package-version-refused",
        r"(?P<wanted>[\w-]+[<>=!~][\w.,<>=!~]+) is required .{0,80}but found",
        'python -m pip install "{wanted}", and restart.',
    ),
    (
        "package-version-refused",
        r"incompatible version of (?P<wanted>[\w-]+)\.",
        "python -m pip install -U {wanted}, and restart.",
    ),
    (
        "no-tensor",
        r"not BatchEncoding",
        'Unpack what the tokenizer gave: model(**batch), or batch["input_ids"].',
    ),
    (
        "no-tensor module-returns-tuple",
        r"'list' object has no attribute '(?:to|cuda|size|shape)'",
        "The batch is a list: move each member with .to(device), or let a collate_fn stack them.",
    ),
    (
        "attribute-missing",
        r"'\w{0,40}Output\w{0,40}' object has no attribute 'backward'",
        "Call output.loss.backward(); the output has a loss if labels were passed.",
    ),
    (
        "attribute-missing",
        r"'Tensor' object has no attribute '(?:loss|logits)'",
        "The model returns the tensor itself: compute the loss from it.",
    ),
    (
        "api-changed attribute-missing",
        r"module '(?P<module>torch|transformers|diffusers|numpy)' has no attribute '(?P<name>\w+)'",
        "The {module} that is installed has no {name}: bring {module} to the release that the "
        "code requires (newer if it is older), or the code to this one.",
    ),
    (
        "name-not-in-package",
        r"'load_metric' from 'datasets",
        "It is evaluate.load now: python -m pip install evaluate.",
    ),
    (
        "api-changed attribute-missing",
        r"'(?P<name>(?:Dynamic|Static|Hybrid|Sliding\w*)Cache)' object has no attribute",
        "{name} lost its old attributes (seen_tokens, get_max_length, get_usable_length, "
        "key_cache): "
        "code that was written for an older transformers calls it, most often the model's own "
        "(trust_remote_code). Load without trust_remote_code where transformers knows the model, "
        "take a newer revision of the repository, or install a transformers of its time (<4.48).",
    ),
    (
        "library-does-not-fit",
        r"(?P<library>libmpi\w*)\.so",
        "{library} is part of Open MPI: load its module, apt-get install libopenmpi-dev, or conda "
        "install openmpi, in the version that the package was built with.",
    ),
    ("compile-failed", r"Ninja is required", "python -m pip install ninja."),
    (
        "api-changed attribute-missing",
        r"has no attribute '(?P<name>merge_and_unload|print_trainable_parameters|merge_adapter)'",
        "The object is no PeftModel: call {name} on what get_peft_model or "
        "PeftModel.from_pretrained returned.",
    ),
    (
        "attribute-missing",
        r"'Namespace' object has no attribute '(?P<name>\w+)'",
        "No argument --{name} was added to the parser, or it has another dest.",
    ),
    (
        "sequence-beyond-positions factory-gives-no-training",
        r"\((?P<length>\d+) > (?P<limit>\d+)\)",
        "{length} tokens are given, {limit} fit: truncation=True, max_length={limit}.",
    ),
    (
        "name-undefined",
        r"name '(?P<name>[A-Z]\w{3,60})' is not defined",
        "If no file of yours has {name}, a library takes it from another one that is missing or "
        "older: upgrade that library and what it builds on (accelerate for ParallelismConfig, "
        "torch for DTensor).",
    ),
    (
        "name-not-in-package",
        r"cannot import name '(?P<name>\w+)' from '(?P<module>[\w.]+)' \((?!unknown|"
        r"[^)]{0,300}(?:(?:site|dist)-packages|[\\/][Ll]ib[\\/]))(?P<path>[^)]{1,300})\)",
        "{path} is a file of the program, or of a copy that was cloned, and has no {name}: correct "
        "the import, or update the files together.",
    ),
    (
        "name-not-in-package",
        r"cannot import name '\w+' from '(?P<module>train|utils?|models?|dataset|data|config|"
        r"tools|common|core|losses|metrics|eval|test|lib|src|engine)' \("
        r"[^)]{1,300}(?:site|dist)-packages",
        "A package of the name {module} in site-packages may hide the program's own file: if it is "
        "not the one that is meant, python -m pip uninstall {module}, and start in the program's "
        "directory.",
    ),
    (
        "name-not-in-package",
        r"cannot import name '(?P<name>\w+)' from '(?P<module>collections|typing|inspect|fractions|"
        r"math|asyncio|importlib|types|dataclasses|enum|functools|time|random|json)\b",
        "{module} is of Python itself, whose version here has no {name}: upgrade the package of "
        "the frame above, or run it with the Python that it supports (Mapping and others are in "
        "collections.abc alone since 3.10).",
    ),
    (
        "name-not-in-package",
        r"(?:cannot import name '\w+' from|No module named) '(?P<module>\w+)",
        "The installed {module} is older, or newer, than the code that imports it. If the name is "
        "new: python -m pip install -U {module}.",
    ),
)
