"""Hugging Face datasets and the hub: tables, scripts, limits."""

from __future__ import annotations

from doctor._util.owner import Owner
from doctor.errors.cause import Cause, Wording

ROWS = (
    Cause(id="decoder-missing",
        errors=("ImportError", "RuntimeError", "ValueError"),
        refines=("library-does-not-fit", "import-failed"),
        messages=("(?:please|pip) install `?'?torchcodec|No module named 'torchcodec",
            "Could not load libtorchcodec",
            r"lib(?:av\w{3,10}|sw\w{4,8})\.so[.\d]{0,10}: cannot open|find appropriate (?:audio "
            r")?backend to handle"),
        examples=("ImportError: To support decoding audio data, please install 'torchcodec'.",
            "ImportError: TorchCodec is required for load_with_torchcodec. Please install "
            "torchcodec to use this function.",
            "ModuleNotFoundError: No module named 'torchcodec'",
            "RuntimeError: Could not load libtorchcodec. Likely causes: 1. FFmpeg is not "
            "properly installed",
            "OSError: libavutil.so.56: cannot open shared object file: No such file or directory",
            "RuntimeError: Couldn't find appropriate backend to handle uri a.wav and format "
            "None."),
        wordings=(
            Wording(r"Could not load libtorchcodec[\s\S]{0,1500}lib(?:nvrtc|cudart|npp\w{1,4}|"
                r"cublas|nvcuvid)\.so[.\d]{0,8}: cannot open",
                "RuntimeError: Could not load libtorchcodec. Likely causes: 1. FFmpeg is not "
                "properly installed [start of libtorchcodec loading traceback] OSError: "
                "libnvrtc.so.13: cannot open shared object file",
                "This torchcodec was built for another CUDA than torch's: the library that it "
                "misses has the number of that version. FFmpeg is not the cause.",
                "Install the torchcodec for torch's release and CUDA from the same index: pip "
                "install torchcodec --index-url https://download.pytorch.org/whl/cu128 (cpu for "
                "decoding on the CPU), in the version that its table of releases has for torch.",
                ("python -m torch.utils.collect_env",)),
            Wording("No valid stream found in input|no more frames left to decode|[Ii]nvalid "
                "data found when processing input|moov atom not found|[Ff]ailed to (?:open|"
                "decode) (?:the )?(?:video|audio)|DECORDError|[Ff]ailed to measure duration",
                "ValueError: No valid stream found in input file. Is -1 of the desired media "
                "type?",
                "A video or audio file is cut off, a Git LFS pointer, of a codec that this "
                "decoder lacks, or has fewer frames than its header says.",
                "Try the file alone with ffprobe FILE. Fetch pointers (git lfs pull; files of "
                "about 130 bytes) and broken downloads again; convert an unknown codec (AV1) or "
                "take another decoder (video_backend=pyav); ask only for frames that exist "
                '(seek_mode="exact").',
                ("find DATA -size -1k -name '*.mp4'",
                    "ffprobe FILE"),
                owner=Owner.JOB)),
        why="Audio and video are decoded by torchcodec, which needs FFmpeg and the version that "
            "fits torch.",
        fix="Install FFmpeg (4 to 7) and the torchcodec of this torch, or load the bytes "
            "(Audio(decode=False)) and decode them with soundfile (pip install soundfile). "
            "torchaudio 2.9 has no decoders of its own and needs torchcodec to load and save; "
            "before it takes sox or FFmpeg from the system (apt-get install ffmpeg, conda "
            "install ffmpeg).",
        sources=("audio-4182", "voxcpm-139"), owner=Owner.ENVIRONMENT),
    Cause(id="dataset-column-missing",
        errors=("KeyError", "ValueError"),
        refines=("missing-key", "absent-in-samples"),
        messages=(r"KeyError: '(?:text|texts|prompt|prompts|messages|conversations?|chosen|"
            r"rejected|completion|instruction|output|response|question|answer|content|images?|"
            r"audio|labels?|input_ids|source|target|sentence\d?|query|tokens)'",
            r'(?:Column|column) .{1,80} not in the dataset|features\[\"\w{1,40}\"\]',
            r"didn't find \[.{1,120}\] in \['__key__'|KeyError: '(?:observation|action|episode|"
            r"next)\.?[\w.]{0,60}'",
            r"didn't pass a `dataset_text_field` or `formatting_func`"),
        examples=("ValueError: didn't find ['y.txt'] in ['__key__', 'x.pyd']",
            "KeyError: 'text'",
            "ValueError: You passed `packing=False` to the SFTTrainer/SFTConfig, but you didn't "
              "pass a `dataset_text_field` or `formatting_func` argument.",
            'KeyError: "Column labels not in the dataset. Current columns in the dataset: '
            "['text']\""),
        told_by="the data set has no column of that name",
        why="The data set, or what its preprocessing returns, has no column of that name.",
        fix="Print dataset.column_names and name your column in the configuration "
            "(dataset_text_field, the columns of the format), or rename it: "
            "dataset.rename_column(OLD, NEW). SFT takes text, messages, or prompt and "
            "completion; preference training prompt, chosen and rejected; a formatting function "
            "replaces the column. Columns that the collator needs are dropped by "
            "remove_unused_columns=True.",
        commands=("doctor data TARGET --show 2",), sources=("datasets-dataset",)),
)  # fmt: skip
