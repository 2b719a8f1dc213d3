"""Files whose content is not what their name or their reader expects."""

from __future__ import annotations

from doctor._util.owner import Owner
from doctor.errors.cause import Cause, Wording

ROWS = (
    Cause(id="file-of-another-format",
        errors=("JSONDecodeError", "UnicodeDecodeError", "UnicodeEncodeError", "TypeError",
            "ValueError", "ImportError"),
        wordings=(
            Wording("JSONDecodeError: (?:Expecting (?:value|property name|',' delimiter)|Extra "
                "data|Unterminated string|Invalid control)",
                "json.decoder.JSONDecodeError: Expecting value: line 1 column 1 (char 0)",
                "A file or an answer that should be JSON is not: at line 1 column 1 it is "
                'empty, an error page or a Git LFS pointer; "Extra data" is a file of JSON '
                "lines that is read as one; elsewhere it is cut off or edited.",
                "Look at its beginning: head -c 200 FILE. Download or write it again (git lfs "
                'pull); read JSON lines line by line (load_dataset("json", ...)); a '
                "configuration that was cut off by a full disk comes from an earlier checkpoint.",
                ("head -c 200 FILE",)),
            Wording(r"'(?:utf-8|utf8|gbk|cp\d{3,4}|charmap|ascii|latin-1)' codec can't "
                r"(?:decode|encode)",
                "UnicodeDecodeError: 'utf-8' codec can't decode byte 0x80 in position 0: "
                "invalid start byte",
                "A text is read in another encoding than it was written in, or a binary file (a "
                "checkpoint, an archive, a picture) is read as text; Windows reads in the "
                "encoding of its language.",
                'Name the encoding: open(path, encoding="utf-8"), or set PYTHONUTF8=1 on '
                "Windows. 0x80 at position 0 is a pickle (torch.load), 0x1f8b gzip, 0x89 a PNG; "
                "._ files of macOS and .DS_Store in the data directory are binary: leave them "
                "out.",
                ("file FILE",
                    "head -c 16 FILE | xxd")),
            Wording(r"Object of type \w{1,40} is not JSON serializable",
                "TypeError: Object of type float32 is not JSON serializable",
                "A metric, an argument or a configuration with a numpy number, a tensor, a "
                "dtype or a Path is written as JSON.",
                "Convert it before: float(x), x.item(), x.tolist(), str(dtype). In "
                "compute_metrics return plain floats; keep tensors and dtypes out of a "
                "configuration that is saved."),
            Wording(r"Compression type \w{1,12} not supported|[Nn]o module named "
                r"'?_?(?:zstandard|lzma)",
                "ValueError: Compression type zstd not supported",
                "fsspec reads a compressed file only with the package for its compression.",
                "python -m pip install zstandard (zstd) or lz4, python-snappy for the others, "
                "and start again.",
                owner=Owner.ENVIRONMENT),
            Wording(r"Error tokenizing data\. C error: (?:Expected \d+ fields|EOF inside "
                "string|Buffer overflow)",
                "pandas.errors.ParserError: Error tokenizing data. C error: Expected 3 "
                    "fields in line 12, saw 5",
                "A line of the CSV file has more fields than the first ones: a separator or "
                    "a quote within a text that is not quoted, another separator, or lines above "
                    "the header.",
                "Look at the line that the message names (sed -n 12p FILE). Give sep= and "
                    "quotechar= as the file has them, skiprows for lines above the header; "
                    "on_bad_lines='warn' shows all bad ones. Long texts are safer in JSON lines "
                    "or Parquet.",
                ("sed -n 12p FILE",))),
        why="Data are read or written in another format than they have.",
        sources=("utf8-debugging",)),
    Cause(id="weights-file-not-whole",
        errors=("UnpicklingError", "EOFError", "RuntimeError"),
        refines=("checkpoint-damaged",),
        messages=("EOFError|Ran out of input|"
            "(?<!syntax error: )unexpected (?:end of (?:file|data)|EOF)|"
            "invalid load key, '(?![v<]')",),
        examples=("EOFError: Ran out of input",
            "EOFError: Compressed file ended before the end-of-stream marker: unexpected end of "
            "file",
            "tarfile.ReadError: unexpected end of data",
            "_pickle.UnpicklingError: invalid load key, '\\x00'."),
        why="A file is empty, cut off or another kind of file, or the process at the other end of "
            "a pipe has ended.",
        fix="Check the file that is read there: it is empty or cut off (compare its size, "
            "download it again; `doctor scan FILE` reads checkpoints). If it reads from another "
            "process, that process has ended.",
        sources=("python-exceptions",)),
    Cause(id="number-out-of-type",
        errors=("ValueError", "TypeError", "OverflowError", "IndexError"),
        wordings=(
            Wording(r"not supported between instances of '(?:float|int)' and 'str'|not "
                r"supported between instances of 'str' and '(?:float|int)'|unsupported operand "
                r"type\(s\) for [-+*/%]{1,2}=?: '(?:(?:float|int)' and 'str|str' and '(?:float|"
                r"int))'",
                "TypeError: '<=' not supported between instances of 'float' and 'str'",
                "YAML reads 1e-4 as a text.",
                "Convert it with float(...), or write 1.0e-4 in YAML."),
            Wording(r"invalid literal for int\(\)|could not convert string to float",
                "ValueError: invalid literal for int() with base 10: '100000000.0'",
                "A text is read as a number and is none: an environment variable or an option "
                "(a whole number must be written without a point: 100000000, not 1e8 or "
                "100000000.0), an empty value, or a column of the data.",
                "Look at the quoted value: write a whole number without point and exponent, "
                "give a value for '', and for data find the rows with pandas.to_numeric(column, "
                'errors="coerce").isna().',
                more=("ValueError: could not convert string to float: 'abc'",)),
            Wording("out of range integral type conversion attempted|can't convert negative int "
                "to unsigned|piece id is out of range",
                "OverflowError: out of range integral type conversion attempted",
                "A tokenizer is to decode -100, the mark of ignored labels, or another number "
                "that is no token.",
                "Replace it first: labels = np.where(labels != -100, labels, "
                "tokenizer.pad_token_id), and the same for the predictions of generate, which "
                "are padded with -100 between batches.",
                more=("IndexError: piece id is out of range.",)),
            Wording("(?:high|low) is out of bounds for int32",
                "ValueError: high is out of bounds for int32",
                "On Windows NumPy 1 draws 32-bit integers, and the limit is larger.",
                "Pass dtype=np.int64 to np.random.randint, or python -m pip install 'numpy>=2'."),
            Wording(r"unsupported format string passed to \w{1,40}\.__format__",
                "TypeError: unsupported format string passed to tuple.__format__",
                "A format such as {loss:.4f} takes one number and got what the message names: a "
                "tuple of a function that returns several values, an array or a list, or None.",
                "Take the number out before it is printed: acc, _ = evaluate(...) or value[0] of a "
                "tuple, .item() of an array with one element, .mean() of one with several. Where "
                "it is NoneType, look at why nothing was assigned.",
                more=("TypeError: unsupported format string passed to NoneType.__format__",)),
            Wording("cannot convert float (?:NaN|infinity) to integer",
                "ValueError: cannot convert float NaN to integer",
                "A NaN or inf is converted to a whole number.",
                "Look for the first value that is not finite before that line: a mean of no "
                "values, a division by 0, or missing entries of a table.")),
        why="A value is no number, or none that its type can hold.",
        sources=("python-exceptions",)),
)  # fmt: skip
