"""Rules on what belongs to a pretrained model: its tokenizer, and the keys of its checkpoint."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.checks.script import evaluate, objects
from doctor.checks.script.model.text_lengths import too_long
from doctor.checks.script.ranks import ddp_calls
from doctor.checks.script.rule import Match, Rule, each_of
from doctor.checks.script.training import Training
from doctor.facts.script import Call, Value

VOCABULARIES = (
    (
        "wordpiece",
        r"(?:google-bert/|google/|distilbert/|)(?:distil)?bert-(?:base|large)-((?:german-|"
        r"multilingual-)?(?:un)?cased|chinese)(?:-whole-word-masking|-finetuned|-distilled)*(?:-.*)?",
    ),
    (
        "byte-pair of GPT-2",
        r"(?:FacebookAI/|distilbert/|)(?:distil)?roberta-(?:base|large)()|"
        r"(?:openai-community/|distilbert/|)(?:distil)?gpt2(?:-medium|-large|-xl)?()",
    ),
    ("SentencePiece of T5", r"(?:google(?:-t5)?/)?(?:flan-)?t5-.*()"),
    ("SentencePiece of ALBERT", r"(?:albert/)?albert-.*()"),
    ("SentencePiece of XLM-R", r"(?:FacebookAI/)?xlm-roberta-.*()"),
    ("DeBERTa 3", r"microsoft/deberta-v3-.*()"),
)
"""Vocabularies of well-known checkpoints: those of different rows give other numbers to tokens."""


def _vocabulary(reading: Training, call: Call) -> str:
    """Which vocabulary a literal checkpoint has, "" for an unknown one."""
    value = evaluate.argument(reading, call, "pretrained_model_name_or_path", 0)
    names = evaluate.literals(reading, value, call)
    name = str(names.pop()) if len(names) == 1 else ""
    for label, pattern in VOCABULARIES:
        if found := re.fullmatch(pattern, name):
            return f"{label} {found.group(1) or ''}".strip()
    return ""


def other_tokenizer(reading: Training) -> Iterator[Match]:
    """One tokenizer and one model are loaded, and their vocabularies differ."""
    loads = reading.named("from_pretrained")
    tokenizers = [c for c in loads if "Tokenizer" in c.name and c.name.startswith("transformers.")]
    models = [
        c
        for c in loads
        if re.search(r"Model|For[A-Z]|LMHead", c.name)
        and c not in tokenizers
        and c.name.startswith("transformers.")
    ]
    if len(tokenizers) != 1 or len(models) != 1 or reading.mentions("encoderdecoder", "distill"):
        return
    own, model = _vocabulary(reading, tokenizers[0]), _vocabulary(reading, models[0])
    if own and model and own != model:
        yield Match(
            tokenizers[0].span, f"the tokenizer has the vocabulary {own}, the model {model}"
        )


def prefix_of_wrapper(reading: Training) -> Iterator[Match]:
    """Keys that begin with module. or model., and a load that expects none."""
    if reading.mentions("consume_prefix") or any(map(_cuts_prefix, reading.calls)):
        return
    yield from _of_ddp(reading)
    yield from _of_annotated(reading)
    yield from _of_lightning(reading)


def _cuts_prefix(call: Call) -> bool:
    """k.replace("module.", ""), k.startswith("model."), state.pop(k)."""
    texts = [str(v.literal) for v in call.args[:1] if v.kind == "literal"]
    named = any(text.startswith(("module", "model", "net", "_orig_mod")) for text in texts)
    renamed = call.method == "pop" and call.loops and [v.kind for v in call.args] == ["name"]
    return (named and call.method in CUTS) or bool(renamed)


def _of_annotated(reading: Training) -> Iterator[Match]:
    """def save(path, model: DDP) writes model.state_dict() under a key that a plain model reads."""
    for n, call in reading.numbered(reading.methods("state_dict")):
        kinds = [p.annotation for p in reading.function(call.scope).parameters
                 if p.name == call.receiver]  # fmt: skip
        if not kinds or not re.search(r"\bDDP\b|DataParallel", kinds[0]):
            continue
        keys = {key for _, key in _written(reading, n) if key}
        for load in reading.named("load_state_dict"):
            made = [c for v in evaluate.receivers(reading, load)
                    for c in [v.call] if v.kind == "call"]  # fmt: skip
            plain = made and not any(c in _wraps(reading) for c in made)
            if plain and any(key in keys for _, key in _read(reading, load)):
                yield Match(call.span, f"the keys of {call.receiver} begin with module., and "
                            f"{load.receiver} has none of these")  # fmt: skip


CUTS = {"removeprefix", "startswith", "replace", "lstrip", "sub", "partition", "split"}


def _of_ddp(reading: Training) -> Iterator[Match]:
    """A file gets the state of a wrapped model, and a model that is not wrapped reads it."""
    saved = [
        (call, path, key)
        for n in reading.methods("state_dict") if _is_wrapped(reading, n)
        for call in (reading.calls[n],)
        for path, key in _written(reading, n)
    ]  # fmt: skip
    for n, call in reading.numbered(reading.methods("load_state_dict") if saved else ()):
        if not call.receiver or _is_wrapped(reading, n) is not False:
            continue
        if re.search(r"optim|sched|scaler", call.receiver, re.IGNORECASE):
            continue
        for path, key in _read(reading, call):
            for state, written, under in saved:
                if key == under and _same_file(reading, path, written):
                    prefix = "_orig_mod" if _is_compiled(reading, state) else "module"
                    message = f"the keys of {state.receiver} begin with {prefix}., and "
                    message += f"{call.receiver} has none of these"
                    always = any(not reading.calls[w].arms for w in _wraps(reading))
                    own = f"Save {state.receiver}.{prefix}.state_dict()."
                    yield Match(state.span, message, None if always else "warn", fix=own)
                    return


def _wraps(reading: Training) -> list[int]:
    data = [n for n in reading.methods("DataParallel") if reading.calls[n].name.startswith("torch")]
    compiled = [n for n in reading.methods("compile") if reading.calls[n].name == "torch.compile"]
    return sorted((*ddp_calls(reading), *data, *compiled))


def _is_compiled(reading: Training, call: Call) -> bool:
    found = evaluate.receivers(reading, call)
    return any(v.kind == "call" and reading.calls[v.call].method == "compile" for v in found)


def _is_wrapped(reading: Training, number: int) -> bool | None:
    """What the method is called on is a wrapper: True, another object: False."""
    call = reading.calls[number]
    if call.receiver.endswith((".module", "._orig_mod")):
        return False
    wraps = _wraps(reading)
    if early := [n for n in wraps if call.receiver in reading.calls[n].targets
                 and _runs_before(reading, call, n)]:  # fmt: skip
        wraps = [n for n in wraps if n not in early]
    value = Value("name", name=call.receiver)
    found = [v for v in evaluate.options(reading, value, call) if v.call not in early]
    if any(v.kind == "name" and v.name.endswith(".module") for v in found):
        return None
    made = [_unmoved(reading, v) for v in found if v.kind == "call"]
    return any(each in wraps for each in made) if wraps or early else None


def _runs_before(reading: Training, call: Call, wrap: int) -> bool:
    """A method that the function which wraps calls before it does."""
    sites = reading.call_sites.get(call.scope, ()) if call.scope else ()
    scope = reading.calls[wrap].scope
    return bool(sites) and all(reading.calls[n].scope == scope and n < wrap for n in sites)


def _unmoved(reading: Training, value: Value) -> int:
    """The call below .cuda() and .to()."""
    number = value.call
    while reading.calls[number].method in ("to", "cuda", "eval", "train"):
        if reading.calls[number].receiver_call < 0:
            break
        number = reading.calls[number].receiver_call
    return number


Place = tuple[Value, Call]


def _written(reading: Training, number: int) -> Iterator[tuple[Place, str]]:
    """Paths that torch.save writes a state to, with its key in the dictionary that is written."""
    for call in reading.named("save"):
        for value in evaluate.options(reading, call.args[0], call) if len(call.args) > 1 else ():
            place = (call.args[1], call)
            if value.kind == "dict":
                keys = zip(value.keys, value.items, strict=False)
                yield from ((place, key) for key, item in keys if item.call == number)
            elif value.call == number and value.kind == "call":
                yield place, ""


def _copied(reading: Training, value: Value, call: Call) -> tuple[Call, Value]:
    """weights of {k: v for k, v in weights.items() if ...}, whose keys stay, and where it is."""
    whole = next((c for c in reading.inside(value) if c.method == "items" and c.receiver), None)
    same = value.name == "DictComp" and [v.kind for v in value.items[-2:]] == ["name", "name"]
    return (whole, Value("name", name=whole.receiver)) if same and whole else (call, value)


def _read(reading: Training, call: Call) -> Iterator[tuple[Place, str]]:
    """Paths that torch.load reads a state from, with its key in what is read."""
    for value in evaluate.options(reading, call.args[0], call) if call.args else ():
        key = ""
        if value.kind == "item" and len(value.items) == 2:
            key, value = str(value.items[1].literal), value.items[0]
        at, value = _copied(reading, value, call)
        for made in evaluate.options(reading, value, at):
            load = reading.call_of(made)
            if load is None or load.name != "torch.load" or not load.args:
                continue
            if load.scope == call.scope or not _is_given(reading, load):
                yield (load.args[0], load), key


def _is_given(reading: Training, load: Call) -> bool:
    """A helper that loads what each of its callers names is no one file."""
    used = {load.args[0].name, *load.args[0].names}
    return any(p.name in used for p in reading.function(load.scope).parameters)


def _same_file(reading: Training, one: Place, other: Place) -> bool:
    """The same name, or something that both names may be."""
    return one[0] == other[0] or any(
        each in _paths(reading, *other) for each in _paths(reading, *one)
    )


def _paths(reading: Training, value: Value, call: Call) -> list[Value]:
    """What a path may be; path.with_suffix(".tmp") and path + ".tmp" are written in its place."""
    found = []
    for each in evaluate.options(reading, value, call):
        made = reading.call_of(each)
        if made is not None and made.method in ("with_suffix", "with_name", "str", "fspath"):
            name = made.receiver or next((v.name for v in made.args), "")
            found += evaluate.options(reading, Value("name", name=name), made) if name else [each]
        elif each.kind == "other" and len(each.names) == 1 and not each.calls:
            found += evaluate.options(reading, Value("name", name=each.names[0]), call)
        found.append(each)
    return found


def _of_lightning(reading: Training) -> Iterator[Match]:
    """net.load_state_dict(checkpoint["state_dict"], strict=False) of a LightningModule's file."""
    modules = {
        c.name
        for c in reading.script.classes
        if any(b.endswith("LightningModule") for b in c.bases)
    }
    for call in reading.named("load_state_dict") if modules else ():
        texts = [call.args[0].name] if call.args else []
        texts += (
            [v.name for v in evaluate.options(reading, call.args[0], call)] if call.args else []
        )
        strict = call.keywords.get("strict")
        if not any(text.endswith("[state_dict]") for text in texts) or call.receiver == "self":
            continue
        if strict is None or strict.literal is not False:
            continue
        made = objects.makers_at(reading, Value("name", name=call.receiver), call)
        if all(m is not None and m.method[:1].isupper() and m.name not in modules for m in made):
            yield Match(
                call.span,
                "the keys of a LightningModule begin with its attribute: with "
                "strict=False nothing is loaded",
            )


RULES = (
    Rule(
        code="SCR326",
        slug="tokenizer-of-another-model",
        title="The tokenizer and the length of texts belong to the model",
        severity="fail",
        find=each_of(other_tokenizer, too_long),
        why="Another vocabulary gives other numbers to the same tokens: the pretrained embeddings "
        "get random words, and ids beyond the table raise. So do tokens behind the last of the "
        "positions, on a GPU as a device-side assertion.",
        fires=(
            "one tokenizer and one model of known checkpoints with different vocabularies",
            "texts cut at more tokens than the one model of the file has learned positions for",
        ),
        fix="Load both from one name.",
        sources=("transformers-tokenizer",),
        needs=("from_pretrained",),
    ),
    Rule(
        code="SCR327",
        slug="checkpoint-prefix",
        title="Keys of a checkpoint fit what loads it",
        severity="fail",
        find=prefix_of_wrapper,
        why="A wrapper's keys begin with its attribute: module. of DDP, the name of the network of "
        "a LightningModule. Loaded without the wrapper nothing matches: it raises, and with "
        "strict=False the network keeps its random weights.",
        fires=(
            "torch.save of the state_dict() of DDP or DataParallel, and load_state_dict() of this "
            "file in a model that is not, or not yet, wrapped",
            "the same of a model that torch.compile() returned",
            "net.load_state_dict(checkpoint['state_dict'], strict=False) of Lightning",
            "a warning: the same where a condition decides about the wrapper",
        ),
        fix="Save model.module.state_dict(); remove the prefix from the keys before loading.",
        sources=("torch-saving",),
        needs=("load_state_dict",),
    ),
)
