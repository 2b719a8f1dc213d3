"""Data that are loaded: files, splits, columns, pictures, and what workers may hold."""

from __future__ import annotations

from doctor._util.owner import Owner
from doctor.errors.cause import Cause, Wording

ROWS = (
    Cause(id="table-refused",
        errors=("ArrowInvalid", "SchemaInferenceError", "ArrowTypeError", "TypeError",
            "DatasetGenerationCastError"),
        wordings=(
            Wording(r"Column \d{1,6} named .{1,80} expected length \d{1,12} but got length",
                "pyarrow.lib.ArrowInvalid: Column 1 named input_ids expected length 1000 but got "
                    "length 1003",
                "A batched map returned more or fewer rows than it got, and the old columns are "
                    "kept beside the new ones.",
                "Drop the old columns: dataset.map(function, batched=True, "
                    "remove_columns=dataset.column_names); or return as many rows per batch as "
                    "came in."),
            Wording(r"Please pass `features` or at least one example",
                "datasets.exceptions.SchemaInferenceError: Please pass `features` or at least one "
                    "example when writing data",
                "No row was left: a filter or a limit of lengths removed all, or the generator "
                    "gave none.",
                "Print the number of rows after each step; raise the limit of lengths, or correct "
                    "the filter or the names of the fields that it reads."),
            Wording(r"offset overflow while concatenating arrays|straddling object straddles two "
                r"block boundaries|too large to fit in C integer type",
                "pyarrow.lib.ArrowInvalid: offset overflow while concatenating arrays",
                "One piece of a table exceeds 2 GiB or 2**31 values, or one row of JSON a block.",
                "Use smaller pieces: writer_batch_size=100 and batch_size= of map, JSON lines "
                    "instead of one large document (chunksize= for long rows), images as files "
                    "instead of bytes, Dataset.from_generator instead of one from_dict of "
                    "everything."),
            Wording(r"Can only convert 1-dimensional array values",
                "ArrowInvalid: Can only convert 1-dimensional array values",
                "A column gets arrays of several dimensions, and its type was not declared so.",
                "Declare the feature, Array2D or Array3D(shape=..., dtype=...), or return lists: "
                    "array.tolist(). In a batched map the first dimension is the sample."),
            Wording(r"JSON parse error: Column\(.{0,80}\) changed from \w{3,12} to|Expected bytes, "
                r"got an? '\w{2,20}' object|Couldn't cast (?:array of type|\w{1,20}\n)|CastError: "
                r"Couldn't cast|Cannot write struct type|cannot mix (?:list|struct) and non-",
                "pyarrow.lib.ArrowInvalid: JSON parse error: Column() changed from object to "
                    "string in row 0",
                "A column has values of two types, such as numbers and texts or a list in some "
                    "rows: a table has one type per column. Files of several kinds in one "
                    "directory have the same effect.",
                "Write each field with one type in all rows and files (str(value), always a list), "
                    "name the files with data_files=, or give features=.",
                more=("pyarrow.lib.ArrowTypeError: Expected bytes, got a 'int' object",
                    "TypeError: Couldn't cast array of type string to null",
                    "pyarrow.lib.ArrowInvalid: cannot mix list and non-list, non-null values")),
            Wording(r"All the data files must have the same columns|because column names don't "
                r"match",
                "datasets.exceptions.DatasetGenerationCastError: An error occurred while "
                    "generating the dataset. All the data files must have the same columns, but at "
                    "some point there are 2 new columns",
                "The files of one split have different columns.",
                "Load them apart and select the common columns before concatenate_datasets, or "
                    "name the files that belong together with data_files=.")),
        why="A table has one row per sample, one type per column, and a limit of size per block.",
        sources=("datasets-writer", "datasets-table", "datasets-exceptions"),
    ),
    Cause(id="data-files-missing",
        errors=("DataFilesNotFoundError", "FileNotFoundError", "ValueError",
            "DatasetNotFoundError", "RuntimeError", "BadZipFile", "HTTPError", "EOFError",
            "OSError", "KeyError", "LookupError"),
        wordings=(
            Wording("Found 0 files in subfolders of|Couldn't find any class folder|Found no "
                "valid file for the classes",
                "RuntimeError: Found 0 files in subfolders of: data/train",
                "ImageFolder expects one directory per class with pictures in it, and found "
                "none below this path.",
                "Arrange train/CLASS/picture.jpg and give train; check the path in the "
                "directory of the start, hidden directories, and the endings (or pass "
                "is_valid_file).",
                ("ls data/train | head",)),
            Wording(r"Dataset not found or corrupted\.|invalid hash value \(expected|File is "
                r"not a zip file|not a gzip file|file could not be opened successfully|HTTP "
                r"Error (?:403|404|429|5\d\d)",
                "RuntimeError: Dataset not found or corrupted. You can use download=True to "
                "download it",
                "A file of a data set or of weights is missing, was cut off, or is an error "
                "page: the download broke, or its address no longer works.",
                "Delete the file that the message or the frame names (data/NAME, "
                "~/.cache/torch/hub/checkpoints) and start again with download=True; if the "
                "address refuses, upgrade torchvision, or fetch the file by hand from the "
                "project's page and put it there. Look at it: head -c 100 FILE.",
                ("ls -l ~/.cache/torch/hub/checkpoints",
                    "head -c 100 FILE"),
                owner=Owner.ENVIRONMENT),
            Wording(r"mmap length is greater than file size|bad header, cannot read|"
                r"cannot mmap an empty file|[Ff]ailed to interpret file .{1,200} as a pickle|"
                r"Cannot load file containing pickled data when allow_pickle=False|cannot reshape "
                r"array of size \d{1,18} into shape",
                "ValueError: mmap length is greater than file size",
                "A file of arrays is shorter than its header says: it was cut off while it was "
                "written (a full disk, a killed job), or is no array file.",
                "Delete the prepared files of the data set (*.npy, *.npz, *.bin, *.idx) and "
                "prepare them again, with enough room on the disk; allow_pickle=True is right "
                "only for an array of objects of your own.",
                ("ls -l FILE",
                    "df -h .")),
            Wording(r"No \(supported\) data files found|Couldn't find (?:a |any "
                r")?(?:data(?:set)? (?:script|file)|file at)|Unable to find '.{1,300}' with any "
                r"supported extension|doesn't exist on the Hub or cannot be accessed|Undefined "
                r"dataset \S{1,80} in dataset_info|images not found, missing path",
                "datasets.exceptions.DataFilesNotFoundError: No (supported) data files found in "
                "data",
                "load_dataset found neither a repository nor readable files under that name: a "
                "wrong or relative path, another ending than json, jsonl, csv, parquet, txt or "
                "arrow, a directory of save_to_disk, or a private repository.",
                'Name format and files: load_dataset("json", data_files="/data/train.jsonl"); a '
                "directory that save_to_disk wrote is read with load_from_disk. Check the path "
                "in the directory and container where the training starts; for a private "
                "repository hf auth login.",
                ("ls -l DIRECTORY",),
                more=("FileNotFoundError: Couldn't find a dataset script at /data/x/x.py or any "
                    "data file in the same directory.",
                    "datasets.exceptions.DatasetNotFoundError: Dataset 'org/name' doesn't exist "
                    "on the Hub or cannot be accessed.")),
            Wording(r"Unknown split .\w{1,60}.\. Should be one of|Please first select a split",
                "ValueError: Unknown split \"validation\". Should be one of ['train'].",
                "The data set has no split of that name.",
                "Take one that the message lists (load_dataset(..., split=\"train\")), or make it: "
                'dataset["train"].train_test_split(test_size=0.05, seed=0), which names them '
                "train and test.",
                more=("KeyError: 'Invalid key: 0. Please first select a split. Available splits: "
                    "[\"train\"]'",)),
            Wording(r"Resource \S{0,12}(?P<nltk>[\w]{3,40})\S{0,12} not found|\[E050\] Can't "
                r"find model|Can't find model '\w{2}_core",
                "LookupError: Resource punkt_tab not found. Please use the NLTK Downloader to "
                "obtain the resource",
                "NLTK and spaCy bring their models as separate downloads, which this node has "
                "not.",
                "python -m nltk.downloader NAME (punkt_tab since NLTK 3.9), python -m spacy "
                "download NAME; on nodes without a network copy the directory and set NLTK_DATA.",
                owner=Owner.ENVIRONMENT,
                more=("OSError: [E050] Can't find model 'en_core_web_sm'.",))),
        why="load_dataset found neither a repository nor readable files under that name: a "
            "wrong or relative path, another ending than json, jsonl, csv, parquet, txt or "
            "arrow, a directory of save_to_disk, or a private repository.",
        sources=("datasets-load",)),
    Cause(id="datasets-of-another-release",
        refines=("attribute-missing",),
        errors=("ValueError", "RuntimeError", "TypeError", "NotImplementedError", "AttributeError"),
        wordings=(
            Wording(r"Unable to avoid copy while creating an array",
                "ValueError: Unable to avoid copy while creating an array as requested. If using "
                    "`np.array(obj, copy=False)` replace it with `np.asarray(obj)`",
                "numpy 2 changed the meaning of copy=False, which an older datasets, pandas or "
                    "transformers uses.",
                "Upgrade the package in the frame above (pip install -U datasets), or install "
                    "numpy<2. In code of your own write np.asarray(obj).",
                ("python -m pip show numpy datasets",)),
            Wording(r"Invalid pattern: '\*\*' can only be an entire path component",
                "ValueError: Invalid pattern: '**' can only be an entire path component",
                "An older datasets gives patterns to a newer fsspec that no longer takes them.",
                "Upgrade datasets (pip install -U datasets), or install fsspec<2023.10.",
                ("python -m pip show datasets fsspec",)),
            Wording(r"module 'pyarrow' has no attribute",
                "AttributeError: module 'pyarrow' has no attribute 'PyExtensionType'",
                "A newer pyarrow removed the name, which an older datasets uses.",
                "Upgrade datasets (pip install -U datasets), or install pyarrow<21.",
                ("python -m pip show datasets pyarrow",)),
            Wording(r"pyarrow\.lib\.\w{2,40} size changed, may indicate binary incompatibility",
                "ValueError: pyarrow.lib.IpcWriteOptions size changed, may indicate binary "
                    "incompatibility. Expected 88 from C header, got 72 from PyObject",
                "The process has another pyarrow loaded than the installed one: pip replaced it "
                    "while the notebook ran, or a package beside it (cudf) was built for another.",
                "Restart the kernel or the session after the installation. If it persists, install "
                    "datasets and pyarrow again together: pip install -U datasets pyarrow.",
                ("python -m pip show datasets pyarrow",)),
            Wording(r"Dataset scripts are no longer supported",
                "RuntimeError: Dataset scripts are no longer supported, but found wikitext.py",
                "datasets 4.0 runs no code of a dataset's repository.",
                "Load the Parquet version of the repository (revision='refs/convert/parquet'), "
                    "another repository with the same data, or convert it once with datasets<4."),
            Wording(r"Feature type '\w{2,20}' not found",
                "ValueError: Feature type 'List' not found. Available feature types: ['Value', "
                    "'ClassLabel', 'Sequence']",
                "The dataset was saved by a newer version of datasets than this one.",
                "Upgrade datasets (pip install -U datasets), or delete its cache and build it "
                    "again with this version."),
            Wording(r"must be tuple of Tensors, not Column|'Column' object",
                "TypeError: stack(): argument 'tensors' (position 1) must be tuple of Tensors, not "
                    "Column",
                "Since datasets 4.0 a column of a dataset is read when it is used, and is no list.",
                'Make a list of it, list(dataset["name"]) or dataset["name"][:], or install '
                    "datasets<4 for code that expects one."),
            Wording(r"Loading a dataset cached in a \w{3,40} is not supported",
                "NotImplementedError: Loading a dataset cached in a LocalFileSystem is not "
                    "supported.",
                "fsspec 2023.10 changed a name by which an older datasets recognizes the local "
                    "disk.",
                "Upgrade datasets (2.14.6 or newer), or install fsspec<=2023.9.2; then restart the "
                    "interpreter.",
                ("python -m pip install -U datasets",))),
        why="datasets, numpy or fsspec is of another time than the code or the cached data.",
        owner=Owner.ENVIRONMENT, sources=("datasets-load",),
    ),
    Cause(id="worker-processes-refused",
        errors=("AssertionError", "RuntimeError", "OSError", "AttributeError", "PicklingError",
            "TypeError"),
        wordings=(
            Wording(r"daemonic processes are not allowed to have children",
                "AssertionError: daemonic processes are not allowed to have children",
                "A DataLoader worker or a process of a pool starts processes of its own: a "
                    "DataLoader with workers, a pool, or a tokenizer's map with num_proc inside "
                    "the data set.",
                "Set num_workers=0 for the inner loader and num_proc=None inside a worker, prepare "
                    "such work before training, or use threads "
                    "(concurrent.futures.ThreadPoolExecutor) there."),
            Wording(r"context has already been set",
                "RuntimeError: context has already been set",
                "set_start_method was called a second time, by the script and by a library, or by "
                    "a module that every child imports.",
                'Call it once, first of all, below if __name__ == "__main__"; or use '
                    'multiprocessing.get_context("spawn"), or multiprocessing_context="spawn" of '
                    "the DataLoader, which changes nothing for others."),
            Wording(r"AF_UNIX path too long",
                "OSError: AF_UNIX path too long",
                "DataLoader workers and process managers make sockets in the directory for "
                    "temporary files, and the path of a socket has 107 characters at most.",
                "Give a short directory before the start: export TMPDIR=/tmp (Ray: "
                    "--temp-dir=/tmp/ray).",
                ("export TMPDIR=/tmp",), owner=Owner.ENVIRONMENT),
            Wording(r"Can't (?:pickle|get) local object|[Cc]an(?:'t|not) pickle",
                "AttributeError: Can't get local object 'make.<locals>.<lambda>'",
                "A spawned worker gets dataset and functions by pickle, which takes no lambdas, "
                    "local functions, locks or open files.",
                "Define functions at the level of the module, as a spawned worker imports them by "
                    "name; functools.partial passes arguments. Open files and connections in the "
                    "worker, at the first __getitem__. If the function is a library's, "
                    "num_workers=0 starts none (Windows and macOS spawn workers, Linux forks "
                    "them).",
                more=("TypeError: cannot pickle '_io.TextIOWrapper' object",)),
            Wording(r"An attempt has been made to start a new process before",
                "RuntimeError: An attempt has been made to start a new process before the current "
                    "process has finished its bootstrapping phase.",
                "Spawned workers import the main file, which starts them again.",
                "Put what trains under if __name__ == '__main__':."),
            Wording(r"Cowardly refusing to serialize non-leaf tensor",
                "RuntimeError: Cowardly refusing to serialize non-leaf tensor which requires_grad, "
                    "since autograd does not support crossing process boundaries.",
                "The data set computes with tensors that require gradients (a model or a parameter "
                    "inside it), and a worker cannot send their graph.",
                "Return x.detach() from the data set, compute under torch.no_grad(), and keep "
                    "models out of it; features of a frozen model are computed once before "
                    "training."),
            Wording(r"cannot pin '.{1,60}' only dense CPU tensors can be pinned",
                "RuntimeError: cannot pin 'torch.cuda.FloatTensor' only dense CPU tensors can be "
                    "pinned",
                "The data set or the collate function returns tensors that are on the GPU already.",
                "Return CPU tensors and move the batch in the loop with .to(device, "
                    "non_blocking=True); or pin_memory=False (dataloader_pin_memory=False) and "
                    "num_workers=0 if the data must live on the GPU."),
            Wording(r"StorageSharing\.cpp",
                r"THCudaCheck FAIL file=torch\csrc\generic\StorageSharing.cpp line=252 error=63 : "
                    r"OS call failed or operation not supported on this OS",
                "GPU tensors are sent between processes, which Windows and some virtual machines "
                    "do not support.",
                "Return CPU tensors from the data set and move them in the loop, or set "
                    "num_workers=0."),
            Wording(r"Trying to resize storage that is not resizable",
                "RuntimeError: Trying to resize storage that is not resizable",
                "The samples of a batch have different shapes, or share memory that a worker "
                    "cannot join.",
                "Bring the samples to one shape in the dataset (pad, crop, resize) or pass a "
                    "collate_fn that pads; num_workers=0 names the sizes. If they are equal, "
                    "return samples that own their memory: x.clone().")),
        why="A process may not start its workers in this way, or not hand them what it has.",
        sources=("python-multiprocessing", "torch-reductions"),
    ),
    Cause(id="generation-settings",
        errors=("ValueError",),
        wordings=(
            Wording(r"generation config instance is invalid|GenerationConfig` is invalid|"
                r"`generation_config` default values have been modified",
                "ValueError: The generation config instance is invalid -- `.validate()` throws "
                    "warnings and/or exceptions. Fix these issues to save the configuration.",
                "The model's generation settings contradict each other (temperature or top_p "
                    "without do_sample), and saving a checkpoint checks them.",
                "Correct them after loading: model.generation_config.do_sample = True, or set "
                    "temperature=None and top_p=None."),
            Wording(r"batched generation with padding_side='right'",
                "ValueError: You are attempting to perform batched generation with "
                    "padding_side='right' this may lead to unexpected behaviour for Flash "
                    "Attention",
                "A decoder continues at the end of each row, where padding on the right stands.",
                'Set tokenizer.padding_side = "left" for generation and evaluation by generation.'),
            Wording(r"following `model_kwargs` are not used by the model",
                "ValueError: The following `model_kwargs` are not used by the model: "
                    "['token_type_ids'] (note: typos in the generate arguments will also show up "
                    "in this list)",
                "generate() got an input or option that the model does not take: token_type_ids of "
                    "another tokenizer, a misspelt option, or an image for a text model.",
                "Leave it out: tokenizer(text, return_token_type_ids=False), or "
                    'inputs.pop("token_type_ids"); compare the names in the message with the '
                    "model's forward."),
            Wording(r"Input length of (?:input_ids|decoder_input_ids|inputs_embeds) is \d{1,9}, "
                r"but `?max_length`? is set to",
                "ValueError: Input length of input_ids is 35, but `max_length` is set to 20. This "
                    "can lead to unexpected behavior.",
                "max_length counts the prompt, too, and its default is 20.",
                "Set max_new_tokens in place of max_length: model.generate(..., "
                    "max_new_tokens=256), or model.generation_config.max_new_tokens = 256 for an "
                    "evaluation.")),
        why="generate() or its configuration got settings that contradict each other or the model.",
        sources=("transformers-generation",),
    ),
)  # fmt: skip
