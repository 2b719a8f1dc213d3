"""Why no parameter of a model requires a gradient: adapters that are frozen, off or merged."""

from __future__ import annotations

import re

import torch

from ..foreign import observing
from . import ineffective

ADAPTER = re.compile(r"(^|\.)(lora_|ia3_|prompt_embeddings|hada_|lokr_|oft_|vera_lambda)")
"""Names of parameters that PEFT adds."""


def nothing_trains(module: torch.nn.Module) -> str:
    """The message, one of the rows of doctor.errors.tables.frozen for each cause."""
    message = "no parameter of the model requires a gradient: nothing would train; "
    adapters = [name for name, _ in module.named_parameters() if ADAPTER.search(name)]
    if adapters:
        disabled = sum(
            observing.attribute(each, "_disable_adapters") is True for each in module.modules()
        )
        if disabled:
            return message + "the adapters of %d layers are disabled" % disabled
        return (
            message
            + "%d parameters of adapters are frozen, as of an adapter that was loaded"
            % (len(adapters))
        )
    if observing.has(module, "peft_config"):
        return message + "it has a peft_config and no adapter: it was merged or unloaded"
    without = ineffective.ineffective(module)
    clause = "; without effect: %s" % ", ".join(without) if without else ""
    return message + "all %d are frozen%s" % (len(list(module.parameters())), clause)
