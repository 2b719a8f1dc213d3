"""Data that are loaded: files, splits, columns, pictures, and what workers may hold."""

from __future__ import annotations

from doctor._util.owner import Owner
from doctor.errors.cause import Cause

ROWS = (
    Cause(
        id="columns-of-other-lengths",
        errors=("ArrowInvalid",),
        messages=(r"Column \d{1,6} named .{1,80} expected length \d{1,12} but got length",),
        examples=(
            "pyarrow.lib.ArrowInvalid: Column 1 named input_ids expected length 1000 but got "
            "length 1003",
        ),
        why="A batched map returned more or fewer rows than it got, and the old columns are kept "
        "beside the new ones.",
        fix="Drop the old columns: dataset.map(function, batched=True, "
        "remove_columns=dataset.column_names); or return as many rows per batch as came in.",
    ),
    Cause(
        id="data-files-missing",
        errors=(
            "DataFilesNotFoundError",
            "FileNotFoundError",
            "ValueError",
            "DatasetNotFoundError",
        ),
        messages=(
            r"No \(supported\) data files found",
            r"Couldn't find (?:a |any )?(?:data(?:set)? (?:script|file)|file at)",
            r"Unable to find '.{1,300}' with any supported extension|doesn't exist on the Hub or "
            r"cannot be accessed",
        ),
        examples=(
            "datasets.exceptions.DataFilesNotFoundError: No (supported) data files found in data",
            "FileNotFoundError: Couldn't find a dataset script at /data/x/x.py or any data file "
            "in the same directory.",
            "datasets.exceptions.DatasetNotFoundError: Dataset 'org/name' doesn't exist on the "
            "Hub or cannot be accessed.",
        ),
        why="load_dataset found neither a repository nor readable files under that name: a wrong "
        "or relative path, another ending than json, jsonl, csv, parquet, txt or arrow, a "
        "directory of save_to_disk, or a private repository.",
        fix='Name format and files: load_dataset("json", data_files="/data/train.jsonl"); a '
        "directory that save_to_disk wrote is read with load_from_disk. Check the path in the "
        "directory and container where the training starts; for a private repository hf auth "
        "login.",
        commands=("ls -l DIRECTORY",),
    ),
    Cause(
        id="split-unknown",
        errors=("ValueError", "KeyError"),
        messages=(r"Unknown split .\w{1,60}.\. Should be one of",),
        examples=("ValueError: Unknown split \"validation\". Should be one of ['train'].",),
        why="The data set has no split of that name.",
        fix="Take one that the message lists, or make it: "
        'dataset["train"].train_test_split(test_size=0.05, seed=0), which names them train and '
        "test.",
    ),
    Cause(
        id="data-set-not-generated",
        errors=("DatasetGenerationError",),
        messages=(r"An error occurred while generating the dataset",),
        examples=(
            "datasets.exceptions.DatasetGenerationError: An error occurred while generating the "
            "dataset",
        ),
        why="Reading the files into the cache failed; this is only the last exception of the "
        "chain.",
        fix="Read the first exception of the chain above it (a cast, a JSON error, a full disk) "
        "and explain that one. After correcting the file delete what was half written: "
        'load_dataset(..., download_mode="force_redownload"), and check df -h of '
        "HF_DATASETS_CACHE.",
        role="summary",
        commands=("df -h ~/.cache/huggingface",),
    ),
    Cause(
        id="picture-unreadable",
        errors=("UnidentifiedImageError", "OSError", "error"),
        messages=(
            r"cannot identify image file|image file is truncated|broken data stream when reading "
            r"image",
            r"Assertion failed\) !_src\.empty\(\)|!ssize\.empty\(\)",
        ),
        examples=(
            "PIL.UnidentifiedImageError: cannot identify image file '/data/a.jpg'",
            "OSError: image file is truncated (13 bytes not processed)",
            "cv2.error: OpenCV(4.8.0) error: (-215:Assertion failed) !_src.empty() in function "
            "'cvtColor'",
        ),
        why="A picture is cut off, empty, of another format than its name, or its path does not "
        "exist: cv2.imread then returns None without an error.",
        fix="Find them before training: try Image.open(path).verify() for every path and leave "
        "out what fails; test os.path.exists for OpenCV (paths with non-ASCII letters fail on "
        "Windows). ImageFile.LOAD_TRUNCATED_IMAGES = True reads cut-off ones with a grey rest.",
        commands=("find DATA -size -1k -name '*.jpg'",),
    ),
    Cause(
        id="copy-refused",
        errors=("ValueError",),
        messages=(r"Unable to avoid copy while creating an array",),
        examples=(
            "ValueError: Unable to avoid copy while creating an array as requested. If using "
            "`np.array(obj, copy=False)` replace it with `np.asarray(obj)`",
        ),
        why="numpy 2 changed the meaning of copy=False, which an older datasets, pandas or "
        "transformers uses.",
        fix="Upgrade the package in the frame above (pip install -U datasets), or install "
        "numpy<2. In code of your own write np.asarray(obj).",
        owner=Owner.ENVIRONMENT,
        commands=("python -m pip show numpy datasets",),
    ),
    Cause(
        id="worker-starts-processes",
        errors=("AssertionError",),
        messages=(r"daemonic processes are not allowed to have children",),
        examples=("AssertionError: daemonic processes are not allowed to have children",),
        why="A DataLoader worker or a process of a pool starts processes of its own: a DataLoader "
        "with workers, a pool, or a tokenizer's map with num_proc inside the data set.",
        fix="Set num_workers=0 for the inner loader and num_proc=None inside a worker, prepare "
        "such work before training, or use threads (concurrent.futures.ThreadPoolExecutor) there.",
    ),
    Cause(
        id="worker-returns-graph",
        errors=("RuntimeError",),
        messages=(r"Cowardly refusing to serialize non-leaf tensor",),
        examples=(
            "RuntimeError: Cowardly refusing to serialize non-leaf tensor which requires_grad, "
            "since autograd does not support crossing process boundaries.",
        ),
        why="The data set computes with tensors that require gradients (a model or a parameter "
        "inside it), and a worker cannot send their graph.",
        fix="Return x.detach() from the data set, compute under torch.no_grad(), and keep models "
        "out of it; features of a frozen model are computed once before training.",
    ),
    Cause(
        id="pinned-tensor-on-gpu",
        errors=("RuntimeError",),
        messages=(r"cannot pin '.{1,60}' only dense CPU tensors can be pinned",),
        examples=(
            "RuntimeError: cannot pin 'torch.cuda.FloatTensor' only dense CPU tensors can be "
            "pinned",
        ),
        why="The data set or the collate function returns tensors that are on the GPU already.",
        fix="Return CPU tensors and move the batch in the loop with .to(device, "
        "non_blocking=True); or pin_memory=False (dataloader_pin_memory=False) and num_workers=0 "
        "if the data must live on the GPU.",
    ),
    Cause(
        id="generation-settings-invalid",
        errors=("ValueError",),
        messages=(
            r"generation config instance is invalid|GenerationConfig` is invalid|"
            r"`generation_config` default values have been modified",
        ),
        examples=(
            "ValueError: The generation config instance is invalid -- `.validate()` throws "
            "warnings and/or exceptions. Fix these issues to save the configuration.",
        ),
        why="The model's generation settings contradict each other (temperature or top_p without "
        "do_sample), and saving a checkpoint checks them.",
        fix="Correct them after loading: model.generation_config.do_sample = True, or set "
        "temperature=None and top_p=None.",
    ),
    Cause(
        id="scaler-used-twice",
        refines=("autograd-misuse",),
        errors=("RuntimeError",),
        messages=(r"(?:unscale_|step)\(\) (?:has already been called|is being called after)",),
        examples=(
            "RuntimeError: unscale_() has already been called on this optimizer since the last "
            "update().",
            "RuntimeError: step() has already been called since the last update().",
        ),
        why="scaler.unscale_ or scaler.step came twice for one optimizer between two "
        "scaler.update(): update is missing, or a framework (accelerate.clip_grad_norm_, "
        "Lightning) unscales as well.",
        fix="Per optimizer step: scale(loss).backward(), unscale_ once, clip, step, then update() "
        "once for all optimizers. With accumulation do all of that only in the last micro batch.",
    ),
    Cause(
        id="processor-not-loaded",
        refines=("value-is-none", "module-without-return"),
        errors=("AttributeError",),
        messages=(
            r"'NoneType' object has no attribute '(?:image_processor|tokenizer|feature_extractor|"
            r"video_processor|image_seqlen|chat_template|model_max_length|pad_token(?:_id)?|"
            r"eos_token(?:_id)?|tokenize|encode|decode|image_token)'",
        ),
        examples=("AttributeError: 'NoneType' object has no attribute 'image_processor'",),
        why="The tokenizer or the processor of the model was not loaded, so that the program "
        "holds None: its files are not beside the weights, or the installed transformers does not "
        "know it.",
        fix="Copy the files of the original model into the model's directory "
        "(preprocessor_config.json, tokenizer files, chat_template), which a trainer does not "
        "always save; try AutoProcessor.from_pretrained(PATH) alone to see its error; upgrade "
        "transformers and the training program for a newer model.",
        commands=("ls -l MODEL",),
    ),
)
