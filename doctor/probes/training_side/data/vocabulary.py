"""What the tokenizer and the model say about special tokens, read from objects or a directory."""

from __future__ import annotations

import json
import os
import sys
from typing import Any, Dict, List, NamedTuple, Optional, Set, Tuple

from ..foreign import Foreign, observing

OF_TOKENIZER = "the tokenizer's eos_token"


class Vocabulary(NamedTuple):
    """Ids of the special tokens. None: there is none, or it is not known."""

    tokenizer: Foreign = None
    origin: str = ""
    bos: Optional[int] = None
    eos: Optional[int] = None
    pad: Optional[int] = None
    stops: Tuple[int, ...] = ()
    """The tokens at which generation stops."""
    source: str = ""
    """Where those are stated."""
    stated: bool = True
    """A configuration states them; else the tokenizer's eos_token stands for them."""

    def name(self, token: int) -> str:
        """The token as its vocabulary spells it, else its number."""
        spelled = observing.attempt(lambda: self.tokenizer.decode([token]), None)
        return str(spelled)[:60] if spelled else "token %d" % token

    def is_special(self, token: int) -> bool:
        return token in special_ids(self.tokenizer)


def special_ids(tokenizer: Foreign) -> Set[int]:
    """Special and added tokens."""
    ids: Set[int] = set(observing.attribute(tokenizer, "all_special_ids") or ())
    added = observing.attribute(tokenizer, "added_tokens_decoder")
    return ids | set(added or ())


def of_objects(tokenizer: Foreign, model: Foreign, trainer: Foreign, directory: str) -> Vocabulary:
    """The vocabulary of what the target holds and of the directory that --tokenizer names."""
    origin = "the target" if tokenizer is not None else ""
    if directory:
        tokenizer, origin = load(directory), "--tokenizer"
    inner = observing.attribute(tokenizer, "tokenizer")  # a processor of images and text
    tokenizer = inner if inner is not None else tokenizer
    stops, source = _stops(tokenizer, model, trainer, directory)
    stated = source != OF_TOKENIZER
    config = observing.attribute(model, "config")
    ids = {
        name: _first(observing.attribute(tokenizer, "%s_token_id" % name))
        for name in ("bos", "eos", "pad")
    }
    for name, token in ids.items():
        if token is None and (tokenizer is None or name == "pad"):
            ids[name] = _first(observing.attribute(config, "%s_token_id" % name))
    return Vocabulary(tokenizer, origin, ids["bos"], ids["eos"], ids["pad"], stops, source, stated)


def load(directory: str) -> Foreign:
    """The tokenizer of a local directory, by transformers, else by tokenizers' own file."""
    import transformers

    return transformers.AutoTokenizer.from_pretrained(
        os.path.abspath(directory), local_files_only=True, trust_remote_code=False
    )


def _stops(
    tokenizer: Foreign, model: Foreign, trainer: Foreign, directory: str
) -> Tuple[Tuple[int, ...], str]:
    eos = _ids(observing.attribute(tokenizer, "eos_token_id"))
    generation = observing.attribute(model, "generation_config")
    if generation is not None:
        stated = _ids(observing.attribute(generation, "eos_token_id"))
        if eos and stated == default_stops(model) and not _is_known(model, stated, tokenizer):
            stated = ()
        aligned = eos if aligns(trainer) else ()
        if stated or aligned:
            return tuple(dict.fromkeys(stated + aligned)), "the model's generation_config"
    for name in ("generation_config.json", "config.json") if directory else ():
        stated = _ids(_read(os.path.join(directory, name)).get("eos_token_id"))
        if stated:
            return stated, name
    return eos, OF_TOKENIZER if eos else ""


def aligns(trainer: Foreign) -> bool:
    """Whether the Trainer adds the tokenizer's stop to the model's when it starts to train: by a
    method, or by a function of its module."""
    if all(
        observing.attribute(trainer, name) is None for name in ("processing_class", "tokenizer")
    ):
        return False
    modules = [sys.modules.get(each.__module__) for each in type(trainer).__mro__]
    return observing.has(trainer, "_align_special_tokens") or any(
        observing.has(each, "align_special_tokens") for each in modules
    )


def _is_known(model: Foreign, stops: Tuple[int, ...], tokenizer: Foreign) -> bool:
    """Whether the default of a class is more than that: the model came from a checkpoint, and the
    tokenizer has it as a special token, where another one has a word."""
    loaded = observing.attribute(observing.attribute(model, "config"), "_name_or_path")
    return bool(loaded) and bool(set(stops) & special_ids(tokenizer))


def default_stops(model: Foreign) -> Tuple[int, ...]:
    """The stop that the class of the model's configuration has of itself."""
    made = observing.attempt(lambda: type(observing.attribute(model, "config"))(), None)
    return _ids(observing.attribute(made, "eos_token_id"))


def _read(path: str) -> Dict[str, Any]:
    try:
        with open(path, encoding="utf-8") as file:
            content = json.load(file)
    except (OSError, ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}


def _ids(value: Foreign) -> Tuple[int, ...]:
    each: List[Any] = list(value) if isinstance(value, (list, tuple)) else [value]
    return tuple(one for one in each if isinstance(one, int) and not isinstance(one, bool))


def _first(value: Foreign) -> Optional[int]:
    return next(iter(_ids(value)), None)
