"""Every model class of the installed transformers that builds small, under --hf.

    python benchmarks/hf_classes.py [PART OF A NAME ...]

Each class of the causal, masked, sequence-to-sequence, image, audio and image-and-text mappings
gets its default configuration with small sizes and LAYERS layers. One that builds is trained by the
probe of `doctor run --hf`, all in one process, with the layers that the doctor cuts. Its
configuration is sound, so a failure is a fault of the doctor, a defect of the library (DEFECTS), or
of the sizes that this file chose: those fail with all layers, too (OWN_SIZES).
"""

from __future__ import annotations

import collections
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

LAYERS = 6
DEPTHS = {"zamba2": 8, "gemma3n": 12, "gemma3n_text": 12}
"""Where that number of layers has not every kind."""
MOST_PARAMETERS = 40_000_000
MAPPINGS = (
    "MODEL_FOR_CAUSAL_LM_MAPPING_NAMES",
    "MODEL_FOR_MASKED_LM_MAPPING_NAMES",
    "MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES",
    "MODEL_FOR_IMAGE_CLASSIFICATION_MAPPING_NAMES",
    "MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES",
    "MODEL_FOR_AUDIO_CLASSIFICATION_MAPPING_NAMES",
    "MODEL_FOR_CTC_MAPPING_NAMES",
    "MODEL_FOR_SPEECH_SEQ_2_SEQ_MAPPING_NAMES",
)
COUNTS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers", "encoder_layers",
          "decoder_layers", "num_encoder_layers", "num_decoder_layers")  # fmt: skip
SMALL = {
    64: ("hidden_size", "d_model", "n_embd", "embed_dim", "emb_dim", "embedding_size", "model_dim",
         "embed_dim", "decoder_hidden_size", "encoder_hidden_size"),
    1: ("n_group", "topk_group", "num_expert_group"),
    128: ("intermediate_size", "ffn_dim", "encoder_ffn_dim", "decoder_ffn_dim", "d_ff", "mlp_dim",
          "ffn_hidden_size", "dense_intermediate_size", "intermediate_size_mlp"),
    4: ("num_attention_heads", "n_head", "n_heads", "num_heads", "encoder_attention_heads",
        "decoder_attention_heads", "num_encoder_attention_heads", "num_decoder_attention_heads"),
    2: ("num_key_value_heads", "num_experts_per_tok", "top_k", "moe_topk", "moe_k"),
    16: ("head_dim", "d_kv", "qk_nope_head_dim", "v_head_dim", "kv_lora_rank", "global_head_dim",
         "hidden_size_per_layer_input"),
    8: ("qk_rope_head_dim", "rotary_dim", "num_experts", "n_routed_experts", "num_local_experts",
        "moe_num_experts"),
    32: ("q_lora_rank", "moe_intermediate_size", "sliding_window", "attention_window",
         "shared_expert_intermediate_size", "moe_shared_expert_intermediate_size"),
    512: ("vocab_size", "max_position_embeddings", "n_positions", "vocab_size_per_layer_input"),
}  # fmt: skip
SIZES = {name: size for size, names in SMALL.items() for name in names}
DEFECTS: dict[str, str] = {}
"""Class -> the issue of the library that makes it fail."""


def small(data: dict[str, Any], layers: int) -> dict[str, Any]:
    """A configuration of the same kind with small sizes, in nested parts, too."""
    counts = {data[name] for name in COUNTS if isinstance(data.get(name), int)}
    result: dict[str, Any] = {}
    for name, value in data.items():
        result[name] = value
        if isinstance(value, bool) or value is None or not isinstance(name, str):
            continue
        if isinstance(value, dict):
            kept = {k: v for k, v in value.items() if not str(k).isdigit() or int(k) < layers}
            result[name] = kept if len(kept) < len(value) else small(value, layers)
        elif isinstance(value, (list, tuple)) and len(value) in counts:
            result[name] = list(value[:layers])
        elif isinstance(value, int) and name in COUNTS:
            result[name] = min(value, layers)
        elif isinstance(value, int) and name in SIZES:
            result[name] = min(value, SIZES[name])
        elif isinstance(value, int) and name.endswith(("_token_id", "_token_index")):
            result[name] = value if value < 512 else 400 + value % 100
        elif name == "num_kv_shared_layers" and value:
            result[name] = min(value, layers // 2 - 1)
        elif name.endswith("layer_ids") and isinstance(value, list):
            result[name] = [each for each in value if each < layers]
    return result


def with_latent_heads(data: dict[str, Any]) -> None:
    """Multi-head latent attention has as many heads for keys as for queries."""
    if data.get("kv_lora_rank") and "num_key_value_heads" in data:
        data["num_key_value_heads"] = data["num_attention_heads"]
        data["head_dim"] = data.get("qk_rope_head_dim", data.get("head_dim"))
    for value in data.values():
        if isinstance(value, dict):
            with_latent_heads(value)


def candidates(parts: list[str]) -> list[tuple[str, str]]:
    from transformers.models.auto import modeling_auto

    found = []
    for mapping in MAPPINGS:
        for kind, names in getattr(modeling_auto, mapping).items():
            for name in names if isinstance(names, (tuple, list)) else (names,):
                if not parts or any(part in name for part in parts):
                    found.append((kind, name))
    return list(dict.fromkeys(found))


def write_configurations(root: Path, parts: list[str]) -> None:
    """A directory per class that builds, and its reason for each that does not."""
    os.environ.update(TRANSFORMERS_VERBOSITY="error", HF_HUB_OFFLINE="1")
    import torch
    import transformers

    torch.set_num_threads(1)
    reasons = {}
    for kind, name in candidates(parts):
        try:
            config = transformers.CONFIG_MAPPING[kind]()
            data = small(config.to_dict(), DEPTHS.get(kind, LAYERS))
            if data.get("is_encoder_decoder"):
                data["decoder_start_token_id"] = data.get("decoder_start_token_id") or 0
                data["pad_token_id"] = data.get("pad_token_id") or 0
            with_latent_heads(data)
            config = type(config).from_dict(data)
            with torch.device("meta"):
                model = getattr(transformers, name)._from_config(config)
            size = sum(weight.numel() for weight in model.parameters())
            if size > MOST_PARAMETERS:
                raise ValueError(f"{size} parameters")
            directory = root / name
            config.architectures = [name]
            config.save_pretrained(directory)
        except Exception as error:
            reasons[name] = f"{type(error).__name__}: {str(error).splitlines()[:1]}"
    (root / "reasons.json").write_text(json.dumps(reasons))


def main() -> None:
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR")) as name:
        root = Path(name)
        line = [sys.executable, __file__, "--write", str(root), *sys.argv[1:]]
        subprocess.run(line, check=True, stderr=subprocess.DEVNULL)
        reasons = json.loads((root / "reasons.json").read_text())
        directories = sorted(each for each in root.iterdir() if each.is_dir())
        print(f"{len(reasons)} classes do not build small, {len(directories)} do")
        for each, reason in reasons.items():
            print("  not built:", each, reason[:110])
        run(directories)


def run(directories: list[Path]) -> None:
    from doctor.checks.training import own_gradients, own_model, own_weights
    from doctor.collect.children import Children
    from doctor.collect.own_training import collect_in
    from doctor.collect.torch_child import TorchChild
    from doctor.facts.own_model import OwnModel
    from doctor.job.job import Chosen, Job
    from doctor.judge.check import Status, Verdict

    children = Children()
    child = TorchChild(children, sys.executable)

    def judge(job: Job) -> tuple[str, Verdict]:
        own = collect_in(child, job, "cpu", Chosen("fp32", ""), lambda stage: None)
        if not isinstance(own, OwnModel):
            return "lost", Verdict(Status.UNKNOWN, own.reason)
        depth = f"{own.layers} of {own.all_layers}" + f", after {own.failed_depths}" * bool(
            own.failed_depths
        )
        for verdict in (
            own_model.completes(own, None),
            own_model.loss_finite(own, None),
            own_gradients.gradients_reach_all(own, None, job),
            own_weights.weights_move(own, job),
        ):
            if verdict.status in (Status.FAIL, Status.UNKNOWN, Status.WARN):
                return depth, verdict
        return depth, verdict

    counts: collections.Counter[str] = collections.Counter()
    for directory in directories:
        depth, verdict = judge(Job(device="cpu", hf=str(directory)))
        status, name = verdict.status.value, directory.name
        if status == "fail" and name in DEFECTS:
            status = "defect"
        counts[status] += 1
        if status == "fail":
            again = judge(Job(device="cpu", hf=str(directory), layers=10**6))
            print("FAIL", name, f"({again[1].status.value} with all layers)", verdict.summary[:400])
            counts["fail, not with all layers"] += again[1].status is not Status.FAIL
        elif status == "pass":
            print("pass", name, depth)
        else:
            print(status, name, depth, verdict.summary.partition(": ")[2][:300])
        sys.stdout.flush()
    child.end()
    children.interrupt()
    print(dict(counts))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--write"]:
        write_configurations(Path(sys.argv[2]), sys.argv[3:])
    else:
        main()
