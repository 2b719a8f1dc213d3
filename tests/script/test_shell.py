"""Shell scripts and configurations that start trainings, and what their rules say."""

from __future__ import annotations

import textwrap

import pytest

from doctor.checks.script.lint import lint
from doctor.facts.script_machine import ScriptMachine
from doctor.script.read import read_script


def messages(text: str, name: str = "job.sh") -> dict[str, str]:
    """Code -> severity of what fires."""
    script = read_script(name, textwrap.dedent(text).lstrip().encode())
    return {h.code: h.severity for h in lint(script, ScriptMachine())} if script else {}


JOB = """
    #!/bin/bash
    #SBATCH --nodes={nodes}
    #SBATCH --ntasks-per-node={tasks}
    #SBATCH --gres=gpu:a100:{gpus}
    {setup}
    {command}
"""
HEALTHY = {
    "nodes": "1", "tasks": "1", "gpus": "4", "setup": "module load cuda",
    "command": "torchrun --standalone --nproc_per_node 4 train.py --lr 1e-4",
}  # fmt: skip
ADDRESS = "export MASTER_ADDR=$(scontrol show hostnames $SLURM_JOB_NODELIST | head -n 1)"
ARRAY = "#SBATCH --array=0-3\nLR=${RATES[$((SLURM_ARRAY_TASK_ID % 4))]}\n"
SEVERAL = "torchrun --nnodes 2 --nproc_per_node 4 --node_rank $SLURM_NODEID train.py"


def job(**parts: str) -> str:
    return textwrap.dedent(JOB).format(**(HEALTHY | parts))


@pytest.mark.parametrize(
    ("code", "severity", "text"),
    [
        ("SCR359", "fail", "python train.py \\\n  --lr 1e-4 \\ \n  --epochs 3\n"),
        ("SCR359", "fail", "python train.py \\\n  --lr 1e-4\n  --epochs 3\n"),
        ("SCR359", "fail", "python train.py \\\n  --lr 1 \\\n  # --wd 0 \\\n  --epochs 3\n"),
        ("SCR360", "fail", job(nodes="2", command=f"srun {SEVERAL}", setup=ADDRESS)),
        ("SCR360", "fail", job(nodes="2", command=SEVERAL, setup=ADDRESS)),
        ("SCR360", "fail", job(nodes="2", command=f"srun bash -c '{SEVERAL}'",
                               setup="export MASTER_ADDR=localhost")),
        ("SCR360", "fail", job(nodes="2", command="srun torchrun --standalone train.py")),
        ("SCR361", "fail", job(command="torchrun --nproc_per_node 8 train.py")),
        ("SCR361", "warn", job(command="torchrun --nproc_per_node 2 train.py")),
        ("SCR361", "fail", job(tasks="4", command="srun torchrun --nproc_per_node 4 train.py")),
        ("SCR361", "fail", job(command="srun python -m fit.cli --trainer.devices 4")),
        ("SCR361", "fail", job(nodes="2", command="srun torchrun --nnodes 4 train.py")),
        ("SCR361", "fail", "CUDA_VISIBLE_DEVICES=0,1 torchrun --nproc_per_node 4 train.py\n"),
        ("SCR362", "fail", job(setup="module load cuda\n#SBATCH --time=10:00")),
        ("SCR362", "fail", job(setup="CUDA_VISIBLE_DEVICES=0,1,2,3")),
        ("SCR362", "fail", job(setup="export PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb=64")),
        ("SCR362", "fail", job(command="torchrun --nproc_per_node 4 train.py &")),
        ("SCR362", "warn", "python t.py | tee log\nif [ $? -ne 0 ]; then exit 1; fi\n"),
        ("SCR362", "warn", "if python t.py 2>&1 | tee log; then touch done; fi\n"),
        ("SCR362", "warn", "torchrun t.py \\\n  --lr 1 2>&1 | tee -a log || exit 1\n"),
        ("SCR362", "warn", "set -e\npython t.py --save_dir $OUT/a | tee log\nrm -rf \"$OUT\"\n"),
        ("SCR362", "warn", f"{ARRAY}python t.py --lr $LR --save_path out/last.pt\n"),
        ("SCR362", "warn", f"{ARRAY}RUN=/scratch/$SLURM_ARRAY_JOB_ID\n"
                           "python t.py --lr $LR --checkpoint $RUN/last.pt\n"),
        ("SCR363", "warn", job(setup="export CUDA_LAUNCH_BLOCKING=1")),
        ("SCR364", "fail", "python t.py --output_dir o --fp16 --bf16\n"),
        ("SCR362", "fail", "cat <<EOF\nnote\nEOF\n#SBATCH --time=1\npython t.py\n"),
        ("SCR361", "fail",
         "N=8\nexport CUDA_VISIBLE_DEVICES=0,1\ntorchrun --nproc_per_node $N t.py\n"),
        ("SCR362", "fail", "MASTER_PORT=29500\necho $MASTER_PORT\npython t.py\n"),
        ("SCR362", "fail", "CUDA_VISIBLE_DEVICES=0\nN=${#CUDA_VISIBLE_DEVICES}\npython t.py $N\n"),
    ],
)  # fmt: skip
def test_what_a_shell_script_gets_wrong(code: str, severity: str, text: str) -> None:
    assert messages(text).get(code) == severity


@pytest.mark.parametrize(
    "text",
    [
        job(),
        job(nodes="2", command=f"srun bash -c '{SEVERAL}'", setup=ADDRESS),
        job(nodes="2", command="srun --kill-on-bad-exit=1 bash -c '\n  torchrun \\\n"
            '    --nnodes="$SLURM_NNODES" --nproc_per_node=4 train.py "$@"\n\' _ "${ARGS[@]}"',
            setup=f'{ADDRESS}\nARGS=(\n  --lr 1e-4\n  --epochs 3\n)'),
        job(tasks="4", command="srun python -m fit.cli --trainer.devices 4"),
        job(command="for s in 1 2; do\n  python train.py --seed $s &\ndone\nwait"),
        "export CUDA_VISIBLE_DEVICES=4,5,6,7\naccelerate launch --num_processes 4 train.py\n",
        "OPTS=\"\n  --lr 1e-4\n  --epochs 3\n\"\npython train.py $OPTS\n",
        'case "$1" in\n  --local) A=1 ;;\n  --verbose|-v) B=1 ;;\n  --lr) C=1 ;;\nesac\n'
        'ARGS=(\n  --lr 1e-4\n  --epochs 3\n)\npython train.py "${ARGS[@]}"\n',
        "cat > run.txt <<EOF\npython train.py\n  --lr 1\nEOF\npython train.py\n",
        "MASTER_PORT=29500\ntorchrun --master_port $MASTER_PORT train.py\n",
        "mkdir -p logs\nsbatch <<EOF\n#!/bin/bash\n#SBATCH --time=1\nsrun python t.py\nEOF\n",
        "if [ $DEBUG ]; then\n  N=4\n  export CUDA_VISIBLE_DEVICES=0,1,2,3\nelse\n  N=8\nfi\n"
        "torchrun --nproc_per_node $N t.py\n",
        "WANDB_PROJECT=p\nOPTS=(\n  --wandb-project $WANDB_PROJECT\n)\npython t.py ${OPTS[@]}\n",
        "MASTER_PORT=29500\nPORT=$((MASTER_PORT + 1))\ntorchrun --master_port $PORT train.py\n",
        'MASTER_ADDR=node1\nARGS="\n  --master_addr $MASTER_ADDR\n"\ntorchrun $ARGS train.py\n',
        "conda env config vars set \\\n  OMP_NUM_THREADS=8 \\\n  WANDB_MODE=offline\npython t.py\n",
        "echo nothing is started\n",
        "set -o pipefail\nif python t.py | tee log; then touch done; fi\n",
        "python t.py | tee log || true\npython t.py | tee log && echo done\n",
        "set -e\npython t.py --data $TMP/d --out $OUT | tee log\nrm -rf $TMP\n",
        "set -e\npython t.py --out $OUT | tee log\ncp -r $OUT /keep\nrm -rf $OUT\n",
        f"{ARRAY}python t.py --lr $LR --save_path out/$SLURM_JOB_ID/last.pt\n",
        f"{ARRAY}python t.py --lr $LR --out runs --checkpoint base.pt\n",
        f"{ARRAY}RUN=runs/$LR\npython t.py --lr $LR --save_path $RUN/last.pt\n",
    ],
)  # fmt: skip
def test_what_is_right_in_a_shell_script(text: str) -> None:
    assert messages(text) == {}


TRAINER = "output_dir: o\nper_device_train_batch_size: 8\n"
AXOLOTL = "base_model: m\ndatasets:\n  - path: d\nmicro_batch_size: 2\nsequence_len: 9\n"
FACTORY = "model_name_or_path: m\nstage: sft\nfinetuning_type: {}\ntemplate: {}\n"
ACCELERATE = "distributed_type: MULTI_GPU\nmixed_precision: bf16\n"


@pytest.mark.parametrize(
    ("name", "text", "code"),
    [
        ("t.yaml", TRAINER + "load_best_model_at_end: true\neval_strategy: 'no'\n", "SCR364"),
        ("t.yaml", TRAINER + "metric_for_best_model: accuracy\ngreater_is_better: false\n",
         "SCR364"),
        ("t.yaml", TRAINER + "warmup_steps: 2000\nmax_steps: 1000\n", "SCR364"),
        ("t.yaml", TRAINER + "lr_scheduler_type: constant\nwarmup_steps: 20\n", "SCR364"),
        ("t.yaml", TRAINER + "num_train_epochs: 3\nmax_steps: 200\neval_strategy: steps\n"
                   "eval_steps: 1000\n", "SCR364"),
        ("a.yaml", AXOLOTL + "load_in_8bit: true\n", "SCR364"),
        ("a.yaml", AXOLOTL + "save_steps: 10\nsaves_per_epoch: 2\n", "SCR364"),
        ("f.yaml", FACTORY.format("full", "qwen") + "quantization_bit: 4\n", "SCR364"),
        ("f.yaml", FACTORY.format("lora", "llama3").replace("_path: m",
         "_path: Qwen/Qwen2.5-7B-Instruct"), "SCR364"),
        ("d.json", '{"zero_optimization": {"stage": 2, "offload_param": {"device": "cpu"}}, '
                   '"bf16": {"enabled": true}}', "SCR365"),
        ("c.yaml", ACCELERATE + "num_machines: 2\nnum_processes: 16\n", "SCR366"),
        ("c.yaml", ACCELERATE + "num_processes: 4\nuse_cpu: true\n", "SCR366"),
        ("c.yaml", ACCELERATE + "num_processes: 4\ngpu_ids: 0,1\n", "SCR366"),
    ],
)  # fmt: skip
def test_what_a_configuration_gets_wrong(name: str, text: str, code: str) -> None:
    assert code in messages(text, name)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("t.yaml", TRAINER + "load_best_model_at_end: true\neval_strategy: steps\n"
                   "eval_steps: 100\nsave_steps: 200\nmetric_for_best_model: loss\n"),
        ("t.yaml", TRAINER + "num_train_epochs: 3\nmax_steps: -1\neval_strategy: steps\n"
                   "eval_steps: 1000\n"),
        ("t.yaml", TRAINER + "num_train_epochs: 1\nmax_steps: 20\neval_strategy: steps\n"
                   "eval_steps: 1000\n"),
        ("a.yaml", AXOLOTL + "adapter: qlora\nload_in_4bit: true\nval_set_size: 0\n"
                   "evals_per_epoch: 4\nsample_packing: true\nflash_attention: true\n"),
        ("f.yaml", FACTORY.format("lora", "qwen") + "quantization_bit: 4\nval_size: 0.1\n"
                   "eval_strategy: steps\n"),
        ("d.json", '{"train_batch_size": "auto", "zero_optimization": {"stage": 3, '
                   '"offload_param": {"device": "cpu"}}}'),
        ("c.yaml", ACCELERATE + "num_processes: 8\nnum_machines: 1\ngpu_ids: all\n"),
    ],
)  # fmt: skip
def test_what_is_right_in_a_configuration(name: str, text: str) -> None:
    assert messages(text, name) == {}
