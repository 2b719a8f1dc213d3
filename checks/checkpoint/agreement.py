"""Whether the configuration and the tokenizer are those of the weights."""

from __future__ import annotations

from collections.abc import Callable

from doctor._util.units import listed, shown
from doctor.checkpoint.analysis.sizes import LLAMA_LIKE
from doctor.checkpoint.records import Checkpoint, Size, Tokenizer
from doctor.checks.checkpoint.model_names import other_tensors, unloadable, wrapped_by_own
from doctor.checks.checkpoint.norm_causes import MIN_STEPS, length_of_run
from doctor.checks.checkpoint.settings import other_settings
from doctor.checks.checkpoint.tokens import token_ids
from doctor.judge.check import Check, Owner, Verdict, fail, ok, skip, unknown, warn
from doctor.judge.combine import SEVERITY


def config_agrees(checkpoint: Checkpoint) -> Verdict:
    model, rows = checkpoint.model, checkpoint.model.embedding_rows
    if model.unreadable:
        return fail(f"config.json {model.unreadable}; the model cannot be built", fix=CONFIG_FIX)
    if reason := _unread(checkpoint):
        return unknown(reason)
    if verdict := unloadable(checkpoint):
        return verdict
    sizes = [size for size in model.sizes if not (model.quantized and _packed(size))]
    beyond = _beyond(checkpoint.tokenizer, rows)
    if beyond and _by_chance(checkpoint):
        return warn(f"{beyond}; no config.json relates the two", fix=UNRELATED_FIX)
    if verdict := _wrong(sizes, checkpoint, beyond) or other_tensors(checkpoint):
        return verdict
    further = (token_ids, _head, other_settings, _unmatched, wrapped_by_own)
    if doubts := [verdict for judge in further if (verdict := judge(checkpoint))]:
        return max(
            doubts, key=lambda verdict: SEVERITY.index(verdict.status)
        )  # the first of equals
    if not sizes and (checkpoint.tokenizer is None or rows is None):
        return skip("no size of config.json or of a tokenizer can be compared with the tensors")
    compared = listed([f"{size.quantity} {size.stored:,}" for size in sizes], 7)
    largest = checkpoint.tokenizer.largest if checkpoint.tokenizer else None
    tokens = "" if largest is None or rows is None else f"largest token {largest:,} of {rows:,}"
    return ok(", ".join(filter(None, (compared, tokens))) or "nothing that differs was found")


OWN_LAYOUTS = ("one PyTorch file", "one .ckpt file")
PLAIN_ROWS = frozenset(
    {"t5", "mt5", "umt5", "gpt2", "gptj", "gpt_neox", "bert", "roberta", "bloom"}
)
"""model_types beside LLAMA_LIKE whose embedding has vocab_size rows exactly."""


def _by_chance(checkpoint: Checkpoint) -> bool:
    """Whether nothing relates the tokenizer to the weights but the directory: a file of torch.save
    with a name of its own, and no config.json."""
    described = checkpoint.model.model_type or checkpoint.model.sizes or checkpoint.model.adapter
    return not described and checkpoint.layout.endswith(OWN_LAYOUTS)


def _unmatched(checkpoint: Checkpoint) -> Verdict | None:
    """Sizes that a torch file names and no tensor has."""
    model = checkpoint.model
    if not model.unmatched:
        return None
    named = listed([f"{name} is {number:,}" for name, number in model.unmatched.items()], 3)
    last, rows = model.last_matrix
    return warn(
        f"{named}, and no tensor has that size: the last matrix, {shown(last, 100)}, has {rows:,} "
        "rows",
        fix=SETTINGS_FIX,
    )


def _head(checkpoint: Checkpoint) -> Verdict | None:
    """A head that config.json's class has and the tensors do not, or that is not the embedding."""
    model = checkpoint.model
    if model.separate_head:
        text = f"config.json ties {shown(model.separate_head, 100)} to the embedding"
        return warn(f"{text}, and it has values of its own", fix=TIED_FIX, sources=OF_TIES)
    if not model.task_without_head:
        return None
    task = shown(model.task_without_head, 100)
    text = f"config.json names {task}, and no tensor is of its head: loading makes one up"
    steps = length_of_run(checkpoint)
    if steps and steps >= MIN_STEPS:
        return fail(f"{text}; it was trained for {steps:,} steps", fix=TASK_FIX)
    return warn(text, fix=TASK_FIX)


def _wrong(sizes: list[Size], checkpoint: Checkpoint, beyond: str) -> Verdict | None:
    """What differs, the worst first; None where nothing does."""
    model = checkpoint.model
    wrong = [size for size in sizes if size.stored not in size.configured]
    header = model.source != "config.json"
    turned = [size for size in wrong if size.quantity == INPUTS]
    # Where other sizes differ as well, config.json is another model's.
    if turned and all(size.quantity in OF_CONV1D for size in wrong):
        text = f"{_difference(turned[0], model.source)}{_more(wrong)}"
        return fail(f"{text}: stored as (out, in)", fix=CONV1D_FIX, sources=OF_SIZES)
    refused = _refuses_more_rows(checkpoint)
    if failing := [size for size in wrong if header or refused(size) or not _only_more(size)]:
        text = f"{_difference(failing[0], model.source)}{_more(failing)}"
        if all(size.quantity == HEAD_ROWS for size in failing):  # the embedding's are right
            return fail(text, fix=HEAD_ROWS_FIX, sources=OF_SIZES)
        if header:
            return fail(text, fix=HEADER_FIX)
        return fail(text, fix=_sizes_fix(failing), sources=OF_SIZES)
    if model.head_missing:
        return fail(
            "config.json does not tie the output head, and no tensor is it",
            fix=HEAD_FIX,
            sources=OF_HEADS,
        )
    if beyond:
        is_added = "an added token" in beyond
        return fail(beyond, fix=TOKENS_FIX if is_added else f"{OTHER_VOCABULARY} {TOKENS_FIX}")
    if wrong:
        text = f"{_difference(wrong[0], model.source)}{_more(wrong)}"
        return warn(text, fix=_sizes_fix(wrong), sources=OF_SIZES)
    return None


def _sizes_fix(wrong: list[Size]) -> str:
    """The entries that would fit the tensors, where one entry decides each size."""
    fitting = [f'"{size.entry}": {size.fitting}' for size in wrong if size.fitting is not None]
    entries = ", ".join(dict.fromkeys(fitting))
    if not entries and (layers := next((s for s in wrong if _fewer_layers(s)), None)):
        text = f"Where layers were removed on purpose, write their number, {layers.stored}, there."
        return f"{SIZES_FIX} {text}"
    if len(fitting) < len(wrong):
        return SIZES_FIX
    return f"Write {entries} into config.json, as these tensors have it. Or: {SIZES_FIX}"


def _fewer_layers(size: Size) -> bool:
    """Whether layers are missing, as after pruning."""
    return size.quantity == "layers" and size.stored < max(size.configured)


def _unread(checkpoint: Checkpoint) -> str:
    """Why the tensors are not all known, "" if they are."""
    if checkpoint.not_inspectable:
        return checkpoint.not_inspectable
    return "" if checkpoint.contents.tensors else "no header could be read"


OF_SIZES = ("size-mismatch",)
OF_HEADS = ("qwen3-vl-embedding-89",)
OF_TIES = ("vllm-51665",)
INPUTS = "inputs of Conv1D"
OF_CONV1D = (INPUTS, "intermediate size")
OF_QUANTIZATION = ("bits", "group size", "blocks with a scale")


def _packed(size: Size) -> bool:
    """Whether quantised weights have it in another shape."""
    return size.quantity not in ("layers", "vocabulary", "experts", *OF_QUANTIZATION)


def _only_more(size: Size) -> bool:
    """Whether a loader would leave something out, instead of making something up."""
    return size.quantity in ("layers", "vocabulary") and size.stored > max(size.configured) > 0


def _refuses_more_rows(checkpoint: Checkpoint) -> Callable[[Size], bool]:
    """Whether from_pretrained raises where the embedding has more rows than config.json names."""
    code = checkpoint.loading.own
    library = not (code.files or code.elsewhere or checkpoint.layout.endswith(OWN_LAYOUTS))
    known = library and checkpoint.model.model_type in LLAMA_LIKE | PLAIN_ROWS
    return lambda size: known and size.quantity == "vocabulary" and size.entry == "vocab_size"


def _difference(size: Size, source: str) -> str:
    names = {
        "layers": "numbered layers",
        "vocabulary": "rows of the embedding",
        "positions": "rows of the embedding of positions",
        "labels": "rows of the classifier",
    }
    what = names.get(size.quantity, size.quantity)
    configured = " or ".join(f"{each:,}" for each in size.configured[:3])
    default = f", which has no {size.entry}, so that its default counts" if size.absent else ""
    return (
        f"{what}: {size.stored:,} in {shown(size.tensor, 100)}, {configured} in {source}{default}; "
        "the same required"
    )


def _more(sizes: list[Size]) -> str:
    return f" (and {len(sizes) - 1} more sizes)" if len(sizes) > 1 else ""


def _beyond(tokenizer: Tokenizer | None, rows: int | None) -> str:
    """A token without a row of the embedding, "" where each has one."""
    if tokenizer is None or rows is None:
        return ""
    added = tokenizer.largest_added is not None and tokenizer.largest_added >= rows
    if tokenizer.largest is None or (tokenizer.largest < rows and not added):
        return ""
    kind = "an added token" if added else "a token"
    number = tokenizer.largest_added if added else tokenizer.largest
    return f"the tokenizer has {kind} of number {number:,}, the embedding has {rows:,} rows"


SETTINGS_FIX = (
    "Give the number of the tensors when loading, load_from_checkpoint(path, num_classes=...), and "
    "save the settings after they were derived from the data: save_hyperparameters() keeps the "
    "arguments of __init__. Where the setting makes no layer, nothing is wrong."
)
CONFIG_FIX = (
    "Save the configuration again with model.config.save_pretrained, or take config.json from the "
    "model that the run began with."
)
SIZES_FIX = (
    "Take config.json from the same save as the weights: from_pretrained makes up what the files "
    "lack, and fails on sizes that differ."
)
HEADER_FIX = (
    "Convert the model again, with the tokenizer and the configuration of these weights: after "
    "adding tokens, model.resize_token_embeddings(len(tokenizer)) first. llama.cpp refuses a file "
    "whose tensors have other sizes than its header."
)
CONV1D_FIX = (
    "Transpose the weights of c_attn, c_fc and c_proj: this family keeps them as (in, out), other "
    "than torch's Linear. Or convert the model again from where it was whole."
)
HEAD_ROWS = "rows of the output head"
HEAD_ROWS_FIX = (
    "Resize the embedding and the head together, model.resize_token_embeddings(len(tokenizer)), "
    "in the model as it was before, and save it again: from_pretrained refuses a head of another "
    "size, or with ignore_mismatched_sizes makes a new one up."
)
TASK_FIX = (
    "Save the whole model, model.save_pretrained(), without choosing tensors by their names; take "
    "the head from an earlier save of the run, or train it again. If the model is to be trained "
    "for a task anew, nothing is wrong."
)
HEAD_FIX = (
    "Save the model again with its head, or set tie_word_embeddings to true in config.json if the "
    "head was the embedding: otherwise the head is random after loading."
)
TIED_FIX = (
    "Set tie_word_embeddings to false in config.json: transformers 4, vLLM and converters follow "
    "it and drop the trained head; transformers 5 keeps both, with a warning. Where the head "
    "should be tied, save the model again after model.tie_weights()."
)
OTHER_VOCABULARY = (
    "Where nobody enlarged the vocabulary, the tokenizer is another model's: copy its files from "
    "the model that the weights come from. Else:"
)
UNRELATED_FIX = (
    "Keep the weights and the tokenizer that they were trained with in a directory of their own. "
    "If this tokenizer is another model's, nothing is wrong with the weights."
)
TOKENS_FIX = (
    "Resize the embedding and save the model: a token without a row ends in an IndexError or a "
    "device-side assert.\nmodel.resize_token_embeddings(len(tokenizer))"
)


CONFIG = Check(
    code="CKP012",
    slug="config-agrees",
    title="config.json and the tokenizer agree with the weights",
    why="from_pretrained builds the model from config.json: layers that the files do not hold are "
    "random with no more than a warning, other sizes fail, and a token without a row of the "
    "embedding ends in a device-side assert. The headers show all of this.",
    passes=(
        "layers, hidden size, vocabulary and, in known families, projections have the sizes that "
        "config.json names",
        "every token of the tokenizer has a row of the embedding",
    ),
    warns=(
        "the files hold more layers than config.json names, or more rows of the embedding in a "
        "model that is not known to refuse them",
        "some names begin with what a wrapper puts there, such as module., and those of the layers "
        "next to them do not",
        "config.json ties the output head, and the files hold one of other values",
        "config.json names a class with a head for a task, and no tensor is of a head",
        "the model has no place for tensors (biases), or config.json is missing beside "
        "generation_config.json, or beside a tokenizer and a causal model",
        "all names are those inside of peft's wrapper, without a config.json",
        "a setting without a size (rope, activation, epsilon, scale) is not that of --baseline, "
        "--merged-from or --equals",
        "config.json, generation_config.json or the header of a GGUF file names a token beyond the "
        "vocabulary",
        "the numbers of several special tokens in config.json, the end of a text among them, are "
        "other tokens of the tokenizer",
        "the vocabulary of tokenizer.json is empty, and a model of sentencepiece lies beside it",
        "the tokenizer has a token beyond the embedding's rows, and only the directory relates it "
        "to the weights: a file of torch.save without a config.json",
        "RoPE was extended since --baseline and no weight changed",
        "the tokenizer's end of a text is none that the configuration of a model that generates "
        "names",
        "the chat template ends turns with a text that is no token, or, after 10 or more steps, "
        "with one that is not in eos_token_id",
        "num_classes, vocab_size and the like in the settings of a torch file are the size of no "
        "tensor",
    ),
    fails=(
        "another size differs, or the files hold fewer layers or rows; with GGUF also more",
        "config.json does not tie the output head of a causal model, and the files hold none",
        "the head for a task is in no tensor, after 10 or more steps",
        "names of tensors that from_pretrained reads have module., _orig_mod., base_layer. or "
        "another prefix in them",
        "a quarter of the tensors or more hold no value",
        "tensors of a known family are in no file: matrices of some layers, biases, norms",
        "quantized weights have no scales, or config.json does not say how they are quantized, or "
        "says that they are and none is",
        "the tokenizer has a token of a number beyond the embedding's rows",
        "config.json cannot be read",
        "a GGUF file with layers and a vocabulary has no token_embd.weight",
        "pad_token_id is beyond the vocabulary in a family whose embedding is built with it",
    ),
    fix=SIZES_FIX,
    notes=(
        "every name begins with module. or _orig_mod., or names contain _orig_mod. or _flat_param, "
        "in a file of one's own",
        "RoPE was extended since --baseline or --merged-from, as for a longer context",
        "the chat template of a model of unknown steps ends turns with a token that is not in "
        "eos_token_id",
    ),
    limits="that settings without a size, such as rope_theta, are those of the training, where no "
    "--baseline and no --merged-from names the model that the weights come from.",
    owner=Owner.JOB,
    judge=config_agrees,
    required="checkpoint",
    after=("CKP001",),
)

CHECKS = (CONFIG,)
