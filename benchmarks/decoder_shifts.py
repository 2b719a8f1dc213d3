"""Where the loss of each decoder class of the installed transformers reads its labels.

    python benchmarks/decoder_shifts.py [PART OF A NAME ...] > benchmarks/decoder_shifts.csv

Each class of the causal mapping gets small sizes and two layers, and the measurement of DAT006 and
DAT015, in a process of its own. With labels equal to the tokens, a shift of 1 trains the next one.
"""

from __future__ import annotations

import csv
import json
import os
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent.parent)]
from hf_classes import MOST_PARAMETERS, small, with_latent_heads  # noqa: E402

SECONDS = 90.0
WITHOUT_SHIFT = {
    "BartForCausalLM", "BigBirdPegasusForCausalLM", "BlenderbotForCausalLM",
    "BlenderbotSmallForCausalLM", "CpmAntForCausalLM", "MBartForCausalLM", "MarianForCausalLM",
    "MvpForCausalLM", "PLBartForCausalLM", "PegasusForCausalLM", "TrOCRForCausalLM",
    "WhisperForCausalLM", "XLMWithLMHeadModel",
}  # fmt: skip
"""By design, or as the decoder inside another model: their caller shifts the labels."""


def measured(kind: str, name: str) -> dict[str, Any]:
    """The record Offset of a class, or why there is none."""
    import torch
    import transformers

    from doctor.probes.training_side.data import documents, offsets

    torch.set_num_threads(1)
    config = transformers.CONFIG_MAPPING[kind]()
    data = small(config.to_dict(), 2)
    with_latent_heads(data)
    config = type(config).from_dict(data)
    if hasattr(config, "is_decoder"):
        config.is_decoder = True
    with torch.device("meta"):
        empty = getattr(transformers, name)._from_config(config)
    size = sum(weight.numel() for weight in empty.parameters())
    if size > MOST_PARAMETERS:
        return {"reason": f"{size} parameters"}
    model = getattr(transformers, name)._from_config(config)
    words = model.get_input_embeddings().num_embeddings
    ids = torch.randint(10, words, (2, 16))
    batch = {"input_ids": ids, "labels": ids.clone(), "attention_mask": torch.ones_like(ids)}
    tokens = documents.tokens_of(batch)
    assert tokens is not None
    return offsets.record(model, lambda module, each: module(**each).loss, batch, tokens)


def in_fork(kind: str, name: str) -> dict[str, Any]:
    reading, writing = os.pipe()
    pid = os.fork()
    if not pid:
        os.close(reading)
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1), os.dup2(null, 2)
        try:
            found = measured(kind, name)
        except Exception as error:
            found = {"reason": f"not built: {type(error).__name__}"}
        os.write(writing, json.dumps(found).encode()[:4000])
        os._exit(0)
    os.close(writing)
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        if os.waitpid(pid, os.WNOHANG)[0]:
            break
        time.sleep(0.2)
    else:
        os.kill(pid, 9)
        os.waitpid(pid, 0)
    with os.fdopen(reading, "rb") as file:
        text = file.read()
    return json.loads(text) if text else {"reason": "the process ended"}


def verdict(name: str, found: dict[str, Any]) -> str:
    if "shifts" not in found:
        return "not measured"
    if found["later"]:
        return "sees later tokens"
    shifts = set(found["shifts"])
    if shifts == {"1"}:
        return "t+1"
    return "t, intended" if shifts == {"0"} and name in WITHOUT_SHIFT else "other"


def main() -> None:
    os.environ.update(TRANSFORMERS_VERBOSITY="error", HF_HUB_OFFLINE="1")
    import transformers
    from transformers import LlamaForCausalLM  # noqa: F401 - so that forks have what most need
    from transformers.models.auto import modeling_auto

    from doctor.probes.training_side.data import offsets  # noqa: F401

    parts = sys.argv[1:]
    counts = Counter[str]()
    table = csv.writer(sys.stdout, lineterminator="\n")
    table.writerow(("class", "verdict", "shifts", "note"))
    for kind, name in sorted(modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.items()):
        if parts and not any(part in name for part in parts):
            continue
        found = in_fork(kind, name)
        result = verdict(name, found)
        counts[result] += 1
        shifts = " ".join(f"{k}:{n}" for k, n in found.get("shifts", {}).items())
        table.writerow((name, result, shifts, found.get("reason", "")))
        sys.stdout.flush()
    print(f"transformers {transformers.__version__}: {dict(counts)}", file=sys.stderr)


if __name__ == "__main__":
    main()
