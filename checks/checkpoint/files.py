"""Whether a checkpoint's files are complete."""

from __future__ import annotations

import shlex
from pathlib import PurePath

from doctor._util.units import counted, gb, listed, shown
from doctor.checkpoint.records import Checkpoint, Problem
from doctor.judge.check import Check, Owner, Verdict, fail, note, ok, unknown, warn

REBUILT = frozenset(("torch._utils._rebuild_tensor_v2", "torch._utils._rebuild_tensor"))
"""What a pickle of tensors names."""
FAILS = (
    "unfinished", "mixed", "untagged", "weightless", "damaged", "disguised", "missing", "empty",
    "foreign-index", "short-index", "lost-rank", "twice", "over-limit", "unloadable",
)  # fmt: skip
WARNS = ("incomplete", "stale-index", "no-index", "stray", "unknown-dtype")

FIXES = {
    "unfinished": "Resume from the checkpoint that is named as the last whole one, by its path: a "
    "trainer takes the latest by itself. If the latest is still being written, wait for its end.",
    "mixed": "Resume from the last save that all ranks have whole, and delete or move the mixed "
    "one: write each save into a directory of its own, and mark it as complete when all ranks have "
    "written.",
    "incomplete": "Resume from the checkpoint that is named as the last with all of it, by its "
    "path, and remove the latest if its save was interrupted: a trainer takes the latest by "
    "itself, and fails, or begins anew with an empty optimizer. If it is still being written, wait "
    "for its end. If it was saved without a state on purpose, nothing is wrong.",
    "untagged": "If the save in the directory that is here is whole, write its name into the file "
    "beside it: printf global_step200 > latest for DeepSpeed, or load with tag=; for Megatron-LM "
    "the number alone, printf 1000 > latest_checkpointed_iteration.txt, or load with --ckpt-step. "
    "Else resume from an earlier checkpoint.",
    "lost-rank": "Copy the files of the other ranks here: on a directory that the nodes do not "
    "share, each keeps those of its own ranks. Where they were not written, resume from an "
    "earlier checkpoint. If this save is still under way, wait for its end.",
    "disguised": "Download the real file: this one is something else under its name.",
    "weightless": "Copy the file of the weights, too, from where it was saved: a limit of sizes, "
    ".gitignore or an interrupted save leaves it out. If this save is still under way, wait for "
    "its end; if it was lost, resume from an earlier checkpoint.",
    "missing": "Download what is missing; hf download resumes an interrupted download.",
    "empty": "Save again with the parameters gathered from all ranks: "
    "stage3_gather_16bit_weights_on_model_save under DeepSpeed ZeRO-3, state_dict_type "
    "FULL_STATE_DICT under FSDP, or state_dict=accelerator.get_state_dict(model). Recover the "
    "weights from the engine's own checkpoint with its zero_to_fp32.py, if there is one; else "
    "train again.",
    "stale-index": "Where one whole file has taken the place of the shards, delete the index: "
    "some loaders follow it, diffusers among them. Else save the model again with "
    "save_pretrained, or restore the index of these shards.",
    "foreign-index": "Save the model again with save_pretrained, or write the index from the "
    "headers of the shards that are here: from_pretrained reads the files that it names.",
    "short-index": "Write the index again from the headers of all shards, in this directory:\n"
    "import glob, json, safetensors\n"
    "index = json.load(open('model.safetensors.index.json'))\n"
    "for file in glob.glob('model-*-of-*.safetensors'):\n"
    "    for name in safetensors.safe_open(file, 'pt').keys():\n"
    "        index['weight_map'][name] = file\n"
    "json.dump(index, open('model.safetensors.index.json', 'w'))",
    "no-index": "Save the model again with save_pretrained, which writes the index, or download "
    "model.safetensors.index.json from the source of the shards.",
    "stray": "Move the file that does not belong to this checkpoint out of the directory.",
    "twice": "Move the shards of the other save out of the directory, or save the model again.",
    "unknown-dtype": "Upgrade safetensors and see whether it loads the file: it refuses "
    "dtypes that it does not know.",
    "over-limit": "Store fewer tensors per file: save the model in more shards.",
    "unloadable": "Save it again in torch.save's default form, without "
    "_use_new_zipfile_serialization=False, or with safetensors.",
}


def _fix(checkpoint: Checkpoint, kind: str) -> str | None:
    """The remedy; what a run of the user's own wrote cannot be downloaded again."""
    distributed = "torch.distributed.checkpoint" in checkpoint.layout  # nobody downloads one
    saved = (
        distributed
        or checkpoint.training.steps is not None
        or checkpoint.training.optimizer is not None
    )
    if kind in ("damaged", "missing", "disguised") and (saved or checkpoint.siblings):
        return OWN_FIX
    if kind == "empty" and not checkpoint.contents.tensors:
        return NO_TENSOR_FIX + REPLACED_FIX * _is_adapter_without_tensors(checkpoint)
    return FIXES.get(kind)


def _is_adapter_without_tensors(checkpoint: Checkpoint) -> bool:
    return checkpoint.layout.endswith("PEFT adapter") and not checkpoint.contents.tensors


OF_INDEX = ("huggingface-hub-4728",)
SOURCES = {
    "empty": ("trl-4416",),
    "stale-index": OF_INDEX,
    "foreign-index": OF_INDEX,
    "short-index": OF_INDEX,
    "over-limit": ("safetensors-668",),
    "unknown-dtype": ("safetensors-format",),
}
"""What says more of a kind of problem; most need no more than the files that are there."""


def _sources(first: Problem, checkpoint: Checkpoint) -> tuple[str, ...]:
    if "git-LFS" in first.text:
        return OF_POINTERS
    if first.kind == "damaged" and first.file.endswith(".safetensors"):
        return ("safetensors-format",)
    if first.kind == "missing" and first.file.endswith(".index.json"):
        return OF_INDEX
    replaced = first.kind == "empty" and _is_adapter_without_tensors(checkpoint)
    return SOURCES.get(first.kind, ()) + ("peft-286",) * replaced


REPLACED_FIX = (
    " If the script sets model.state_dict = (lambda ...), as older alpaca-lora ones do, remove "
    "these lines: peft selects the adapter's tensors by itself, and finds none in what was "
    "selected before."
)
NO_TENSOR_FIX = (
    "Under DeepSpeed ZeRO-3, set stage3_gather_16bit_weights_on_model_save: true; under FSDP, let "
    "the rank that gathers save, the others get an empty dict. Then save again. Look for the "
    "weights in the run's checkpoint-N, or in the engine's own checkpoint with its "
    "zero_to_fp32.py; else train again."
)


LINK_FIX = (
    "Where a file of that name lies beside the link, name that file instead, or direct the link to "
    "it: ln -sf FILE LINK. Else copy the file from the machine on which the link leads to it: "
    "there, cp -rL and rsync -L copy a directory with the files in place of links. In the Hub's "
    "cache, download the model again."
)

OWN_FIX = (
    "Resume from an earlier checkpoint of the run, or copy the file again from where it was "
    "written. If this save is still under way, wait for its end."
)

DEVICE_FIX = (
    'Load it with torch.load(path, map_location="cpu") and copy the values with load_state_dict: '
    "it keeps the model's own device. Where only the machine that saved it loads it, nothing is "
    "wrong."
)

MISSPELLED_FIX = (
    "Compare this key with the one that the loading program asks for, and correct the one that is "
    "wrong: a program that takes what is missing for optional resumes without that state. Where "
    "both have the same, nothing is wrong."
)

OF_POINTERS = ("git-lfs-spec",)
POINTER_FIX = (
    "Install git-lfs and fetch the file that the pointer stands for, in a clone of its "
    "repository: git lfs install, then git lfs pull. Where git answers that 'lfs' is not a git "
    "command, git-lfs must be installed as a package first. Without a clone, as after a download "
    "of the repository as a zip, download the file itself."
)
PICKLED_FIX = (
    "Rename the file to .pt and load it with torch.load(path, weights_only=True), or write it "
    "anew with safetensors.torch.save_file; where its source has a safetensors file of the same "
    "weights, download that."
)
DANGER_FIX = "Do not load these files: see CKP010 first."


def files_complete(checkpoint: Checkpoint) -> Verdict:
    failures = [problem for problem in checkpoint.problems if problem.kind in FAILS]
    problems = failures or [problem for problem in checkpoint.problems if problem.kind in WARNS]
    if not failures and (reason := checkpoint.not_inspectable):
        return unknown(reason)
    if not problems and not checkpoint.contents.tensors:
        return unknown(_absent(checkpoint))
    if not problems and (elsewhere := _of_other_device(checkpoint)):
        return note(f"{_complete(checkpoint)}: {elsewhere}", fix=DEVICE_FIX)
    if not problems and any(each.kind == "misspelled" for each in checkpoint.problems):
        return note(_complete(checkpoint), fix=MISSPELLED_FIX)
    if not problems:
        return ok(_complete(checkpoint), seconds=checkpoint.seconds)
    first = problems[0]
    named = first.kind == "unfinished" and any(each.message in first.text for each in problems[1:])
    others = len(problems) - 1 - named
    more = f" (and {others} more)" if others > 0 else ""
    summary = f"{first.message}{more}; valid headers and all shards of the index required"
    pointer = "git-LFS" in first.text and "://" not in checkpoint.path
    commands = ("git lfs install", _fetch(checkpoint)) if pointer else ()
    verdict = fail if failures else warn
    fix = LINK_FIX if first.text.startswith("is a link") else _fix(checkpoint, first.kind)
    if first.kind == "disguised" and REBUILT.intersection(checkpoint.loading.imports):
        fix = PICKLED_FIX
    fix = POINTER_FIX if pointer else fix
    fix = DANGER_FIX if checkpoint.loading.runs_code else fix
    sources = _sources(first, checkpoint)
    return verdict(summary, *commands, fix=fix, sources=sources, seconds=checkpoint.seconds)


def _of_other_device(checkpoint: Checkpoint) -> str:
    """Why torch.load fails elsewhere, "" where it does not; ranks each have a device of theirs."""
    alone = checkpoint.files.count == 1
    if not alone or all(problem.kind != "other-device" for problem in checkpoint.problems):
        return ""
    return "torch.load without map_location fails on a machine without that device"


def _absent(checkpoint: Checkpoint) -> str:
    """That no tensor of weights was read, with what is there in their place."""
    path = shown(checkpoint.path, 300)
    if checkpoint.training.optimizer is not None:
        return f"no weights in {path}: it holds the state of an optimizer, with its moments"
    held = [name for name, used in checkpoint.loading.beside.items() if REBUILT.intersection(used)]
    if held:
        return f"no tensors in what was read of {path}; not read: {listed(held, 3)}, name one"
    return f"no tensors in {path}"


def _complete(checkpoint: Checkpoint) -> str:
    notes = "".join(f"; {problem.message}" for problem in checkpoint.problems)
    files = counted(checkpoint.files.count, "file")
    tensors = counted(checkpoint.contents.tensors, "tensor")
    return (
        f"{files}, {tensors}, {gb(checkpoint.files.bytes)}: headers valid, no shard missing{notes}"
    )


def _fetch(checkpoint: Checkpoint) -> str:
    path = PurePath(checkpoint.path)
    directory = path.parent if path.suffix else path
    return f"git -C {shlex.quote(str(directory))} lfs pull"


COMPLETE = Check(
    code="CKP001",
    slug="checkpoint-complete",
    title="The checkpoint's files are complete",
    why="An interrupted download, a pointer in place of the weights or a missing shard shows only "
    "when the model is loaded, and weights that no file holds may silently stay uninitialized. The "
    "headers say where every byte belongs, so all of this shows without reading the weights.",
    passes=(
        "every header is valid and accounts for every byte of its file",
        "every shard of the index exists and holds the tensors that the index names",
        "no tensor is in two shards",
    ),
    notes=(
        "storages are of a device that few machines have: mps, cuda:3",
        "a key at the top of a torch file is one letter away from a state_dict's",
    ),
    warns=(
        "the latest checkpoint of a run lacks files of the optimizer or trainer that all before it "
        "have",
        "the index is stale: it names fewer tensors than exist, or others in a shard",
        "there are shards and no index",
        "model.safetensors or shards of another save lie beside the shards",
        "a safetensors header names a dtype that is unknown: the library refuses such a file",
    ),
    fails=(
        "a file is truncated or has trailing bytes, holes, overlaps or an invalid header",
        "a file is something else: a git-LFS pointer, a web page, a short text, a pickle, a zip, "
        "GGUF",
        "a shard or a tensor of the index is missing, or it names none of the shards",
        "the index leaves out shards of its own series, whose tensors its total_size counts",
        "a file of a model or an adapter holds no tensor, or only tensors without a value",
        "the latest checkpoint of a run holds no weights or is damaged",
        "DeepSpeed's latest is missing or names no directory, or the ranks' files are of several "
        "saves",
        "files of ranks, rank0.pt and the like, are of different steps, or one is missing",
        "an optimizer's state lies beside a model's configuration, and no weights; or "
        "adapter_config.json, and no adapter",
        "a tokenizer's file, a scheduler, a scaler or a random state is a git-LFS pointer",
        "a tensor is in two shards",
        "a header exceeds the limit of the safetensors library",
        "torch.save wrote a legacy file with dtypes that torch.load cannot read in that form",
    ),
    fix="Copy or download the named file again and compare its size with the source's, or save the "
    "checkpoint again.",
    limits="that the values are correct: headers and sizes are compared, not the data.",
    owner=Owner.JOB,
    judge=files_complete,
    required="checkpoint",
)

CHECKS = (COMPLETE,)
