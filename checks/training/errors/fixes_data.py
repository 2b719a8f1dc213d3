"""Datasets, loaders, files and what the environment lacks.

Cause of `doctor.facts.code_errors.CODE` -> its remedy.
"""

from __future__ import annotations

FIXES = {
    "a number of another type": (
        "Convert the number where it is read: int(...) for a text of a configuration or the "
        "command line, // instead of / for a division."
    ),
    "an empty dataset": "Check the path and the filter of the dataset: it has no samples.",
    "files of workers": (
        "Raise the limit of open files (ulimit -n 65536), call "
        "torch.multiprocessing.set_sharing_strategy('file_system'), and check /dev/shm (MEM003)."
    ),
    "a batch of other things": (
        "Return tensors, numpy arrays or numbers from __getitem__, or pass a collate_fn that "
        "converts the samples: images need a transform such as ToTensor, and None must be left "
        "out."
    ),
    "storage of a sample": (
        "Return samples that own their memory, x.clone(), and that all have the same shape: a "
        "worker of the DataLoader cannot stack the others."
    ),
    "unequal samples": (
        "Pad or resize the samples of a batch to one size before they are stacked, in collate_fn "
        "or __getitem__: torch.nn.utils.rnn.pad_sequence for sequences, a transform (Resize, "
        "CenterCrop) for images, a data collator of transformers for texts."
    ),
    "a killed worker": (
        "Look at why the worker process ended: memory (MEM002) or shared memory (/dev/shm, "
        "MEM003) that ran out, a crash in a library, or an exit in the dataset. With "
        "num_workers=0 an error of the dataset itself shows."
    ),
    "a worker": (
        "Try num_workers=0 to see the real error. Datasets and collate_fn must be picklable for "
        "spawned workers (no lambdas, no open files), and the loader must not be built while the "
        "file is imported."
    ),
    "no padding token": (
        "Set tokenizer.pad_token = tokenizer.eos_token, or add a token of its own and call "
        "resize_token_embeddings."
    ),
    "texts of other lengths": (
        "Pass padding=True and truncation=True to the tokenizer, or use a data collator that "
        "pads; labels need padding of their own (DataCollatorForSeq2Seq, "
        "DataCollatorForTokenClassification)."
    ),
    "weights only": (
        "Load a file of tensors only (save state_dict()), or allow the classes that it names with "
        "torch.serialization.add_safe_globals. weights_only=False runs code from the file: only "
        "for files that you trust. `doctor scan FILE` lists what it imports, or says what else "
        "the file is."
    ),
    "a GPU's file": (
        "Pass map_location='cpu' to torch.load: the file was saved from a GPU that this process "
        "does not have."
    ),
    "no checkpoint": (
        "Look at the first bytes of the file (head -c 100): it is not what torch.save writes, but "
        "for example a web page or a git-LFS pointer of a download. `doctor scan FILE` names its "
        "type."
    ),
    "a state dict": (
        "Compare the keys. Where each unexpected key is a missing one with a prefix (module. of "
        "DataParallel and DDP, _orig_mod. of torch.compile), remove it: "
        "{key.removeprefix('module.'): value for key, value in state.items()}. Otherwise load the "
        "file into the model that wrote it; strict=False skips what does not match without an "
        "error. `doctor scan FILE` lists its tensors."
    ),
    "a missing file": (
        "Check the path: it is relative to the directory in which the doctor was started. Build "
        "it from Path(__file__).parent to be independent of that."
    ),
    "data that ends": (
        "Check the file that is read there: it is empty or cut off (compare its size, download it "
        "again; `doctor scan FILE` reads checkpoints). If it reads from another process, that "
        "process has ended."
    ),
    "relative import": (
        "Name the file inside its package, and give the package an __init__.py: the doctor then "
        "imports it as package.module."
    ),
    "a missing name": (
        "Compare the installed version of that package with the one that the code was written for "
        "(pip show). If the message names a circular import or a file of your own, rename that "
        "file or move the import."
    ),
    "a missing package": (
        "Install the package into the training environment, or select another one with --python. "
        "If it is a module of your own, run the doctor in the directory from which you start the "
        "training."
    ),
    "the network": (
        "Download the model or the data beforehand and load it from a local path "
        "(local_files_only=True), or check network and token: the factory tried to reach a "
        "server."
    ),
    "a process group": (
        "Initialize torch.distributed only if it was started by a launcher ('RANK' in "
        "os.environ): the doctor runs one process. Or set RANK=0, WORLD_SIZE=1, LOCAL_RANK=0, "
        "MASTER_ADDR=localhost and MASTER_PORT=29500 in the factory."
    ),
    "host memory": (
        "Reduce what the code allocates on the host, or give the machine or container more "
        "memory: see MEM002. A shape that is far too large often comes from an outer product by "
        "broadcasting, (n, 1) with (1, n) or (n,)."
    ),
    "None": (
        "Look for what returns None there: a function without return, dict.get of an absent key, "
        "or a Dataset whose __getitem__ returns None for a sample, which collate_fn must leave "
        "out."
    ),
    "a Python index": (
        "Print the length of that list before the line: it is shorter than the code expects."
    ),
    "input()": "Do not read from the terminal: the doctor gives the code no input.",
    "no CUDA": (
        "Write the device as torch.device('cuda' if torch.cuda.is_available() else 'cpu'): the "
        "code asks for a GPU, and this torch has no CUDA. If the job trains on a GPU, install a "
        "CUDA build (TOR001)."
    ),
    "a local function in a worker": (
        "Define the function at the level of the module (def collate(samples): ...), as a "
        "spawned worker imports it by its name: lambdas and functions inside of functions have "
        "none. functools.partial passes arguments."
    ),
    "the shuffle of a stream": (
        "Omit shuffle=True: an IterableDataset gives its samples in its own order, which it "
        "shuffles itself."
    ),
    "a sampler and shuffle": ("Omit shuffle=True: the sampler chooses the order."),
    "tensors of a dataset": (
        "Give all tensors of the TensorDataset the same first size, one entry for each sample."
    ),
    "a split": (
        "Let the lengths add up to len(dataset), [n, len(dataset) - n], or pass fractions, "
        "[0.8, 0.2]."
    ),
    "a slow loader": (
        "Find out why a batch takes longer than the timeout of the DataLoader: with "
        "num_workers=0 the stack shows where __getitem__ waits. A larger timeout= only waits "
        "longer."
    ),
    "prefetching": ("Omit prefetch_factor, or set num_workers to 1 or more."),
    "no training data": ("Pass the data to the Trainer: Trainer(train_dataset=...)."),
    "numpy of another version": (
        "Install a numpy that this torch was built for: numpy<2 for torch before 2.3.\n"
        "pip install 'numpy<2'"
    ),
    "no GPU for the precision": (
        "Choose the precision by the device: fp16 and bf16 arguments of the Trainer need a GPU "
        "that supports them (bf16=torch.cuda.is_bf16_supported())."
    ),
    "no accelerate": (
        "Install accelerate into the training environment: the Trainer needs it.\n"
        "pip install accelerate"
    ),
}
