"""Files of libraries that raise an error, at the commit or release in which its text was found."""

from __future__ import annotations

from doctor.judge.sources.library_pages import HUGGING_FACE
from doctor.judge.sources.source import Source
from doctor.judge.sources.torch_pages import TORCH

TRANSFORMERS = f"{HUGGING_FACE}/transformers/blob/v5.23.0"
PEFT = f"{HUGGING_FACE}/peft/blob/v0.21.2"
ACCELERATE = f"{HUGGING_FACE}/accelerate/blob/v1.15.0"
DATASETS = f"{HUGGING_FACE}/datasets/blob/b7cb10b0e38ab8bbefdb142d0279bc85ac8c7ab8"
TRL = f"{HUGGING_FACE}/trl/blob/v1.16.0"
HUB = f"{HUGGING_FACE}/huggingface_hub/blob/v2.4.0"
SAFETENSORS = f"{HUGGING_FACE}/safetensors/blob/v0.8.0"
DEEPSPEED = "https://github.com/deepspeedai/DeepSpeed/blob/edaa7221267243c7be7fb49c5d5f5c4fb97b4641"
LIGHTNING = (
    "https://github.com/Lightning-AI/pytorch-lightning/blob/"
    "7f0c3436cd3f6ad3753125672024fc415cbcb414"
)


def _file(id: str, title: str, address: str) -> Source:
    return Source(id, title, "", address, checked="2026-11-28")


LIBRARY_FILES = (
    _file(
        "torch-collate", "PyTorch: default_collate", f"{TORCH}/torch/utils/data/_utils/collate.py"
    ),
    _file("torch-sampler", "PyTorch: RandomSampler", f"{TORCH}/torch/utils/data/sampler.py"),
    _file(
        "torch-ddp", "PyTorch: DistributedDataParallel", f"{TORCH}/torch/nn/parallel/distributed.py"
    ),
    _file(
        "torch-gather",
        "PyTorch: Gather of DataParallel",
        f"{TORCH}/torch/nn/parallel/_functions.py",
    ),
    _file(
        "torch-reductions",
        "PyTorch: tensors passed between processes",
        f"{TORCH}/torch/multiprocessing/reductions.py",
    ),
    _file(
        "torch-recompute", "PyTorch: torch.utils.checkpoint", f"{TORCH}/torch/utils/checkpoint.py"
    ),
    _file(
        "torch-cpp-extension",
        "PyTorch: torch.utils.cpp_extension",
        f"{TORCH}/torch/utils/cpp_extension.py",
    ),
    _file(
        "torch-symbolic-shapes",
        "PyTorch: symbolic shapes of torch.compile",
        f"{TORCH}/torch/fx/experimental/symbolic_shapes.py",
    ),
    _file("torch-dynamo", "PyTorch: torch._dynamo", f"{TORCH}/torch/_dynamo/eval_frame.py"),
    _file("torch-functional", "PyTorch: torch.nn.functional", f"{TORCH}/torch/nn/functional.py"),
    _file("torch-autograd", "PyTorch: torch.autograd", f"{TORCH}/torch/autograd/__init__.py"),
    _file(
        "torch-dtensor",
        "PyTorch: dispatch of DTensor",
        f"{TORCH}/torch/distributed/tensor/_dispatch.py",
    ),
    _file(
        "torch-dcp-planner",
        "PyTorch: planner of Distributed Checkpoint",
        f"{TORCH}/torch/distributed/checkpoint/default_planner.py",
    ),
    _file(
        "torch-flat-param",
        "PyTorch: flat parameters of FSDP",
        f"{TORCH}/torch/distributed/fsdp/_flat_param.py",
    ),
    _file(
        "torch-cudnn", "PyTorch: torch.backends.cudnn", f"{TORCH}/torch/backends/cudnn/__init__.py"
    ),
    _file("torch-cuda-init", "PyTorch: torch.cuda", f"{TORCH}/torch/cuda/__init__.py"),
    _file("torch-grad-scaler", "PyTorch: GradScaler", f"{TORCH}/torch/amp/grad_scaler.py"),
    _file("torch-autocast", "PyTorch: autocast", f"{TORCH}/torch/amp/autocast_mode.py"),
    _file("torch-run", "PyTorch: torchrun", f"{TORCH}/torch/distributed/run.py"),
    _file(
        "torch-inductor-errors", "PyTorch: errors of Inductor", f"{TORCH}/torch/_inductor/exc.py"
    ),
    _file(
        "torch-distribution",
        "PyTorch: Distribution",
        f"{TORCH}/torch/distributions/distribution.py",
    ),
    _file("torch-conv", "PyTorch: convolutions", f"{TORCH}/torch/nn/modules/conv.py"),
    _file("torch-rnn", "PyTorch: RNN, LSTM and GRU", f"{TORCH}/torch/nn/modules/rnn.py"),
    _file("torch-adam", "PyTorch: Adam", f"{TORCH}/torch/optim/adam.py"),
    _file("torch-tensor", "PyTorch: torch.Tensor", f"{TORCH}/torch/_tensor.py"),
    _file(
        "torch-worker",
        "PyTorch: worker processes of DataLoader",
        f"{TORCH}/torch/utils/data/_utils/worker.py",
    ),
    _file(
        "torch-variable-utils",
        "PyTorch: checks before an operation in place",
        f"{TORCH}/torch/csrc/autograd/VariableTypeUtils.h",
    ),
    _file("torch-infer-size", "PyTorch: shapes of views", f"{TORCH}/aten/src/ATen/InferSize.h"),
    _file(
        "torch-utils", "PyTorch: exceptions passed between processes", f"{TORCH}/torch/_utils.py"
    ),
    _file(
        "transformers-generation",
        "transformers: generate",
        f"{TRANSFORMERS}/src/transformers/generation/utils.py",
    ),
    _file(
        "transformers-trainer-utils",
        "transformers: validate_quantization_for_training",
        f"{TRANSFORMERS}/src/transformers/trainer_utils.py",
    ),
    _file(
        "transformers-tokenization",
        "transformers: PreTrainedTokenizerBase",
        f"{TRANSFORMERS}/src/transformers/tokenization_utils_base.py",
    ),
    _file(
        "transformers-auto-model",
        "transformers: AutoModel",
        f"{TRANSFORMERS}/src/transformers/models/auto/auto_factory.py",
    ),
    _file(
        "transformers-auto-config",
        "transformers: AutoConfig",
        f"{TRANSFORMERS}/src/transformers/models/auto/configuration_auto.py",
    ),
    _file(
        "transformers-configuration",
        "transformers: PreTrainedConfig",
        f"{TRANSFORMERS}/src/transformers/configuration_utils.py",
    ),
    _file(
        "transformers-remote-code",
        "transformers: code of a repository",
        f"{TRANSFORMERS}/src/transformers/dynamic_module_utils.py",
    ),
    _file(
        "transformers-loading-report",
        "transformers: report of loaded weights",
        f"{TRANSFORMERS}/src/transformers/utils/loading_report.py",
    ),
    _file(
        "transformers-bnb",
        "transformers: quantization with bitsandbytes",
        f"{TRANSFORMERS}/src/transformers/quantizers/quantizer_bnb_4bit.py",
    ),
    _file(
        "transformers-imports",
        "transformers: optional dependencies",
        f"{TRANSFORMERS}/src/transformers/utils/import_utils.py",
    ),
    _file(
        "transformers-modeling",
        "transformers: PreTrainedModel",
        f"{TRANSFORMERS}/src/transformers/modeling_utils.py",
    ),
    _file(
        "transformers-hub",
        "transformers: files of the Hub",
        f"{TRANSFORMERS}/src/transformers/utils/hub.py",
    ),
    _file(
        "transformers-versions",
        "transformers: versions of packages",
        f"{TRANSFORMERS}/src/transformers/utils/versions.py",
    ),
    _file(
        "transformers-processing",
        "transformers: ProcessorMixin",
        f"{TRANSFORMERS}/src/transformers/processing_utils.py",
    ),
    _file(
        "transformers-gemma3",
        "transformers: images of Gemma 3",
        f"{TRANSFORMERS}/src/transformers/models/gemma3/processing_gemma3.py",
    ),
    _file(
        "transformers-encoder-decoder",
        "transformers: EncoderDecoderModel",
        f"{TRANSFORMERS}/src/transformers/models/encoder_decoder/modeling_encoder_decoder.py",
    ),
    _file("peft-tuners", "PEFT: modules of an adapter", f"{PEFT}/src/peft/tuners/tuners_utils.py"),
    _file(
        "accelerate-operations",
        "Accelerate: operations over ranks",
        f"{ACCELERATE}/src/accelerate/utils/operations.py",
    ),
    _file(
        "accelerate-plugins",
        "Accelerate: plugins and their settings",
        f"{ACCELERATE}/src/accelerate/utils/dataclasses.py",
    ),
    _file(
        "accelerate-memory",
        "Accelerate: find_executable_batch_size",
        f"{ACCELERATE}/src/accelerate/utils/memory.py",
    ),
    _file("datasets-writer", "Datasets: ArrowWriter", f"{DATASETS}/src/datasets/arrow_writer.py"),
    _file("datasets-load", "Datasets: load_dataset", f"{DATASETS}/src/datasets/load.py"),
    _file("datasets-exceptions", "Datasets: exceptions", f"{DATASETS}/src/datasets/exceptions.py"),
    _file("datasets-builder", "Datasets: DatasetBuilder", f"{DATASETS}/src/datasets/builder.py"),
    _file("datasets-dataset", "Datasets: Dataset", f"{DATASETS}/src/datasets/arrow_dataset.py"),
    _file("datasets-table", "Datasets: casts of tables", f"{DATASETS}/src/datasets/table.py"),
    _file(
        "datasets-workers",
        "Datasets: worker processes of map",
        f"{DATASETS}/src/datasets/utils/py_utils.py",
    ),
    _file("trl-grpo-config", "TRL: GRPOConfig", f"{TRL}/trl/trainer/grpo_config.py"),
    _file("deepspeed-batch", "DeepSpeed: batch sizes", f"{DEEPSPEED}/deepspeed/runtime/config.py"),
    _file(
        "lightning-module-file",
        "Lightning: LightningModule",
        f"{LIGHTNING}/src/lightning/pytorch/core/module.py",
    ),
    _file(
        "hub-download",
        "huggingface_hub: hf_hub_download",
        f"{HUB}/src/huggingface_hub/file_download.py",
    ),
    _file(
        "safetensors-torch",
        "safetensors: save_model",
        f"{SAFETENSORS}/bindings/python/py_src/safetensors/torch.py",
    ),
    _file("torch-linear", "PyTorch: Linear", f"{TORCH}/torch/nn/modules/linear.py"),
    _file(
        "torch-tensor-shape", "PyTorch: torch.cat", f"{TORCH}/aten/src/ATen/native/TensorShape.h"
    ),
    _file(
        "torch-tensor-docs", "PyTorch: methods of torch.Tensor", f"{TORCH}/torch/_tensor_docs.py"
    ),
    _file("torch-docs", "PyTorch: functions of torch", f"{TORCH}/torch/_torch_docs.py"),
    _file("torch-embedding", "PyTorch: Embedding", f"{TORCH}/torch/nn/modules/sparse.py"),
    _file("torch-pack", "PyTorch: pack_padded_sequence", f"{TORCH}/torch/nn/utils/rnn.py"),
    _file(
        "torch-dynamo-errors", "PyTorch: errors of torch._dynamo", f"{TORCH}/torch/_dynamo/exc.py"
    ),
    _file(
        "torch-saved-variable",
        "PyTorch: tensors kept for the backward pass",
        "https://github.com/pytorch/pytorch/blob/032b464e1c3b33ecf442851ff94228833961efe4/torch/csrc/autograd/saved_variable.cpp",
    ),
    _file(
        "torch-expand",
        "PyTorch: broadcasting of sizes",
        "https://github.com/pytorch/pytorch/blob/05e18eaf1a09722d6d84ad60b8981a206aae652c/aten/src/ATen/ExpandUtils.cpp",
    ),
    _file(
        "torch-nll-loss",
        "PyTorch: nll_loss and cross_entropy",
        "https://github.com/pytorch/pytorch/blob/0321fa774888a7c86501b3cb31ed6b4fc1010230/aten/src/ATen/native/LossNLL.cpp",
    ),
    _file(
        "python-multiprocessing",
        "Python: multiprocessing",
        "https://docs.python.org/3/library/multiprocessing.html",
    ),
)
