"""Hugging Face datasets and the hub: tables, scripts, limits."""

from __future__ import annotations

from doctor._util.owner import Owner
from doctor.errors.cause import Cause

ROWS = (
    Cause(
        id="column-changes-type",
        errors=("ArrowInvalid", "ArrowTypeError", "TypeError"),
        messages=(
            r"JSON parse error: Column\(.{0,80}\) changed from \w{3,12} to",
            r"Expected bytes, got an? '\w{2,20}' object",
            r"Couldn't cast (?:array of type|\w{1,20}\n)|CastError: Couldn't cast|Cannot write "
            r"struct type",
            r"cannot mix (?:list|struct) and non-",
        ),
        examples=(
            "pyarrow.lib.ArrowInvalid: JSON parse error: Column() changed from object to string "
            "in row 0",
            "pyarrow.lib.ArrowTypeError: Expected bytes, got a 'int' object",
            "TypeError: Couldn't cast array of type string to null",
            "pyarrow.lib.ArrowInvalid: cannot mix list and non-list, non-null values",
        ),
        why="A column has values of two types, such as numbers and texts or a list in some rows: "
        "a table has one type per column. Files of several kinds in one directory have the same "
        "effect.",
        fix="Write each field with one type in all rows and files (str(value), always a list), "
        "name the files with data_files=, or give features=.",
    ),
    Cause(
        id="columns-differ",
        refines=("column-changes-type",),
        errors=("DatasetGenerationCastError", "CastError"),
        messages=(
            r"All the data files must have the same columns",
            r"because column names don't match",
        ),
        examples=(
            "datasets.exceptions.DatasetGenerationCastError: An error occurred while generating "
            "the dataset. All the data files must have the same columns, but at some point there "
            "are 2 new columns",
            "datasets.table.CastError: Couldn't cast because column names don't match",
        ),
        why="The files of one split have different columns.",
        fix="Load them apart and select the common columns before concatenate_datasets, or name "
        "the files that belong together with data_files=.",
    ),
    Cause(
        id="table-without-rows",
        errors=("SchemaInferenceError",),
        messages=(r"Please pass `features` or at least one example",),
        examples=(
            "datasets.exceptions.SchemaInferenceError: Please pass `features` or at least one "
            "example when writing data",
        ),
        why="No row was left: a filter or a limit of lengths removed all, or the generator gave "
        "none.",
        fix="Print the number of rows after each step; raise the limit of lengths, or correct the "
        "filter or the names of the fields that it reads.",
    ),
    Cause(
        id="table-too-large",
        errors=("ArrowInvalid",),
        messages=(
            r"offset overflow while concatenating arrays",
            r"straddling object straddles two block boundaries",
            r"too large to fit in C integer type",
        ),
        examples=(
            "pyarrow.lib.ArrowInvalid: offset overflow while concatenating arrays",
            "pyarrow.lib.ArrowInvalid: Value 2147486084 too large to fit in C integer type",
            "pyarrow.lib.ArrowInvalid: straddling object straddles two block boundaries (try to "
            "increase block size?)",
        ),
        why="One piece of a table exceeds 2 GiB or 2**31 values, or one row of JSON a block.",
        fix="Use smaller pieces: writer_batch_size=100 and batch_size= of map, JSON lines instead "
        "of one large document (chunksize= for long rows), images as files instead of bytes, "
        "Dataset.from_generator instead of one from_dict of everything.",
    ),
    Cause(
        id="dataset-scripts-removed",
        errors=("RuntimeError",),
        messages=(r"Dataset scripts are no longer supported",),
        examples=("RuntimeError: Dataset scripts are no longer supported, but found wikitext.py",),
        why="datasets 4.0 runs no code of a dataset's repository.",
        fix="Load the Parquet version of the repository (revision='refs/convert/parquet'), "
        "another repository with the same data, or convert it once with datasets<4.",
        owner=Owner.ENVIRONMENT,
    ),
    Cause(
        id="feature-of-newer-datasets",
        errors=("ValueError",),
        messages=(r"Feature type '\w{2,20}' not found",),
        examples=(
            "ValueError: Feature type 'List' not found. Available feature types: ['Value', "
            "'ClassLabel', 'Sequence']",
        ),
        why="The dataset was saved by a newer version of datasets than this one.",
        fix="Upgrade datasets (pip install -U datasets), or delete its cache and build it again "
        "with this version.",
        owner=Owner.ENVIRONMENT,
    ),
    Cause(
        id="decoder-missing",
        errors=("ImportError", "RuntimeError"),
        messages=(
            r"please install 'torchcodec'",
            r"Could not load libtorchcodec",
            r"lib(?:av\w{3,10}|sw\w{4,8})\.so[.\d]{0,10}: cannot open|find appropriate (?:audio "
            r")?backend to handle",
        ),
        examples=(
            "ImportError: To support decoding audio data, please install 'torchcodec'.",
            "RuntimeError: Could not load libtorchcodec. Likely causes: 1. FFmpeg is not properly "
            "installed",
            "OSError: libavutil.so.56: cannot open shared object file: No such file or directory",
            "RuntimeError: Couldn't find appropriate backend to handle uri a.wav and format None.",
        ),
        refines=("library-does-not-fit",),
        why="Audio and video are decoded by torchcodec, which needs FFmpeg and the version that "
        "fits torch.",
        fix="Install FFmpeg (4 to 7) and the torchcodec of this torch, or load the bytes "
        "(Audio(decode=False)) and decode them with soundfile (pip install soundfile; torchaudio "
        "up to 2.8 takes sox or FFmpeg from the system: apt-get install ffmpeg, conda install "
        "ffmpeg).",
        owner=Owner.ENVIRONMENT,
    ),
    Cause(
        id="hub-rate-limit",
        errors=("HfHubHTTPError", "HTTPError"),
        messages=(r"429 (?:Client Error|Too Many Requests)", r"Too Many Requests for url"),
        examples=(
            "huggingface_hub.errors.HfHubHTTPError: 429 Client Error: Too Many Requests for url: "
            "https://huggingface.co/api/models/a",
            "requests.exceptions.HTTPError: Too Many Requests for url: https://huggingface.co/a",
        ),
        why="The hub limits requests per user and address: every rank and worker of a cluster "
        "asks on its own.",
        fix="Download once on one node into a shared HF_HOME, then run with HF_HUB_OFFLINE=1; log "
        "in, which raises the limit; let rank 0 load first.",
        owner=Owner.ENVIRONMENT,
        retry="again",
        commands=("export HF_HUB_OFFLINE=1",),
    ),
    Cause(
        id="pin-memory-thread",
        errors=("RuntimeError",),
        messages=(r"Pin memory thread exited unexpectedly",),
        examples=("RuntimeError: Pin memory thread exited unexpectedly",),
        why="The thread of the DataLoader that copies batches into pinned memory ended: host "
        "memory or /dev/shm is exhausted, or CUDA failed in it.",
        fix="Look for an error of memory or of CUDA before it; use pin_memory=False, fewer "
        "workers and a smaller prefetch_factor as a test.",
        owner=Owner.ENVIRONMENT,
        commands=("df -h /dev/shm", "free -g"),
    ),
    Cause(
        id="dataset-column-missing",
        refines=("missing-key", "hook-on-a-replaced-layer", "absent-in-samples"),
        errors=("KeyError",),
        messages=(
            r"KeyError: '(?:text|texts|prompt|prompts|messages|conversations?|chosen|rejected|"
            r"completion|instruction|output|response|question|answer|content|images?|audio|"
            r"labels?|input_ids|source|target|sentence\d?|query|tokens)'",
            r"(?:Column|column) .{1,80} not in the dataset|features\[\"\w{1,40}\"\]",
        ),
        examples=(
            "KeyError: 'text'",
            'KeyError: "Column labels not in the dataset. Current columns in the dataset: '
            "['text']\"",
        ),
        why="The data set, or what its preprocessing returns, has no column of that name.",
        fix="Print dataset.column_names and name your column in the configuration "
        "(dataset_text_field, the columns of the format), or rename it: "
        "dataset.rename_column(OLD, NEW). SFT takes text, messages, or prompt and completion; "
        "preference training prompt, chosen and rejected; a formatting function replaces the "
        "column. Columns that the collator needs are dropped by remove_unused_columns=True.",
        commands=("doctor data TARGET --show 2",),
    ),
    Cause(
        id="video-undecodable",
        errors=("RuntimeError", "ValueError"),
        messages=(
            r"No valid stream found in input|no more frames left to decode|[Ii]nvalid data found "
            r"when processing input|moov atom not found|[Ff]ailed to (?:open|decode) (?:the "
            r")?(?:video|audio)",
        ),
        examples=(
            "ValueError: No valid stream found in input file. Is -1 of the desired media type?",
            "RuntimeError: Requested next frame while there are no more frames left to decode.",
        ),
        why="A video or audio file is cut off, a Git LFS pointer, of a codec that this decoder "
        "lacks, or has fewer frames than its header says.",
        fix="Try the file alone with ffprobe FILE. Fetch pointers (git lfs pull; files of about "
        "130 bytes) and broken downloads again; convert an unknown codec (AV1) or take another "
        'decoder (video_backend=pyav); ask only for frames that exist (seek_mode="exact").',
        commands=("find DATA -size -1k -name '*.mp4'", "ffprobe FILE"),
    ),
    Cause(
        id="nested-array-in-a-column",
        errors=("ArrowInvalid",),
        messages=(r"Can only convert 1-dimensional array values",),
        examples=("ArrowInvalid: Can only convert 1-dimensional array values",),
        why="A column gets arrays of several dimensions, and its type was not declared so.",
        fix="Declare the feature, Array2D or Array3D(shape=..., dtype=...), or return lists: "
        "array.tolist(). In a batched map the first dimension is the sample.",
    ),
)
