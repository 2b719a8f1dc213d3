"""Files whose content is not what their name or their reader expects."""

from __future__ import annotations

from doctor.errors.cause import Cause, Wording

ROWS = (
    Cause(
        id="file-not-json",
        errors=("JSONDecodeError",),
        messages=(
            r"JSONDecodeError: (?:Expecting (?:value|property name|',' delimiter)|Extra data|"
            r"Unterminated string|Invalid control)",
        ),
        examples=("json.decoder.JSONDecodeError: Expecting value: line 1 column 1 (char 0)",),
        why="A file or an answer that should be JSON is not: at line 1 column 1 it is empty, an "
        'error page or a Git LFS pointer; "Extra data" is a file of JSON lines that is read as '
        "one; elsewhere it is cut off or edited.",
        fix="Look at its beginning: head -c 200 FILE. Download or write it again (git lfs pull); "
        'read JSON lines line by line (load_dataset("json", ...)); a configuration that was cut '
        "off by a full disk comes from an earlier checkpoint.",
        commands=("head -c 200 FILE",),
    ),
    Cause(
        id="file-not-text",
        errors=("UnicodeDecodeError", "UnicodeEncodeError"),
        messages=(
            r"'(?:utf-8|utf8|gbk|cp\d{3,4}|charmap|ascii|latin-1)' codec can't (?:decode|encode)",
        ),
        examples=(
            "UnicodeDecodeError: 'utf-8' codec can't decode byte 0x80 in position 0: invalid "
            "start byte",
        ),
        why="A text is read in another encoding than it was written in, or a binary file (a "
        "checkpoint, an archive, a picture) is read as text; Windows reads in the encoding of its "
        "language.",
        fix='Name the encoding: open(path, encoding="utf-8"), or set PYTHONUTF8=1 on Windows. '
        "0x80 at position 0 is a pickle (torch.load), 0x1f8b gzip, 0x89 a PNG; ._ files of macOS "
        "and .DS_Store in the data directory are binary: leave them out.",
        commands=("file FILE", "head -c 16 FILE | xxd"),
        sources=("utf8-debugging",),
    ),
    Cause(
        id="file-is-a-pointer",
        refines=("checkpoint-damaged", "data-ends"),
        errors=("UnpicklingError",),
        messages=(
            r"UnpicklingError: invalid load key, '(?:v|<)'|could not parse ModelProto",
            r"version https://git-lfs",
        ),
        examples=(
            "_pickle.UnpicklingError: invalid load key, 'v'.",
            "version https://git-lfs.github.com/spec/v1",
        ),
        why="The file begins with v: it is a Git LFS pointer of some hundred bytes in place of "
        "the weights (with < it is an HTML page): the repository was cloned without Git LFS, or "
        "over its limit.",
        fix="Fetch the real file: git lfs install && git lfs pull in the repository, or download "
        "it by its address (hf download). ls -l shows that it is some hundred bytes long.",
        commands=("ls -l FILE", "head -c 100 FILE", "git lfs install && git lfs pull"),
        next_check="CKP001",
    ),
    Cause(
        id="safetensors-header",
        refines=("checkpoint-damaged",),
        errors=("SafetensorError",),
        messages=(
            r"Error while deserializing header|HeaderTooLarge|header too large|"
            r"MetadataIncompleteBuffer|InvalidHeaderDeserialization|HeaderTooSmall",
        ),
        examples=(
            "safetensors_rust.SafetensorError: Error while deserializing header: HeaderTooLarge",
        ),
        why="HeaderTooLarge: usually the file is no safetensors file: a Git LFS pointer, an "
        "error page, or a pickle with that name. MetadataIncompleteBuffer: it is cut off: a "
        "broken download, or the disk was full when it was saved. "
        "InvalidHeaderDeserialization: both, or a sharded training saved it without its "
        "tensors. A sound file is refused, too, if its header is over 100 MB.",
        fix="Examine it with doctor scan FILE. A file of about 130 bytes is a pointer of Git "
        "LFS; a large one with a million tensors is sound: store fewer, larger tensors or "
        "several files. Fetch it again: git lfs pull, or hf download after deleting the file "
        "from the cache. If your own training wrote it, free the disk (df -h) and save "
        "again; under ZeRO-3 and FSDP save through the trainer.",
        commands=("ls -l FILE", "doctor scan FILE", "df -h ."),
        next_check="CKP001",
    ),
    Cause(
        id="text-is-no-number",
        errors=("ValueError", "TypeError"),
        messages=(r"invalid literal for int\(\)|could not convert string to float",),
        examples=(
            "ValueError: invalid literal for int() with base 10: '100000000.0'",
            "ValueError: could not convert string to float: 'abc'",
        ),
        wordings=(
            Wording(
                r"not supported between instances of '(?:float|int)' and 'str'|not supported "
                r"between instances of 'str' and '(?:float|int)'|unsupported operand type\(s\) for "
                r"[-+*/%]{1,2}=?: '(?:(?:float|int)' and 'str|str' and '(?:float|int))'",
                "TypeError: '<=' not supported between instances of 'float' and 'str'",
                "YAML reads 1e-4 as a text.",
                "Convert it with float(...), or write 1.0e-4 in YAML.",
            ),
        ),
        why="A text is read as a number and is none: an environment variable or an option (a "
        "whole number must be written without a point: 100000000, not 1e8 or 100000000.0), an "
        "empty value, or a column of the data.",
        fix="Look at the quoted value: write a whole number without point and exponent, give a "
        "value for '', and for data find the rows with pandas.to_numeric(column, "
        'errors="coerce").isna().',
        sources=("python-exceptions",),
    ),
    Cause(
        id="minus-100-decoded",
        errors=("OverflowError", "IndexError", "TypeError"),
        messages=(
            r"out of range integral type conversion attempted|can't convert negative int to "
            r"unsigned",
            r"piece id is out of range",
        ),
        examples=(
            "OverflowError: out of range integral type conversion attempted",
            "IndexError: piece id is out of range.",
        ),
        why="A tokenizer is to decode -100, the mark of ignored labels, or another number that is "
        "no token.",
        fix="Replace it first: labels = np.where(labels != -100, labels, tokenizer.pad_token_id), "
        "and the same for the predictions of generate, which are padded with -100 between batches.",
    ),
    Cause(
        id="random-number-of-32-bits",
        errors=("ValueError",),
        messages=(r"(?:high|low) is out of bounds for int32",),
        examples=("ValueError: high is out of bounds for int32",),
        why="On Windows NumPy 1 draws 32-bit integers, and the limit is larger.",
        fix="Pass dtype=np.int64 to np.random.randint, or python -m pip install 'numpy>=2'.",
    ),
)
