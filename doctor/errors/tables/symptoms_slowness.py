"""Symptoms of one slow part: a release, a precision, workers, a preparation; as people say it."""

from __future__ import annotations

from doctor.errors.cause import Cause

ROWS = (
    Cause(id="compile-not-faster",
        words=(
            "compile|compiled|torch.compile slow|slower|@not|recompil faster|slower|slow|"
            "speed|eager|speedup|every|each",
            "recompil every|each|all|constant|again|step|many",
        ),
        examples=("torch.compile is slower", "recompiling every step"),
        why="Shapes change, the graph breaks in many places, or compilation was counted into the "
            "time.",
        fix="TORCH_LOGS=recompiles,graph_breaks names both; pad to fixed shapes, mark "
            "dynamic=True, measure after 50 steps.",
        role="symptom",
        commands=("doctor run --only SMK010",),
    ),
    Cause(id="checkpoint-slow",
        words=(
            "saving|save|writing|written|writes|loading|load|saves checkpoint|checkpoints|model|"
            "weights|shards slow|long|forever|minutes|hours|stands_still|blocks !loss !dataloader "
            "!reward",
        ),
        examples=("saving checkpoints takes minutes", "loading the model is slow"),
        why="All state goes through one rank and one file, a network disk is slow, or the whole "
            "state is gathered first.",
        fix="Measure the disk, then save sharded and asynchronously "
            "(torch.distributed.checkpoint.async_save), and keep fewer.",
        role="symptom",
        commands=("doctor run --only DSK001,DSK002",),
    ),
    Cause(id="slower-after-upgrade",
        words=(
            "@slow|throughput|speed|step_time|it/s|tokens/s|regress after|since|with_the_new|"
            "new_version|newer upgrad|updat|new_version|newer|version|driver|torch_2|migrat|"
            "switch|moved_to|moving_to|downgrad !every_epoch !wandb !eval()",
        ),
        examples=("step time doubled after upgrading torch",
            "training is slower since the driver update",
            "slower with the new version of transformers"),
        why="The new release takes another path: an attention kernel that does not fit it any more "
            "(flash-attn or xformers built for the old torch), a changed default (precision, "
            "compile, loader), kernels that are built at the first start, or a GPU that was capped "
            "or given to another job meanwhile.",
        fix="Run the old and the new environment on the same machine, 200 steps each: if both are "
            "slow it is the machine. Else log which attention is used (attn_implementation, "
            "warnings of the first lines), whether TF32 and bf16 are as before, and profile ten "
            "steps of both (torch.profiler): the operation that grew names the package.",
        role="symptom",
        commands=("doctor run --only GPU004,GPU006,NUM002,NUM003",),
    ),
    Cause(id="precision-not-faster",
        words=(
            "amp$|mixed_precision|fp16|bf16|half_precision|tf32|fp8|autocast @not|same|slower|"
            "barely|no$ faster|speed|speedup|slower|gain|benefit|time !8_bit|8bit|4_bit|4bit "
            "!compile !nan",
        ),
        examples=("mixed precision training is not faster than fp32",
            "fp8 gives no speedup"),
        why="The step is not bound by matrix products: small layers or batches, a wait for data, "
            "memory-bound operations, the optimizer. Or the GPU has no such units (fp8 before Ada, "
            "bf16 before Ampere), sizes are no multiples of 8 (fp8: 16), or TF32 was on before.",
        fix="Time one step without loading data, with torch.profiler: less than half in matrix "
            "products means that precision cannot help much. Larger batches, sizes that are "
            "multiples of 64, channels_last for convolutions, a fused optimizer, torch.compile.",
        role="symptom",
        commands=("doctor run --only NUM001,NUM002", "doctor guard --all -- python train.py"),
    ),
    Cause(id="more-workers-slower",
        words=(
            "worker|workers|num_workers more|many|higher|increas|adding slow|slower|slows|longer|"
            "no_faster|not_faster !@memory !ram$ !rank !gpus !node",
        ),
        examples=("dataloader gets slower with more workers",),
        why="Workers share the cores and the disk: more than there are cores (in a container often "
            "four) take turns, each starts threads of its own (OpenCV, numpy, tokenizers), and "
            "many readers make one disk seek.",
        fix="As many workers as cores per GPU less one; cv2.setNumThreads(0), OMP_NUM_THREADS=1 "
            "and TOKENIZERS_PARALLELISM=false in them; persistent_workers=True, "
            "prefetch_factor=4. If the disk is the limit, larger files or a local copy help, and "
            "workers do not.",
        role="symptom",
        commands=("nproc", "doctor lint train.py"),
    ),
    Cause(id="preparation-slow",
        words=(
            "tokeniz|tokenis|tokenizing|tokenization|preprocess|map$|filter|mapping|packing slow|"
            "slower|longer|forever|hours|stuck|takes !loss !@memory !fails",
            "@eval slow|slower|longer|takes_longer|hours|forever|takes_forever|half_of_the_time|"
            "most_of_the_time than|longer|slow|epoch|train|training|time|very !loss !worker "
            "!accuracy",
            "torchrun|accelerate|launch|rank|ranks|ddp preprocess|collat|tokeni|augment|cpu "
            "slow|slower !gpu",
        ),
        examples=("tokenizing the dataset takes longer than training",
            "evaluation takes longer than training"),
        why="It runs on one core (torchrun sets OMP_NUM_THREADS=1 where it is not set) or sample "
            "by sample, is done again in each run and on each rank, or an evaluation generates "
            "token by token, keeps all logits and reads the whole set each time.",
        fix="Under torchrun export OMP_NUM_THREADS=cores/ranks, or prepare in workers. "
            "Preparation: batched=True, num_proc = cores, a fast tokenizer, once on rank 0 and "
            "saved (save_to_disk); a function or argument that changes makes the cache useless. "
            "Evaluation: less often, a fixed part of some hundred samples, a larger batch (no "
            "gradients), all ranks, prediction_loss_only=True or preprocess_logits_for_metrics, "
            "generation with a short limit or vLLM.",
        role="symptom",
        commands=("doctor lint train.py",),
    ),
    Cause(id="quantized-slower",
        words=(
            "qlora|4bit|4_bit|8bit|8_bit|nf4|quantiz|bitsandbytes slower|slow|longer|no_faster "
            "lora|bf16|fp16|than|train|training|fine_tun|finetun|inference|expected",
        ),
        examples=("qlora is slower than lora", "8-bit inference is slower than fp16"),
        why="No fault: weights in 4 or 8 bits are turned back into 16 bits in every layer of each "
            "step. It saves memory and costs a fifth to a half of the speed.",
        fix="Where LoRA in bf16 fits, train so. Else spend what was saved on a larger micro-batch "
            "instead of gradient checkpointing, with bnb_4bit_compute_dtype=torch.bfloat16 "
            "(float32 is the default and far slower), packing and fused kernels. 8 bits "
            "(LLM.int8) are slower than 4.",
        role="symptom",
        commands=("doctor prescribe", "doctor lint train.py"),
    ),
)  # fmt: skip
