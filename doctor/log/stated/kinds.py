"""What lines say in words of many forms: the method, the family of the model, the GPU, counts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

FAMILIES = (
    "gemma", "qwen", "llama", "mistral", "mixtral", "phi-3", "phi-4", "phi3", "phi4", "deepseek",
    "olmo", "internlm", "baichuan", "yi-", "falcon", "mpt", "bloom", "opt-", "gpt-neox", "gptneox",
    "gpt-j", "gptj", "gpt2", "gpt-2", "t5", "roberta", "deberta", "distilbert", "electra", "albert",
    "bert", "wav2vec2", "hubert", "whisper", "conformer", "stable-diffusion-xl", "sdxl",
    "stable-diffusion", "flux", "resnet", "convnext", "vit", "deit", "swin", "yolo", "fasterrcnn",
    "faster-rcnn", "maskrcnn", "mask-rcnn", "detr", "retinanet", "unet", "lstm", "nanogpt",
)  # fmt: skip
"""Models; a longer name comes before one that it contains."""
GPUS = (
    "a100", "h100", "h200", "b200", "v100", "p100", "t4", "l4", "a10", "a40", "a30", "a6000",
    "a5000", "a4000", "a800", "h800", "k80", "p40", "mi2", "mi3", "rtx", "gtx", "titan",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Worded:
    """A sentence that states a setting."""

    words: tuple[str, ...]
    """One of them is in every such row, in lower case."""
    expression: re.Pattern[str]
    name: str
    kind: str = ""
    """The value; "" where it is the first group of the expression."""

    def stated(self, row: str, lowered: str) -> str:
        """The value that the row states, "" for none."""
        if not any(word in lowered for word in self.words):
            return ""
        match = self.expression.search(row)
        return (self.kind or match[1]) if match else ""


def _worded(words: str, expression: str, name: str, kind: str = "") -> Worded:
    return Worded(tuple(words.split()), re.compile(expression, re.IGNORECASE), name, kind)


NAMED = (
    r"\b(?:method|algo(?:rithm)?|trainer|trainer_type|training_type|train_method|objective|"
    r"loss_type|rlhf_type|recipe)['\"]?\s?[=: ]\s?['\"]?"
)
"""How a configuration names the way of training."""
METHODS = (
    _worded("dpo kto orpo cpo simpo ipo loss_type",
        r"\b(?:DPO|KTO|ORPO|CPO|SimPO|IPO)(?:Config|Trainer|Arguments)?\(|\bstage[=: ]+['\"]?(?:dpo"
        r"|kto|orpo)\b|\brl['\"]?: ['\"]?(?:dpo|kto|orpo|simpo)|loss_type['\"]?[=:]\s?['\"]?(?:"
        r"sigmoid|ipo|hinge|simpo)\b|\btrain_dpo|\bdpo\.py|"
        + NAMED + r"(?:dpo|kto|orpo|cpo|simpo|ipo)\b",
        "method", "preference"),
    _worded("grpo rloo ppo adv_estimator onlinedpo num_generations openrlhf",
        r"\b(?:GRPO|RLOO|PPOv2|OnlineDPO)(?:Config|Trainer)?\(|adv_estimator['\"]?[=:]\s?['\"]?"
        r"(?:grpo|gae|rloo|reinforce)|\bstage[=: ]+['\"]?ppo\b|\bnum_generations['\"]?[=:]|"
        r"main_ppo|openrlhf|\brl['\"]?: ['\"]?(?:grpo|ppo)|" + NAMED + r"(?:grpo|rloo|dapo|gspo)\b",
        "method", "policy"),
    _worded("lora peft patched",
        r"\bLoraConfig\b|\badapter['\"]?[=:]\s?['\"]?q?lora|(?:finetuning|train)_type[=: ]+['\"]?"
        r"lora|\bLoRA settings|\bqlora\b|LoRAFinetune|\bnetwork_module[=: ]+\S*lora|"
        r"_lora(?:_sdxl)?\.py|\bpeft_type\b|\buse_(?:peft|lora)['\"]?[=:]\s?True|--lora\b|"
        r"create LoRA network|\bpatched \d+ layers with \d+ QKV layers", "method", "lora"),
    _worded("full trainable% use_lora use_peft",
        r"(?:finetuning|train)_type[=: ]+['\"]?full|FullFinetune|\bfull[- _]?fine-?tun|"
        r"finetune/full|trainable%: 100|\buse_(?:lora|peft)['\"]?[=:]\s?False", "method", "full"),
    _worded("tensor, pretrain scratch iteration decayed initializing",
        r"number of parameters on \(tensor|\bpretrain(?:ing)?_gpt|\bfrom scratch|tokens per "
        r"iteration will be|\bnum decayed parameter tensors|Initializing a new model",
        "method", "pretrain"),
    _worded("fsdp deepspeed zero ds_z fullysharded",
        r"--fsdp\b|\bfsdp['\"]?[=:] ?['\"]?(?:full|hybrid|true|\[<)|strategy[=:] ?['\"]?(?:fsdp|"
        r"deepspeed)|ds_z[123]|zero[_-]?stage['\"]?[=:]|zero[_-]?[23]\b|zero_optimization|"
        r"distributed_type['\"]?[=:] ?\S*(?:FSDP|DEEPSPEED)|FullyShardedDataParallel|--deepspeed\b",
        "method", "sharded"),
    _worded("offload cpu_adam cpuadam",
        r"offload_optimizer(?:_device)?['\"]?\s?[:= ]\s?\{?\s?['\"]?(?:device['\"]?\s?[:=]\s?"
        r"['\"]?)?(?:cpu|true)|cpu_adam op|DeepSpeedCPUAdam", "method", "offloaded"),
    _worded("generator( discriminator( netd netg lr_d d_lr",
        r"\bGenerator\(|\bDiscriminator\(|\bnetD\b|\bnetG\b|\blr_d\b|\bd_lr\b", "method", "gan"),
    _worded("baselines ppo env gym mlppolicy rsl_rl rl_games",
        r"stable[_-]?baselines|\bPPO hyperparameters|Wrapping the env|\bgym(?:nasium)?\b|rsl_rl|"
        r"\bMlpPolicy|rl_games|num_envs", "method", "control"),
)  # fmt: skip
"""Several may hold, of LoRA with preferences."""
WORDED = (
    *METHODS,
    _worded("lora", r"lora.{0,400}(?<!\w)['\"]?r['\"]? ?[=:] ?(\d{1,4})\b", "lora_rank"),
    _worded("lora", r"\bLoRA\b.{0,60}\brank\)?: ?(\d{1,4})\b", "lora_rank"),
    _worded("worker", r"suggested max number of worker in current system is (\d{1,4})", "cores"),
    _worded("cores cpus",
        r"(?<![\w.])(\d{1,4}) (?:\w+ )?(?:CPU )?(?:cores|vCPUs|CPUs)\b", "cores"),
    _worded("ram memory",
        r"(?<![\w.])(\d{1,5}(?:\.\d+)? ?[GT]i?B) (?:of )?(?:host |system )?(?:RAM|memory on the "
        r"host)", "host_memory"),
    _worded(" ".join(GPUS),
        r"(?<![\w.])(\d{1,5}) ?x ?(?:NVIDIA |Tesla )?(?:A100|H100|H200|V100|RTX|L40|A6000|A800)",
        "world_size"),
    _worded("dict(", r"optimizer\W{1,4}dict\(\s?type=['\"](\w{2,30})", "optimizer"),
    _worded("len(tokenizer)", r"len\(tokenizer\)\W{1,6}(\d{3,7})\b", "tokenizer_size"),
    _worded("label",
        r"\blabels?\b[^{\n]{0,40}\{[^}\n]{0,600}?(?<!\d)(\d{1,5})['\"]?: ?[\d.]+\}",
        "highest_label"),
    _worded("foreground positive minority lesion",
        r"\b(?:foreground|positives?|minority|lesion)\b[^\d\n]{0,20}(\d{1,2}(?:\.\d+)? ?%)",
        "minority_share"),
    _worded("earlystopping best", r"\bEarlyStopping\w*\(|\b(?:load|restor)(?:ing|ed) (?:the )?best "
        r"(?:model|weights|checkpoint)", "best_kept", "True"),
    _worded("torch",
        r"(?<![A-Za-z])(?:py)?torch[^\w\n]{1,6}(?:version[^\w\n]{1,4})?"
        r"(\d{1,2}\.\d{1,2}\.\d{1,2}\+(?:cpu|cu\d{2,3}|rocm[\d.]{1,6}))\b", "torch_build"),
    _worded("device",
        r"^(?:using |training on )?device\s?[:=]\s?(cpu|cuda|mps)\b", "computes_on"),
    _worded("adam sgd rmsprop lion",
        r"\boptimi[sz]er ((?:paged_)?adam\w*|sgd|lion|rmsprop) lr\b", "optimizer"),
    _worded("adam sgd rmsprop lion",
        r"\b(?:adam\w*|sgd|lion|rmsprop) lr (\d*\.?\d+(?:e-?\d{1,2})?)(?![\w.])",
        "learning_rate"),
    _worded("restart sgdr warmed warming",
        r"\bwarm[- _]?restarts?\b|\bSGDR\b|WarmRestarts\b|\bre-?warm(?:ed|ing)\b|"
        r"\brestart\w* .{0,60}\b(?:intended|on purpose)\b", "restarts", "True"),
    _worded("curriculum unfreez unfroze prun resiz stage phase",
        r"\bcurriculum\b|\bprogressive\w* resiz|\bunfr(?:eez|oze)|\bprun(?:e|ed|ing)\b.{0,40}\d ?%|"
        r"\b(?:advanc|enter|mov|switch)\w* (?:on )?(?:in)?to (?:\w+ ){0,2}(?:stage|phase|level)\b|"
        r"\b(?:stage|phase) \d{1,2}\b.{0,80}\b(?:stage|phase) \d{1,2}\b", "stages", "True"),
    _worded("adaptive uncertaint log_var lambda gradnorm relobralo pinn",
        r"\b(?:self-?)?adaptive (?:loss )?weight|\bGradNorm\b|\bReLoBRaLo\b|\blog_vars?\b|"
        r"\blearn\w* (?:uncertaint|(?:loss|task) weight)|uncertainty[- ]"
        r"weight|\bexp\(-s", "loss_weights", "learned"),
    _worded("deepspeed master",
        r"\bdeepspeed\b|\b(?:fp32|float32)[ _-]master\b", "master_weights", "True"),
    _worded("timeout(ms)", r"Timeout\(ms\)=(\d{4,9})\b", "timeout_ms"),
    _worded("distributed single",
        r"\bdistributed(?: training)?['\"]?[:=] ?False\b|Training with a single process",
        "world_size", "1"),
    _worded("adam sgd lion adafactor rmsprop lamb lars",
        r"(?:name|type|_target_|_component_|class_path)['\"]?\s?[:=]\s?['\"]?(?:[\w.]+\.)?"
        r"((?:paged_)?adam\w*|sgd|lion|adafactor|rmsprop|lamb|lars)\b", "optimizer"),
    _worded(" ".join(FAMILIES),
        rf"(?<![A-Za-z])((?:xlm-|flan-?|byt|um|m)?(?:{'|'.join(FAMILIES)}))", "family"),
)  # fmt: skip
GPU = _worded(" ".join(GPUS),
    r"(?<![A-Za-z])((?:NVIDIA |Tesla |GeForce |Quadro |Graphics Device )*"
    r"(?:(?:A100|H100|H200|B200|V100|P100|T4|L4|L40S?|A10G?|A40|A30|A6000|A5000|A4000|A800|H800|"
    r"K80|P40|MI\d{3}X?)(?:-[\w-]+)?|(?:RTX|GTX) (?:A)?\d{3,4}(?: ?Ti)?(?: SUPER)?|TITAN \w+))"
    r"(?![\w])", "gpu")  # fmt: skip
GPU_MEMORY = re.compile(r"[^\n]{0,40}?(\d{2,6}(?:\.\d+)? ?[MG]i?B)\b")


def in_words(row: str, lowered: str) -> Iterator[tuple[str, str]]:
    """Names of settings and values that a row states."""
    for each in WORDED:
        if value := each.stated(row, lowered):
            yield each.name, value
    if gpu := GPU.stated(row, lowered):
        yield "gpu", gpu
        if memory := GPU_MEMORY.search(row, row.find(gpu) + len(gpu)):
            yield "gpu_memory", memory[1]
