"""The library transformers: its classes and configurations for a local directory."""

from __future__ import annotations

import importlib
import inspect
import os
from types import ModuleType

from ... import wire
from ..foreign import Foreign, observing
from .subjects import Unsupported


class NotBuilt(Exception):
    """The directory cannot be trained; the message says why."""


def imported() -> ModuleType:
    """transformers, offline and quiet. Raises NotBuilt if it is not installed."""
    os.environ["HF_HUB_OFFLINE"] = os.environ["TRANSFORMERS_OFFLINE"] = "1"
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    return required("transformers")


def required(name: str) -> ModuleType:
    """A library. Raises NotBuilt if it is not installed."""
    with wire.stage("import %s" % name):
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError as error:
            if error.name != name:
                raise
            raise NotBuilt("%s is not installed in this interpreter" % name) from None


def configuration(transformers: Foreign, directory: str) -> Foreign:
    if not os.path.isfile(os.path.join(directory, "config.json")):
        raise NotBuilt("%s has no config.json" % directory)
    try:
        return transformers.AutoConfig.from_pretrained(
            directory, trust_remote_code=False, local_files_only=True
        )
    except Exception as error:
        if "trust_remote_code" not in str(error):
            raise
        raise Unsupported(
            "the model needs code from its directory, which is not run: name a factory with --model"
        ) from error


def dtype_keyword(transformers: Foreign) -> str:
    """The name of the dtype's argument: torch_dtype before transformers 4.56."""
    major, minor = (int(part) for part in transformers.__version__.split(".")[:2])
    return "dtype" if (major, minor) >= (4, 56) else "torch_dtype"


TARGETS = {"labels", "start_positions", "return_loss"}
"""Arguments of a forward pass that computes a loss."""


def class_of(transformers: Foreign, config: Foreign) -> Foreign:
    """The class that config.json names, if it computes a loss; else the causal language model."""
    for name in observing.stated(config, "architectures") or ():
        candidate = getattr(transformers, name, None)
        forward = observing.stated(candidate, "forward")
        if forward is not None and TARGETS & set(inspect.signature(forward).parameters):
            return candidate
    if type(config) in transformers.AutoModelForCausalLM._model_mapping:
        return transformers.AutoModelForCausalLM
    raise Unsupported(
        "transformers %s has no causal language model for %s, nor does config.json name a class "
        "that computes a loss in `architectures`: name a factory with --model"
        % (transformers.__version__, type(config).__name__)
    )
