"""Loading a checkpoint: adapters in half precision, code in pickles."""

from __future__ import annotations

import re
from dataclasses import replace

from doctor._util.records import Unknown
from doctor._util.units import listed, shown
from doctor.checkpoint.dtypes import HALVES
from doctor.checkpoint.formats.pickle_uses import PLAIN, reader_of
from doctor.checkpoint.formats.weights_only import NEWEST, SINCE, UNTIL
from doctor.checkpoint.records import Checkpoint, Loading
from doctor.checks.checkpoint.own_code import dangerous_code, doubtful_code, present_code
from doctor.facts.interpreter import Torch
from doctor.judge.check import Check, Owner, Verdict, fail, note, ok, skip, unknown, warn
from doctor.judge.switches import is_before

ADAPTER = re.compile(
    r"(?:.*\.)?(?:lora_(?:[AB]|embedding_[AB]|magnitude_vector)|ia3_l|vera_lambda_[bd]"
    r"|hada_[wt]\d_?[ab]?|lokr_[wt]\d_?[ab]?|oft_[rRs]|boft_[Rs]|adaption_\w+|prompt_embeddings"
    r"|randlora_\w+|ln_tuning_layers)(?:\..*)?"
)
"""Roles of adapters' tensors, as peft names them."""

SAFE = "2.6"
"""The first torch whose weights-only loading could not be bypassed (torch-weights-only)."""

TORCH_NOT_EXAMINED = Unknown(reason="torch was not examined")

FLOATS = ("F32", "F64")


FINISHED_FIX = (
    "To load or to merge it, nothing. To train it further, keep the adapter in fp32: "
    "autocast_adapter_dtype=True of peft, and no model.to(torch.bfloat16) after get_peft_model."
)


def adapters_fp32(checkpoint: Checkpoint) -> Verdict:
    adapter = checkpoint.model.adapter
    roles = [role for role in checkpoint.contents.roles if ADAPTER.fullmatch(role.name)]
    if not roles and checkpoint.not_inspectable and adapter:
        return unknown(checkpoint.not_inspectable)
    if not roles:
        return skip("no adapter's weights in these files")
    kind = f" ({shown(adapter, 40)})" if adapter else ""
    counts: dict[str, int] = {}
    for role in roles:
        for dtype, number in role.dtypes.items():
            counts[dtype] = counts.get(dtype, 0) + number
    total = sum(counts.values())
    if half := {dtype: number for dtype, number in counts.items() if dtype in HALVES}:
        numbers = ", ".join(f"{number:,} in {dtype}" for dtype, number in half.items())
        text = f"of {total:,} adapter tensors{kind} {numbers}; F32 required for training"
        training = checkpoint.training
        finished = training.optimizer is None and training.steps is None
        return (note if finished else warn)(text, fix=FINISHED_FIX if finished else None)
    if other := [shown(dtype, 20) for dtype in counts if dtype not in FLOATS]:
        return unknown(f"adapter tensors{kind} stored in {', '.join(other)}")
    return ok(f"{total:,} adapter tensors{kind}, all in {' and '.join(sorted(counts))}")


def loads_without_code(
    checkpoint: Checkpoint, torch: Torch | Unknown = TORCH_NOT_EXAMINED
) -> Verdict:
    loading = checkpoint.loading
    if danger := _danger(loading):
        return fail(f"{danger}; none required", fix=KEEP_OUT)
    verdict = dangerous_code(loading.own) or _restricted(loading, torch) or _doubtful(loading)
    if verdict := verdict or doubtful_code(loading.own):
        unread = f"; {_unread(loading)}" if loading.unread else ""
        return replace(verdict, summary=f"{verdict.summary}{unread}")
    if loading.unread:
        names = f"; up to there it imports {_listed(loading.imports)}" * bool(loading.imports)
        return unknown(f"{_unread(loading)}{names}")
    if verdict := _without_weights(checkpoint):
        return verdict
    if loading.pickles and loading.protocol > 2:
        summary = f"pickled with protocol {loading.protocol}; torch.load(weights_only=True) reads"
        return warn(f"{summary} 2 only", fix=PROTOCOL_FIX)
    summary = f"{_admitted(loading)}{_bypass(loading, torch)}"
    if plain := [name for name in _refused(loading, _version(torch)) if PLAIN.fullmatch(name)]:
        held = "which holds values and runs" if len(plain) == 1 else "which hold values and run"
        text = f"torch.load(weights_only=True) refuses {_listed(tuple(plain))}, {held} nothing"
        return note(text, fix=PLAIN_FIX)
    if loading.unfamiliar:
        return note(f"{summary}; {_unfamiliar(loading)}")
    return present_code(loading.own, summary) or ok(summary)


def _without_weights(checkpoint: Checkpoint) -> Verdict | None:
    """Of files that torch.load does not read; of pickles what they call is known by now."""
    loading = checkpoint.loading
    if loading.plain and loading.imports and not checkpoint.contents.tensors:
        imports = f"; they import {_listed(loading.imports)}"
        more = f"; {_unfamiliar(loading)}" if loading.unfamiliar else imports
        files = listed(list(loading.plain), 3)
        return note(f"{files}: pickles that torch did not write{more}", fix=OF_NO_TORCH)
    reason = checkpoint.not_inspectable or _nothing_read(checkpoint)
    return unknown(reason) if reason else None


def _unread(loading: Loading) -> str:
    """The first of the files with pickles that were not read to their ends."""
    more = f" (and {len(loading.unread) - 1} more)" if len(loading.unread) > 1 else ""
    return f"not read to the end: {loading.unread[0]}{more}"


def _danger(loading: Loading) -> str:
    """What runs code when it is unpickled, "" where nothing is known to."""
    if loading.dangerous:
        names = f"{_listed(loading.dangerous)}, known to run code or commands"
        return f"imports of {_where(loading)}: {names}"
    for file, called in loading.called.items():
        return f"{file} calls {_listed(called)}, which no program that saves such files does"
    for file, tricks in loading.tricks.items():
        return f"the pickle of {file} hides what it does: {listed(list(tricks), 3)}"
    return ""


def _doubtful(loading: Loading) -> Verdict | None:
    """Calls of what nobody knows, in files of which nobody knows the writer."""
    for file, names in loading.doubtful.items():
        text = f"{file} calls {_listed(names)}; {reader_of(file).text}; plain values required"
        return warn(text, fix=DOUBTFUL_FIX)
    return None


def _unfamiliar(loading: Loading) -> str:
    """Classes that are not those of the usual writers of a file, and who reads it."""
    file, names = next(iter(loading.unfamiliar.items()))
    more = f" (and {len(loading.unfamiliar) - 1} more files)" * (len(loading.unfamiliar) > 1)
    return f"{file} names {_listed(names)}{more}: {reader_of(file).text}"


def _nothing_read(checkpoint: Checkpoint) -> str:
    """Why not one file could be read, "" where one was."""
    loading = checkpoint.loading
    if checkpoint.contents.tensors or loading.pickles or checkpoint.training.optimizer:
        return ""
    problems = [problem for problem in checkpoint.problems if problem.kind != "note"]
    return f"no file was read: {problems[0].message}" if problems else ""


def _bypass(loading: Loading, torch: Torch | Unknown) -> str:
    """A note on a torch whose weights-only loading can be made to run code."""
    if not loading.pickles or isinstance(torch, Unknown) or not is_before(torch.version, SAFE):
        return ""
    return (
        f"; torch {torch.version} can be made to run code even so (fixed in {SAFE}, "
        "CVE-2025-32434): load files of sources that you trust"
    )


def _admitted(loading: Loading) -> str:
    if not loading.pickles and not loading.beside:
        return "neither weights nor optimizer state are pickled: nothing to import"
    if not loading.pickles:
        return f"neither weights nor optimizer state are pickled{_beside(loading)}"
    files = f"{loading.pickles} pickled file{'s' * (loading.pickles != 1)}"
    allowed = f"weights-only loading allows all {len(loading.imports)} globals"
    return f"{files}; {allowed}{_beside(loading)}"


def _restricted(loading: Loading, torch: Torch | Unknown) -> Verdict | None:
    """What weights-only loading refuses, or torch loads without it; None where there is none."""
    version, refused = _version(torch), _refused(loading, _version(torch))
    if not all(map(PLAIN.fullmatch, refused)):
        changing = not set(loading.refused).issuperset(refused) or bool(set(refused) & SINCE.keys())
        of = f" of torch {version}" if changing else ""
        summary = f"torch.load(weights_only=True){of} refuses {_listed(refused)}"
        return warn(f"{summary}; plain weights required")
    if loading.executed:
        names = _listed(loading.executed)
        summary = f"torch.distributed.checkpoint unpickles without weights_only and imports {names}"
        return warn(f"{summary}; plain weights required", fix=EXECUTED_FIX)
    return None


def _version(torch: Torch | Unknown) -> str:
    return NEWEST if isinstance(torch, Unknown) else torch.version


def _refused(loading: Loading, version: str) -> tuple[str, ...]:
    """What that torch refuses; `loading.refused` is what torch 2.8 to 2.13 refuse."""

    def is_refused(name: str) -> bool:
        if name not in SINCE | UNTIL:
            return name in loading.refused
        too_old = name in SINCE and is_before(version, SINCE[name])
        return too_old or (name in UNTIL and not is_before(version, UNTIL[name]))

    return tuple(filter(is_refused, dict.fromkeys((*loading.imports, *loading.refused))))


def _listed(names: tuple[str, ...]) -> str:
    """The first five."""
    return listed([shown(name, 60) for name in names], 5)


def _where(loading: Loading) -> str:
    """The files beside the weights that import what is dangerous, or the pickles of weights."""
    dangerous = set(loading.dangerous)
    files = [file for file, names in loading.beside.items() if not dangerous.isdisjoint(names)]
    if not dangerous.isdisjoint(loading.imports):
        files = ["the checkpoint's pickles", *files]
    return listed(files, 3)


def _beside(loading: Loading) -> str:
    """What the files beside the weights import, of which nothing is known to be dangerous."""
    if not loading.beside:
        return ""
    names = {name for imports in loading.beside.values() for name in imports}
    files = listed(list(loading.beside), 3)
    return f"; {files}: imports of {len(names)} globals, none known to run commands"


KEEP_OUT = (
    "Do not load this file, not even to look at it: unpickling calls what it names. Delete it, and "
    "take the checkpoint from a source that you trust, as safetensors if there is a choice. Where "
    "your own code saved it, save a state_dict without these objects."
)

DOUBTFUL_FIX = (
    "Look up what these functions do before you load the file, or take it from a source that you "
    "trust. Where your own code saved it, save plain values and build the objects after loading."
)

EXECUTED_FIX = (
    "torch reads .metadata with pickle.load and stored objects with weights_only=False. Load the "
    "checkpoint only if its source is trusted, and keep objects of your own out of the state that "
    "dcp.save receives."
)

OF_NO_TORCH = (
    "Load them with pickle.load only where you trust their source: it runs what a pickle calls."
)
PLAIN_FIX = (
    "Name the classes before loading: torch.serialization.add_safe_globals([...]), with any "
    "loader. Or, if you trust the file's source, pass weights_only=False to torch.load, and with "
    "Lightning 2.6 or newer to load_from_checkpoint and trainer.fit: they keep torch's default. "
    "Plain dicts and strings need neither."
)

PROTOCOL_FIX = "Save with the default protocol: torch.save(..., pickle_protocol=2)."


ADAPTERS = Check(
    code="CKP008",
    slug="adapters-fp32",
    title="Adapters are stored in fp32",
    why="Adapters are small, and their updates are lost to bf16 rounding: at 0.02 it rounds back "
    "changes of up to 2^-14 (6e-5). peft keeps them in fp32 beside a base in half precision "
    "(autocast_adapter_dtype) since 0.12.0; from 0.7.1 to 0.11.1 they followed the base.",
    passes=("every tensor of an adapter is F32 or F64",),
    notes=("an adapter without a trainer's or an optimizer's state has BF16 or F16 tensors",),
    warns=(
        "an adapter with the state of its training has BF16 or F16 tensors: trained so, or rounded "
        "when saved",
    ),
    fix="Train with peft 0.12.0 or newer and autocast_adapter_dtype=True, do not call "
    "model.to(torch.bfloat16) after get_peft_model, and save the adapter without a cast.",
    limits="that they were trained in fp32: weights cast back to fp32 look the same.",
    owner=Owner.JOB,
    judge=adapters_fp32,
    required="checkpoint",
    sources=("bts-fix7", "bts-quick"),
    after=("CKP001",),
)

WITHOUT_CODE = Check(
    code="CKP010",
    slug="loads-without-code",
    title="The checkpoint loads without running code",
    why="Unpickling imports and calls what the file names, so an untrusted file can do anything. "
    "torch.load with weights_only=True, the default since torch 2.6, allows tensors and plain "
    "containers and refuses the rest; older versions could be bypassed. safetensors files contain "
    "no code of their own; auto_map and chat templates do. All is read without importing it.",
    passes=(
        "weights and optimizer state are safetensors",
        "or their pickles were read to their ends and name only what weights-only loading allows",
        "no pickle beside them names a global that is known to run commands, or calls one that its "
        "usual writers do not call",
        "no Python file that auto_map names starts a program or runs what it fetched, and no "
        "chat template reaches Python's internals",
    ),
    notes=(
        "a file beside the weights names classes that its usual writers do not put into it",
        "a pickle has nothing of torch, and has the name of one (.pkl, .joblib) or names only "
        "containers and arrays of numpy",
        "weights-only loading refuses classes that hold plain values, such as argparse.Namespace",
        "auto_map names code, and nothing in it is known to start programs",
    ),
    warns=(
        "a pickle names globals that weights-only loading refuses, or is of a protocol above 2",
        "a torch.distributed.checkpoint holds objects of classes that such files do not usually "
        "hold: torch unpickles them without weights_only",
        "a file beside the weights that no trainer writes calls what is not known",
        "importing code that auto_map names reaches the network or runs a text as code",
    ),
    fails=(
        "a pickle, also one beside the weights, names a global that is known to run code or "
        "commands or to reach files and networks, such as os.system, builtins.eval or subprocess",
        "a pickle calls functions of Python's library that no saver calls; a file that a trainer "
        "writes, any function that the trainer does not call",
        "a pickle hides what it does: it computes names, calls what it made itself, or changes "
        "what it imported",
        "code that auto_map names starts a program, runs what it fetched or decoded, or computes "
        "the name of what it calls, on import or in the functions that loading calls",
        "a chat template reaches Python's internals, such as __globals__",
    ),
    fix="Save a state_dict instead of whole modules and objects, or save with safetensors. Before "
    "loading an untrusted file with weights_only=False, review each global listed; to allow single "
    "ones, use\ntorch.serialization.add_safe_globals([...])",
    limits="that the code of trust_remote_code is harmless in ways that its calls do not show, as "
    "in functions of further files that run after the import, "
    "which of an address only config.json names, nor that a global is harmless because it is not "
    "on the list of those known to run commands.",
    owner=Owner.JOB,
    judge=loads_without_code,
    required="checkpoint",
    sources=("torch-weights-only", "picklescan", "transformers-43140", "accelerate-3036"),
    leads=True,
)

CHECKS = (ADAPTERS, WITHOUT_CODE)
