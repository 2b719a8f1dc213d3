"""What lines say of the method, the family of the model, and the GPU, in words of many forms."""

from __future__ import annotations

import re

METHODS = tuple(
    (re.compile(expression, re.IGNORECASE), kind)
    for expression, kind in (
        (r"\b(?:DPO|KTO|ORPO|CPO|SimPO|IPO)(?:Config|Trainer|Arguments)?\(|\bstage[=: ]+['\"]?(?:dpo"
         r"|kto|orpo)\b|\brl['\"]?: ['\"]?(?:dpo|kto|orpo|simpo)|loss_type['\"]?[=:]\s?['\"]?(?:"
         r"sigmoid|ipo|hinge|simpo)\b|\btrain_dpo|\bdpo\.py", "preference"),
        (r"\b(?:GRPO|RLOO|PPOv2|OnlineDPO)(?:Config|Trainer)?\(|adv_estimator['\"]?[=:]\s?['\"]?"
         r"(?:grpo|gae|rloo|reinforce)|\bstage[=: ]+['\"]?ppo\b|\bnum_generations['\"]?[=:]|"
         r"main_ppo|openrlhf|\brl['\"]?: ['\"]?(?:grpo|ppo)", "policy"),
        (r"\bLoraConfig\b|\badapter['\"]?[=:]\s?['\"]?q?lora|finetuning_type[=: ]+['\"]?lora|"
         r"\bLoRA settings|\bqlora\b|LoRAFinetune|\bnetwork_module[=: ]+\S*lora|_lora(?:_sdxl)?\.py|"
         r"\bpeft_type\b|\buse_peft[=:]\s?True|\buse_lora[=:]\s?True|--lora\b", "lora"),
        (r"finetuning_type[=: ]+['\"]?full|FullFinetune|\bfull[- _]?fine-?tun|finetune/full|"
         r"trainable%: 100", "full"),
        (r"number of parameters on \(tensor|\bpretrain(?:ing)?_gpt|\bfrom scratch|tokens per "
         r"iteration will be|\bnum decayed parameter tensors|Initializing a new model", "pretrain"),
        (r"--fsdp\b|\bfsdp['\"]?[=:] ?['\"]?(?:full|hybrid|true|\[<)|strategy[=:] ?['\"]?(?:fsdp|"
         r"deepspeed)|ds_z[123]|zero[_-]?stage['\"]?[=:]|zero[_-]?[23]\b|distributed_type['\"]?[=:] "
         r"?\S*(?:FSDP|DEEPSPEED)|FullyShardedDataParallel|--deepspeed\b", "sharded"),
        (r"offload_optimizer['\"]?\s?[:=]\s?\{?\s?['\"]?(?:device['\"]?\s?[:=]\s?['\"]?)?(?:cpu|true)|"
         r"cpu_adam op|offload_optimizer_device[:= ]+['\"]?cpu|DeepSpeedCPUAdam", "offloaded"),
        (r"\bGenerator\(|\bDiscriminator\(|\bnetD\b|\bnetG\b|\blr_d\b|\bd_lr\b", "gan"),
        (r"(?:stable[_-]?baselines|\bPPO hyperparameters|Wrapping the env|\bgym(?:nasium)?\b|"
         r"rsl_rl|\bMlpPolicy|rl_games|num_envs)", "control"),
    )
)  # fmt: skip
"""Expressions, and the method that each says: several may hold, of LoRA with preferences."""
ALONE = re.compile(r"\bdistributed(?: training)?['\"]?[:=] ?False\b|Training with a single process", re.I)
"""One process trains."""
FAMILY = re.compile(
    r"(?<![A-Za-z])(gemma|qwen|llama|mistral|mixtral|phi-?[34]|deepseek|olmo|internlm|baichuan|"
    r"yi-(?=\d)|falcon|mpt|bloom|opt-(?=\d)|gpt-?neox|gpt-?j|gpt-?2|(?:byt|m|um|flan-?)?t5|"
    r"(?:xlm-)?roberta|deberta|distilbert|electra|albert|bert|wav2vec2|hubert|whisper|conformer|"
    r"stable-diffusion-xl|sdxl|stable-diffusion|flux|resnet|convnext|vit|deit|swin|yolo|"
    r"faster-?rcnn|mask-?rcnn|detr|retinanet|unet|lstm|nanogpt)",
    re.IGNORECASE,
)
GPU = re.compile(
    r"(?<![A-Za-z])(?:NVIDIA |Tesla |GeForce |Quadro |Graphics Device )*"
    r"(?:(?:A100|H100|H200|B200|V100|P100|T4|L4|L40S?|A10G?|A40|A30|A6000|A5000|A4000|K80|P40|"
    r"MI\d{3}X?)(?:-[\w-]+)?|(?:RTX|GTX) (?:A)?\d{3,4}(?: ?Ti)?(?: SUPER)?|TITAN \w+)(?![\w])"
)
GPU_MEMORY = re.compile(r"[^\n]{0,40}?(\d{2,6}(?:\.\d+)? ?[MG]i?B)\b")
WORDED = tuple(
    (re.compile(expression, re.IGNORECASE), name)
    for expression, name in (
        (r"lora.{0,400}(?<!\w)['\"]?r['\"]? ?[=:] ?(\d{1,4})\b", "lora_rank"),
        (r"suggested max number of worker in current system is (\d{1,4})", "cores"),
        (r"(?<![\w.])(\d{1,4}) (?:\w+ )?(?:CPU )?(?:cores|vCPUs|CPUs)\b", "cores"),
        (r"(?<![\w.])(\d{1,5}(?:\.\d+)? ?[GT]i?B) (?:of )?(?:host |system )?(?:RAM|memory on the host)",
         "host_memory"),
        (r"(?<![\w.])(\d{1,5}) ?x ?(?:NVIDIA |Tesla )?(?:A100|H100|H200|V100|RTX|L40|A6000)",
         "world_size"),
        (r"optimizer\W{1,4}dict\(\s?type=['\"](\w{2,30})", "optimizer"),
        (r"len\(tokenizer\)\W{1,6}(\d{3,7})\b", "tokenizer_size"),
        (r"\blabels?\b[^{\n]{0,40}\{[^}\n]{0,600}?(?<!\d)(\d{1,5})['\"]?: ?[\d.]+\}", "highest_label"),
        (r"\b(?:foreground|positives?|minority|lesion)\b[^\d\n]{0,20}(\d{1,2}(?:\.\d+)? ?%)",
         "minority_share"),
        (r"Timeout\(ms\)=(\d{4,9})\b", "timeout_ms"),
    )
)  # fmt: skip
"""Expressions whose first group is the value of a setting."""
