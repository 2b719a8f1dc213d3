"""Messages that state by themselves what is wrong, whatever library raises them: rows by the form
of the sentence. They come after all that know the message, and repeat what it asks for."""

from __future__ import annotations

from doctor._util.owner import Owner
from doctor.errors.cause import Cause, Wording

GENERATION = (
    r"(?:an? |NVIDIA |at least |the )?(?:Ampere|Hopper|Ada|Blackwell|Volta|Turing|SM ?_?\d|sm_?\d|"
    r"compute capability|CUDA capability|H100|A100)"
)
VERSION = (
    r"(?:[<>=~!]=|[<>]|version|v)\s?\d+(?:\.\d+)+"
    r"(?![\d.]{0,9} (?:files?|formats?|checkpoints?|archives?)\b)"
)
"""Of a package; that of a format is another thing."""
TOGETHER = (
    r"(?:\w{1,20} )?(?:set|used|combined|enabled|specified|True|passed|given)[^\n]{0,60}?\b(?:when|"
    r"while|together|with|at the same time|both|if|simultaneously)\b"
)

ROWS = (
    Cause(
        id="device-lacks-feature",
        messages=(
            r"not (?:currently )?(?:supported|available|implemented) (?:on|for|by|with) (?:the |"
            r"this )?(?:MPS|CPU|CUDA|XPU|HPU|NPU|TPU|ROCm|GPU|device|hardware|platform|"
            r"architecture)\b",
            r"[Uu]nsupported (?:compute capability|(?:GPU|CUDA|device) (?:arch\w{0,12}|capability|"
            r"type)|hardware)",
            rf"requires? {GENERATION}|only supports? {GENERATION}",
            rf"supported only on {GENERATION}|only supported on (?:CUDA devices with compute|"
            rf"{GENERATION})",
            r"compute capability (?:of )?(?:at least )?\d{1,2}\.\d\+? (?:or (?:higher|newer|above|"
            r"greater|later) )?(?:is |are )?(?:required|needed)",
            r"not supported in this architecture|(?:GPU|device) does ?n[o']t support (?:bf16|"
            r"bfloat16|fp8|float8|fp16|TF32|FP4)",
        ),
        examples=(
            "TypeError: BFloat16 is not supported on MPS",
            "AssertionError: Unsupported compute capability for GroupedGEMM kernels.",
            "AssertionError: FP8 block scaled GEMM requires Hopper and CUDA >= 12.9.",
            "RuntimeError: this kernel is only supported on Ampere",
            "AssertionError: Device compute capability 8.9 or higher required for FP8 execution.",
            "RuntimeError: Your GPU does not support bf16",
        ),
        wordings=(
            Wording(
                r"mixed precision requires a GPU|mixed precision requires .{1,40} and a supported "
                r"device|doesn't support bf16/gpu|requires Ampere or a "
                r"newer GPU|can only be used on CUDA devices",
                "ValueError: fp16 mixed precision requires a GPU (not 'cpu').",
                "The precision of the arguments needs a GPU that supports it, and the program "
                "found none: this GPU is older (bf16 needs compute capability 8.0), no GPU is "
                "visible, or torch is a build without CUDA.",
                "Look at torch.cuda.is_available() and torch.version.cuda first: if False or None, "
                "repair that (CUDA_VISIBLE_DEVICES, the GPUs of the job, a torch wheel with CUDA). "
                "Else choose the precision by the device: fp16 on a T4 or V100 "
                "(bf16=torch.cuda.is_bf16_supported()), on a Mac (MPS) mixed_precision='no'.",
                more=(
                    "ValueError: bf16 mixed precision requires PyTorch >= 1.10 and a supported "
                    "device.",
                ),
                owner=Owner.JOB,
            ),
            Wording(
                r"Bfloat16 is only supported on GPUs with compute capability of at least 8",
                "ValueError: Bfloat16 is only supported on GPUs with compute capability of at "
                "least 8.0. Your Tesla T4 GPU has compute capability 7.5.",
                "The engine takes the checkpoint's dtype, bfloat16, and this GPU (T4, V100, RTX "
                "20) has no hardware for it.",
                'Give dtype="half" (--dtype half; verl: rollout.dtype=float16), which also must '
                "be the training's dtype, or use a GPU of compute capability 8.0 or newer.",
                owner=Owner.JOB,
            ),
        ),
        why="The program asks for a number format or a kernel that this device, or this build for "
        "it, does not have.",
        fix="Ask for what the device has: float16 or float32 for bfloat16, bf16 for fp8, the "
        'plain form of a fused kernel (attn_implementation="sdpa", the option without grouped, '
        "fused or flash), PYTORCH_ENABLE_MPS_FALLBACK=1 on a Mac. A newer release of torch or of "
        "the library may have it, or a build for the CUDA that it names; if not, take a GPU of "
        "that compute capability.",
        owner=Owner.ENVIRONMENT,
        commands=("nvidia-smi --query-gpu=name,compute_cap --format=csv",),
        quotes=True,
    ),
    Cause(
        id="version-required",
        unless="and a supported device",
        messages=(
            rf"requires? .{{0,40}}?{VERSION}|required .{{0,40}}?{VERSION}",
            rf"depends on .{{0,40}}?{VERSION}|(?:supported|available|works?|tested) (?:only )?"
            rf"(?:for|with|in|from|since|on) .{{0,30}}?{VERSION}",
            rf"please (?:use|install) (?:(?!for |with |to )\S{{1,40}} ){{0,4}}?"
            rf"\S{{0,40}}?{VERSION}",
            r"requires? (?:a newer|a later|an older|the latest|a more recent) version",
            r"[Pp]lease update (?!(?:the|your) (?:data|config|code|stat))|"
            r"[Pp]lease upgrade |[Pp]lease downgrade |need to upgrade |try "
            r"upgrading ",
            r"is too (?:old|new) (?:for|to)\b|version .{0,60}is (?:not compatible|incompatible)",
        ),
        examples=(
            "ValueError: FSDP requires PyTorch >= 2.1.0",
            "xformers 0.0.26 depends on torch==2.3.0",
            "OSError: tensor parallel is only supported for `torch>=2.5`.",
            "ImportError: please install numpy==1.26.4",
            "ImportError: this function requires a newer version of accelerate",
            "RuntimeError: Please update the library to train this model",
            "RuntimeError: the installed version 0.9 is not compatible with this checkpoint",
        ),
        why="A package is installed in a version that another part of the program refuses. A "
        "pre-release (2.1.0a0) counts as older than its release.",
        fix="Install the version that the message names into the interpreter that trains (python "
        "-m pip install -U NAME), together with the packages that pin it, and restart. If it was "
        "upgraded already, another interpreter or an older copy on PYTHONPATH is in use.",
        owner=Owner.ENVIRONMENT,
        commands=("python -m pip show torch transformers accelerate trl peft",),
        quotes=True,
    ),
    Cause(
        id="sizes-do-not-divide",
        messages=(
            r"divisible by|(?:to|should) be a multiple of|must be a multiple|\bnot (?:a )?"
            r"multiple of|must "
            r"divide\b",
        ),
        examples=(
            "AssertionError: FP8 execution requires 2D input matrices with height divisible by 8",
            "RuntimeError: world_size (8) is not divisible by 16",
            "AssertionError: num_query_groups must be divisible by context_parallel_size",
        ),
        wordings=(
            Wording(
                r"[Tt]otal number of attention heads \(\d{1,6}\) must be divisible by|"
                r"num_attention_heads .{0,60}must be divisible by .{0,20}(?:tensor|sequence)",
                "ValueError: Total number of attention heads (28) must be divisible by tensor "
                "parallel size (8).",
                "Tensor and sequence parallelism give each GPU the same number of heads.",
                "Choose a parallel size that divides the number of heads (28 heads: 1, 2, 4, 7; "
                "also the key and value heads for some engines), and use the other GPUs for "
                "data or pipeline parallelism.",
            ),
            Wording(
                r"only support equal chunk|mini_batch_size[^\n]{0,60}should be (?:larger|greater) "
                r"than or equal to[^\n]{0,30}batch_size",
                "AssertionError: only support equal chunk. Got size of DataProto 2 and chunk 4.",
                "A batch of samples is split over the GPUs or worker processes, and its size is "
                "not a multiple of their number, or a part is larger than the whole.",
                "Make the batch (data.train_batch_size, the validation's batch, prompts x answers "
                "per prompt) a multiple of the GPUs (nodes x GPUs per node), and the mini-batch a "
                "divisor of it that is no smaller than the micro-batch; pad or drop the last "
                "batch.",
            ),
            Wording(
                r"(?:channels|groups|embed_dim|hidden_size|width|features|"
                r"d_model)\b[^\n]{0,60}must be "
                r"divisible by|is not a multiple of the number of attention heads|to be "
                r"divisible by "
                r"the square of",
                "ValueError: in_channels must be divisible by groups",
                "Channels are not divisible by groups, a width not by heads, or channels not by "
                "the square of an upscaling factor.",
                "Choose numbers that divide: channels by groups (or num_groups), width by "
                "heads, the channels before a PixelShuffle by the square of its factor.",
            ),
        ),
        told_by="batch sizes, numbers of ranks, heads per rank or sequence lengths are meant, and "
        "no layer's channels",
        why="A size is split over ranks, heads, groups or blocks, and does not divide.",
        fix="Change one of the numbers in the message so that it divides: the batch size or the "
        "number of generations by the ranks, heads by the tensor-parallel size, GPUs by the "
        "product of the parallel sizes, sequence lengths by padding to a multiple "
        "(pad_to_multiple_of=8; 16 or 32 for fp8). Leave layers that are too small out of fp8.",
        quotes=True,
        sources=("torch-conv",),
    ),
    Cause(
        id="settings-refused",
        refines=("missing-key",),
        messages=(
            r"MisconfigurationException: Invalid type|ConfigValueError|DeepSpeedConfigError|"
            r"\d{1,4} validation errors? for \w|omegaconf\.errors\.|hydra\.errors\.",
            r"yaml\.(?:scanner\.ScannerError|parser\.ParserError|constructor\.ConstructorError)",
            r"Template \w{1,40} does not exist",
        ),
        examples=(
            "ValueError: Template qwen3 does not exist.",
            "MisconfigurationException: Invalid type provided for checkpoint_callback: Expected "
            "bool",
            "yaml.scanner.ScannerError: mapping values are not allowed here",
        ),
        wordings=(
            Wording(
                r"\.py: error: argument [^\n]{1,300}: not allowed with argument ",
                "train.py: error: argument --bf16: not allowed with argument --fp16",
                "Two arguments of the command line exclude each other.",
                "Remove one of the two arguments that the message names from the command or the "
                "job script; look also into what it puts together from variables.",
            ),
            Wording(
                r": error: argument [^\n]{1,300}: invalid (?:typing\.(?:Optional|Union|List)\b|"
                r"Optional\b)",
                "fairseq-train: error: argument --max-tokens: invalid typing.Optional[int] value: "
                "'4096'",
                "argparse gets a type hint, which cannot be called with the text. In a program "
                "that makes its arguments from the types of a configuration, it is older than "
                "this Python, which writes the hints in another way.",
                "In your own code pass the type itself: add_argument(..., type=int). Upgrade the "
                "program otherwise (fairseq from its main branch), or run it with the Python that "
                "its release names.",
                ("python --version",),
            ),
            Wording(
                r"\.py: error: argument [^\n]{1,300}: (?!invalid (?:choice|typing\.|Optional\b))",
                "train.py: error: argument --fp16: Truthy value expected: got s",
                "An argument of the command line has a value of another type than it takes, or "
                "none.",
                "Correct that argument in the command or the job script: look at the word behind "
                "it there, a lost line continuation (a space behind the backslash), an empty "
                "variable of the shell, and quotes.",
            ),
            Wording(
                r"unrecognized arguments:|remaining_argv|[Nn]o such option|[Uu]nknown (?:option|"
                r"argument|flag|parameter|keyword|key)s?\b|"
                r"are not used by the HfArgumentParser|"
                r"Extra inputs are not permitted|extra fields not permitted|"
                r"ConfigKeyError|ConfigAttributeError|ConfigCompositionException|Key '.{1,80}' "
                r"(?:is "
                r"not in struct|not in ')",
                "omegaconf.errors.ConfigKeyError: Key 'use_tarred_dataset' not in 'MTEncDecConfig'",
                "An argument or a key of the configuration is unknown to the installed version: "
                "it is misspelled, stands on the wrong level, or belongs to a newer or older "
                "release.",
                "Compare its spelling and its level with --help or the schema of the installed "
                "version; hydra adds new keys with +key=value. If the documentation has it, "
                "upgrade the program: it describes another release than the installed one.",
            ),
            Wording(
                r"is not a valid (?!directory|path|file|folder|url|JSON|image|checkpoint)\w|"
                r"is not (?:a )?(?:recogni[sz]ed|supported|allowed|known) "
                r"(?:value|"
                r"option|choice|type|name|backend|optimizer|scheduler|model|dtype|format|strategy)|"
                r"(?:select|choose|pick|expected|be|is|are) (?:either )?one of:? ?[\[({'`\"]|"
                r"invalid choice:|(?:[Aa]vailable|[Ss]upported|[Vv]alid|[Aa]llowed|[Pp]ossible) "
                r"(?:option|choice|value|type|name|key|backend)s? (?:are|is|:)|"
                r"(?:[Uu]nknown|[Ii]nvalid|[Uu]nsupported) (?:\w{1,20} )?(?:optimizer|"
                r"scheduler|lr_scheduler|"
                r"strategy|backend|model type|loss|dtype|precision|value|template|method|"
                r"format(?! string))\b|"
                r"(?:Unknown|Unsupported|Invalid|Unrecognized) \w{1,40}(?: \w{1,40})?:? ?['\"`]",
                "ValueError: fsdp2 is not a valid FSDPOption, please select one of ['full_shard']",
                "An option has a value that the installed version does not know.",
                "Take one of the values that the message or --help lists. If the documentation "
                "has yours, the installed version is older or newer than it: upgrade, or install "
                "the version that it describes.",
            ),
            Wording(
                rf"cannot be {TOGETHER}|can not be {TOGETHER}|"
                r"conflicting option|mutually exclusive|at the same time|cannot (?:use|set|"
                r"specify|pass|provide|"
                r"enable|"
                r"have) both|"
                r"(?:is|are) (?:not compatible|incompatible|not supported) (?:together )?with\b|"
                r"conflicts? with\b|in conflict with|[Oo]nly one of\b|specified in both\b",
                "ValueError: `--mixed_precision` arg cannot be set to `bf16` when `fp16` is set "
                "in the DeepSpeed config file.",
                "Two settings that exclude each other are both on; one often stands where nobody "
                "looks: accelerate's default configuration, a DeepSpeed file, an environment "
                "variable.",
                "Decide which of the two is meant and give both places the same value, or remove "
                'the other: command line, YAML, accelerate config, DeepSpeed JSON ("auto" takes '
                "the value of the Trainer), environment.",
                commands=("accelerate env", "env | grep -E 'ACCELERATE|FSDP|DEEPSPEED'"),
            ),
            Wording(
                r"[Pp]lease specify\b|[Pp]lease provide\b|[Pp]lease define\b|[Pp]lease pass |"
                r"[Pp]lease set |the following arguments are required|"
                r"(?:must|need to|needs to|has to|have to|should) (?:be )?(?:specif|provid|defined|"
                r"set|passed|given|supply)|"
                r"[Mm]issing (?:mandatory|required) (?:value|key|option|field|argument|parameter|"
                r"config)|"
                r"(?:is|are) (?:required|not set|not specified|not provided|not configured|"
                r"null)\b|No "
                r"'?\w{1,60}(?:\(\))?'? (?:method )?(?:was )?(?:defined|provided|configured|"
                r"specified)",
                "ValueError: Please specify the ZeRO optimization config in the DeepSpeed config.",
                "A setting, a file or a method that this step needs was not given.",
                "Give what the message names, where it names it: the call, the command line, a "
                "section of the configuration file (DeepSpeed: zero_optimization; YAML: the same "
                "level as in the documentation), the environment; or leave out the step that "
                "needs it.",
            ),
        ),
        why="The framework refuses its configuration: a value of another type or in another place "
        "than the installed version expects, or a file that cannot be parsed.",
        fix="Correct the field that the message names (in YAML look at the indentation, at colons "
        "and at tabs; numbers such as 1e-4 need a point: 1.0e-4). For a configuration of another "
        "release install that release, or compare with the signature: help(CLASS).",
        quotes=True,
        sources=("accelerate-plugins",),
    ),
    Cause(
        id="other-than-expected",
        messages=(
            r"(?:Error|Exception)\b[^\n]{0,240}?\b[Ee]xpect(?:s|ed|ing)? [^\n]{1,160}?,? (?:but )?"
            r"(?:got|found|received|was|were|has|is|given)\b",
            r"(?:Error|Exception)\b[^\n]{0,240}?\b(?:have|has|of|with) different (?:shape|"
            r"length|size|"
            r"dtype|device|number|type)s?\b",
            r"(?:Error|Exception): [^\n]{0,200}?(?:Size\(\[[\d, ]{0,80}\]\)|\([\d, ]{1,60}\)|"
            r"\b\d{1,12})"
            r" ?(?:vs\.?|!=|is not equal to|versus) ?(?:torch\.Size\(|\(|\d)",
            r"(?:Error|Exception)\b[^\n]{0,240}?\b(?:do(?:es)?|did) ?n[o']t (?:match|"
            r"correspond|agree|"
            r"equal|fit)\b|(?:Error|Exception)\b[^\n]{0,240}?\bmismatch(?:ed|es)?\b|(?:Error|Exception)"
            r"\b[^\n]{0,240}?\b(?:must|should|needs? to|has to|have to) be (?:the same|equal|"
            r"identical)",
        ),
        examples=(
            "ValueError: Expected 8 rollouts, got 4",
            "AssertionError: response mask and advantages have different shapes "
            "torch.Size([8, 512])",
            "AssertionError: Results do not correspond to current coco set",
            "AssertionError: torch.Size([4, 511, 32000]) vs torch.Size([4, 512])",
        ),
        why="The program compares two things that must agree, and the message names both: what it "
        "needs and what it was given.",
        fix="Print both just before the line of the last frame that is yours, with their shapes, "
        "lengths and types. Numbers that differ by 1 are a shift (labels, a mask, an end token); a "
        "multiple is the number of ranks, generations or accumulated steps; others come from a "
        "setting that two places have (configuration and checkpoint, tokenizer and model, data "
        "and head). Correct the side that is wrong.",
        quotes=True,
    ),
    Cause(
        id="value-of-another-kind",
        errors=("TypeError", "AttributeError"),
        messages=(
            r"TypeError: [^\n]{0,120}?(?:object is not (?:iterable|subscriptable)|object does not "
            r"support item|argument of type '\w{1,60}' is not|unsupported operand type|can only "
            r"concatenate|unhashable type|must be real number|only length-1 arrays|object of type "
            r"'\w{1,60}' has no len)",
            r"AttributeError: property '\w{1,60}' of ",
        ),
        examples=(
            "TypeError: argument of type 'KeyError' is not iterable",
            "AttributeError: property 'device' of 'Net' object has no setter",
        ),
        wordings=(
            Wording(
                r"AttributeError: (?:can't set attribute|property '\w{1,60}' of [^\n]{1,80} has no "
                r"setter)",
                "AttributeError: can't set attribute",
                "The line assigns to a name that the class computes: a property without a setter, "
                "often one that was an attribute in an older release, or a field of a namedtuple.",
                "Assign to what it is computed from: tokenizer.max_len is model_max_length "
                "(transformers 3 and newer), self.hparams = ... is self.save_hyperparameters(...) "
                "(Lightning), a field of a namedtuple is value._replace(field=...). Give an "
                "attribute of your own another name. If the line is a library's, upgrade it or "
                "install the releases of the program's requirements.",
            ),
        ),
        why="A value is of another kind than the line needs; the message names its kind.",
        fix="Print type(value) before the last frame that is yours: a tensor or an array where one "
        "number is needed takes .item(), a number within a text str(x), a tuple that is changed "
        "list(x). If the line is a library's own, its caller was written for another release of "
        "it: upgrade both, or install the versions of the program's requirements.",
        commands=("python -m pip list",),
        quotes=True,
    ),
    Cause(
        id="environment-variable-wanted",
        messages=(
            r"(?:Error|Exception)\b[^\n]{0,300}?\b(?:environment variable|env(?:\.| "
            r")?var(?:iable)?) "
            r"['\"`]?(?P<name>[A-Z][A-Z0-9_]{2,60})",
            r"(?:Error|Exception)\b[^\n]{0,300}?\b(?:set|export|define) (?:the "
            r")?['\"`]?(?-i:[A-Z][A-Z0-9]{1,20}"
            r"_[A-Z0-9_]{1,40})",
        ),
        examples=(
            "RuntimeError: Using async gradient all reduce requires setting the environment "
            "variable "
            "CUDA_DEVICE_MAX_CONNECTIONS to 1",
            "ValueError: please export HF_HOME before the start",
        ),
        why="The program needs an environment variable that this process does not have, or has "
        "with another value.",
        fix="Export the variable that the message names in the script that starts the job, before "
        "the launcher: ranks of other nodes get it with srun --export=ALL, mpirun -x NAME, "
        "deepspeed's .deepspeed_env, Ray's runtime_env['env_vars'].",
        owner=Owner.ENVIRONMENT,
        quotes=True,
    ),
    Cause(
        id="message-says-what-to-do",
        messages=(
            r"(?:Error|Exception|ERROR|error)\b[^\n]{0,600}?\b"
            r"(?:[Pp]lease (?!report)|HINT: |Hint: |[Mm]ake "
            r"sure |[Tt]ry (?:to |setting |using |passing |increasing |reducing )|To fix |[Yy]ou "
            r"(?:must|should|need to|have to) )",
        ),
        examples=("RuntimeError: the cache is stale. Please remove it and run again",),
        why="The cause is not in this table; the message itself asks for something.",
        fix="Do what the message asks for, and read the lines before it: the first exception "
        "counts.",
        quotes=True,
    ),
    Cause(
        id="raised-while-compiling",
        messages=(
            r"torch[/\\]_(?:inductor|functorch|dynamo)[/\\](?!eval_frame)[^\n]{1,80}, line \d",
        ),
        examples=('File "/opt/torch/_inductor/graph.py", line 354, in call_function',),
        why="The exception was raised while torch.compile traced or compiled the model.",
        fix="Train without it to see whether the model itself is sound: TORCH_COMPILE_DISABLE=1, "
        "or remove torch.compile (torch_compile=False). Then upgrade torch, compile with "
        "dynamic=False or only the blocks, and put torch.compiler.disable on the function in the "
        "traceback.",
        owner=Owner.ENVIRONMENT,
        commands=("TORCH_COMPILE_DISABLE=1 python train.py",),
        quotes=True,
    ),
    Cause(
        id="assertion-without-text",
        messages=(r"\bassert ?(?: |\()[^\n]{3,300}\n[^\n]{0,30}AssertionError\s{0,3}(?:\n|$)",),
        examples=("    assert len(self.files) > 0\nAssertionError\n",),
        why="A condition that the program asserts does not hold, and it says no more than the "
        "line above AssertionError.",
        fix="Read that line: a length of 0 is a path or a directory without the files that it "
        "looks for; coordinates in the wrong order (x1 < x2) are of a box in a label file, which "
        "has to be corrected or left out; a type or a device is of an argument. Print its names "
        "just before it, and look at the last frame of your own code.",
        quotes=True,
        sources=("python-exceptions",),
    ),
)
