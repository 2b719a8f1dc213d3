"""Ids of rows that were joined to another one. They can still be explained and ignored."""

from __future__ import annotations

_JOINED = {
    "collective-mismatch": "parameters-without-gradient",
    "table-refused": "columns-differ columns-of-other-lengths table-without-rows "
    "table-too-large nested-array-in-a-column column-changes-type",
    "device-side-assert": "assert-labels assert-probabilities assert-embedding assert-index "
    "assert-gather",
    "too-many-open-files": "ipc-files",
    "settings-refused": "option-unknown option-value-unknown options-exclude-each-other "
    "setting-missing",
    "shm-bus-error": "shared-memory-full",
    "tensor-not-for-numpy": "numpy-of-gradient numpy-bfloat16",
    "kernel-takes-another-dtype": "flash-attention-on-cpu flash-attention-in-float32",
    "nccl-cuda-error": "nccl-out-of-memory",
    "dtype-of-operation": "mask-arithmetic index-dtype mean-of-integers one-hot-of-floats "
    "constant-beyond-dtype texts-are-no-texts mask-dtype text-as-tensor one-element-only",
    "architecture-unknown": "model-type-newer tokenizer-class-unknown "
    "rope-scaling-of-newer-model model-type-unknown",
    "name-moved": "torchvision-of-other-torch deepspeed-older-than-torch "
    "transformers-name-removed trainer-name-removed hub-function-removed torchvision-name-moved "
    "torchaudio-name-removed torch-module-removed numpy-name-removed pillow-name-removed "
    "setuptools-parts-removed yaml-loader-missing next-of-loader pickled-with-numpy-2",
    "package-version-refused": "packaging-too-old",
    "hip-architecture": "rocm-library-without-gpu hip-no-code",
    "numpy-of-other-build": "numpy-for-torch",
    "deepspeed-configuration": "zero-inference-without-stage-3 deepspeed-configuration-refused "
    "deepspeed-values-differ micro-batch-unknown zero-for-evaluation-only moe-groups-missing "
    "fp16-with-other-parameters zero-with-device-map no-sync-under-zero "
    "zero-of-another-world-size deepspeed-and-trainer-differ deepspeed-batch-arithmetic",
    "gpu-not-busy": "loader-slow",
    "element0-no-grad": "path-to-the-loss-ends",
    "device-mismatch": "two-devices",
    "dtype-mismatch": "mixed-dtypes",
    "index-out-of-range": "index-beyond-its-table embedding-index-beyond",
    "value-is-none": "argument-not-passed",
    "distribution-parameters": "distribution-of-probabilities distribution-of-positive-scale "
    "distribution-of-definite-matrix no-divergence bce-under-autocast not-probabilities",
    "state-dict-keys": "weights-inside-a-checkpoint other-keys",
    "order-of-dimensions": "layer-norm-of-channels product-sizes classes-second",
    "rows-and-labels": "unflattened-target",
    "attention-mask-shape": "mask-for-each-head mask-of-samples-first",
    "extra-dimension": "one-hot-targets targets-with-channels sizes-grown-before",
    "missing-dimension": "index-dimensions",
    "differing-sizes": "mask-of-index",
    "unequal-samples": "lists-of-other-lengths",
    "backward-in-the-loss": "backward-of-another-loss",
    "graph-of-another-step": "hook-replaces-a-tensor",
    "factory-with-parameters": "loss-with-other-parameters",
    "state-of-another-optimizer": "optimizer-state",
    "integers-for-floats": "exchanged-arguments integer-input labels-of-int32",
    "layer-arguments": "one-spatial-element interpolation-dimensions interpolation-size "
    "initialization-dimensions padding-row same-padding-stride class-weights image-size "
    "input-dimensions image-too-small one-value-per-channel whole-number-sizes",
    "loss-of-several-values": "loss-not-scalar",
    "ambiguous-truth": "criterion-created-with-tensors",
    "under-vmap": "shape-by-values-under-vmap changed-in-place-under-vmap "
    "number-of-a-tensor-under-vmap random-numbers-under-vmap batch-norm-under-vmap "
    "dimensions-of-vmap several-values-under-grad names-of-functional-call",
    "attention-unsupported": "flash-attention-dtype",
    "not-callable": "size-is-called",
    "factory-gives-no-training": "batch-size-above-samples collate-without-return "
    "lightning-without-batch factory-batch-is-array factory-exits factory-ends-process "
    "factory-ends factory-optimizer factory-without-batch loader-without-batch "
    "factory-needs-arguments trains-while-imported sequence-too-long package-not-in-interpreter",
    "optimizer-arguments": "dropout-probability norm-epsilon learning-rate-invalid "
    "sparse-adam-dense optimizer-of-result fused-and-foreach learning-rate-tensor "
    "sparse-gradients optimizer-state-on-gpu option-out-of-range schedule-of-no-optimizer "
    "schedule-factors schedule-momentum schedule-without-steps schedule-resumed schedule-mode",
    "loader-options": "prefetch-without-workers sampler-and-shuffle stream-shuffled "
    "dataset-tensors split-lengths dataset-without-a-length iterator-exhausted",
    "packed-lengths": "lengths-on-a-gpu empty-sequences unsorted-lengths",
    "empty-tensors": "empty-selection empty-list empty-sequence",
    "parameters-are-frozen": "requires-grad-of-module adapters-are-disabled adapters-are-frozen "
    "adapters-are-merged everything-is-frozen",
    "labels-missing": "outputs-without-a-loss",
    "data-files-missing": "class-folders-missing download-damaged array-file-cut-off "
    "split-unknown language-resource-missing",
    "saved-file-of-another-kind": "class-of-saved-model-missing state-dict-used-as-model "
    "checkpoint-without-training-state model-as-weights",
    "worker-processes-refused": "worker-returns-graph pinned-tensor-on-gpu cuda-tensors-shared "
    "sample-storage worker-starts-processes start-method-set-twice socket-path-too-long "
    "sample-leaves-no-worker worker-cannot-pickle main-is-not-guarded",
    "worker-ended-early": "worker-process-died worker-pipe-broken pin-memory-thread loader-timeout",
    "launched-wrongly": "launcher-variable-missing local-rank-argument group-initialized-twice "
    "process-group-missing notebook-started-cuda slurm-tasks-differ remote-start-failed "
    "deepspeed-without-launcher multinode-launcher-missing optimizer-of-deepspeed-missing "
    "deepspeed-launch",
    "backend-not-usable": "nccl-not-built nccl-without-gpus tensors-on-cpu-for-nccl "
    "windows-without-libuv host-name-unknown port-forbidden host-not-usable",
    "wrapper-refuses-model": "wrapped-without-gradients wrapped-on-several-devices "
    "shards-of-frozen-parameters inner-shard-called-first shards-of-integers "
    "scalar-under-dataparallel wrapped-model layer-class-to-wrap-unknown "
    "shards-of-several-dtypes",
    "datasets-of-another-release": "copy-refused dataset-scripts-removed "
    "feature-of-newer-datasets column-is-no-list datasets-older-than-fsspec",
    "generation-settings": "generation-settings-invalid generation-arguments-unused "
    "generation-length-too-short",
    "scaler-order": "scaler-without-infs scaler-without-scale scaler-used-twice",
    "quantized-training": "quantized-model-not-trainable quantized-without-adapter "
    "merge-into-8-bit-base int8-matmul-failed quantized-weights-into-plain-layer "
    "bitsandbytes-without-gpu packed-weight-multiplied quantizer-absent",
    "quantized-model-moved": "quantized-modules-on-cpu offloaded-model-moved",
    "adapter-modules": "target-modules-unnamed",
    "model-not-loaded": "pretrained-files-missing hub-name-unknown repository-name-invalid "
    "repository-file-missing model-type-missing weights-file-absent "
    "adapter-configuration-missing vocabulary-file-missing checkpoint-to-resume-missing "
    "tokenizer-file-newer tokenizer-not-convertible model-class-not-for-configuration "
    "tokenizer-not-readable model-not-found remote-code-not-trusted processor-not-loaded",
    "trainer-settings": "best-model-strategies-differ number-of-steps-needed "
    "evaluation-without-data training-data-missing gradient-checkpointing-unsupported "
    "run-configuration-changed generations-do-not-divide-batch",
    "chat-format": "chat-template-missing chat-message-fields chat-roles-order",
    "lightning-module": "hyperparameters-missing trainer-not-attached "
    "lightning-older-than-torch several-optimizers-step-manually",
    "directory-shared-by-ranks": "directory-not-empty checkpoint-renamed-twice",
    "sizes-do-not-divide": "attention-heads-not-divisible group-sizes",
    "pip-refuses": "no-matching-distribution wheel-of-other-python system-python-protected "
    "requirements-conflict package-metadata-missing torch-missing-for-build",
    "compiler-not-usable": "nvcc-older-than-gpu host-compiler-too-new "
    "host-compiler-too-old cuda-toolkit-missing compiler-of-another-time "
    "compiler-killed library-not-linked torch-headers-removed "
    "compiler-misses-a-header python-headers-missing triton-helper-not-built",
    "compiled-part-missing": "extension-without-gpu",
    "xformers-does-not-fit": "xformers-no-operator xformers-on-cpu-build xformers-of-other-torch",
    "compiled-model-refused": "compiled-data-dependent graph-output-overwritten "
    "autotuning-without-choice compiled-too-often compiler-defect dynamo-refuses-code "
    "triton-without-driver compile-not-available compiled-code-stale",
    "out-of-memory-in-disguise": "cudnn-finds-no-algorithm linear-algebra-library-failed "
    "allocator-assertion",
    "mps-limits": "mps-operator-missing mps-input-on-cpu mps-missing mps-out-of-memory",
    "ray-lacks-resources": "ray-too-few-gpus ray-workers-refused ray-hides-gpus "
    "ray-of-other-version",
    "engine-not-usable": "engine-without-device engine-model-not-imported engine-not-reachable "
    "no-gpu-left-for-generation",
    "sizes-of-one-function": "einsum-sizes window-size scatter-index-shape view-strides "
    "tensor-without-dimensions",
    "device-not-usable": "generator-device device-name",
    "matrix-not-positive": "matrix-not-finite",
    "refused-by-autograd": "inference-mode hook-changes-size copy-of-graph legacy-function "
    "integers-with-gradient rnn-in-eval gradient-of-tensor unused-in-graph no-derivative "
    "expanded-tensor view-of-several",
    "module-built-wrongly": "super-init-missing not-a-parameter not-a-module lazy-module "
    "weight-to-parametrize module-without-forward",
    "shell-cannot-run-it": "command-not-found relative-import reads-the-terminal "
    "script-with-windows-lines",
    "name-or-default-changes": "checkpoint-use-reentrant amp-renamed meshgrid-indexing "
    "pynvml-renamed tf32-available",
    "notices-of-the-start": "omp-threads barrier-device nccl-plugin-missing "
    "store-barrier-waiting socket-without-ipv6 hostfile-missing async-io-missing",
    "notices-of-replicas": "grad-strides find-unused-none scalars-gathered",
    "decoder-missing": "video-undecodable",
    "extension-not-built": "llama-cpp-not-built cpu-optimizer-not-built",
    "network-missing": "service-not-reachable",
    "hub-transfer-failed": "hub-rate-limit",
    "labels-or-boxes-invalid": "labels-exceed-classes sizes-without-meaning box-without-area",
    "device-lacks-feature": "precision-without-gpu bfloat16-on-older-gpu",
    "kernel-does-not-fit-gpu": "kernel-older-than-gpu flash-attention-older-gpu "
    "fuser-older-than-gpu hipblaslt-refuses-gpu kernel-needs-more-shared-memory",
    "ranks-disagree": "zero-ranks-disagree shapes-differ-between-ranks",
    "decoder-without-inputs": "decoder-start-token",
    "argument-of-another-release": "forward-keyword-of-library loss-signature-older "
    "accelerate-of-another-time adapter-of-newer-peft trainer-argument-renamed",
    "path-not-permitted": "directory-read-only library-on-noexec",
    "gpu-device-failed": "inforom-corrupted gpu-off-the-bus windows-stopped-gpu "
    "accelerator-unhealthy rocm-pcie-atomics amdgpu-ring-timeout amd-memory-errors "
    "amd-gpu-failed",
    "packages-of-several-times": "triton-of-other-torch protobuf-too-new openmp-twice "
    "opengl-missing",
    "windows-limits": "windows-page-file windows-library-missing",
    "pod-not-started": "volume-not-mounted image-not-started",
    "cuda-unavailable": "gpu-file-on-cpu torch-without-cuda",
    "model-directory-damaged": "config-of-other-weights part-of-the-weights-absent "
    "weights-cut-off config-not-readable weights-under-other-names",
    "driver-module-fails": "open-module-required open-module-refuses-gpu driver-legacy-gpu "
    "kernel-module-kind kernel-module-unsigned kernel-module-of-other-kernel "
    "gpu-without-memory-window driver-api-mismatch nouveau-holds-gpu gsp-firmware-missing "
    "amdgpu-not-started",
    "fabric-service-not-ready": "fabric-manager-version imex-not-ready",
    "processor-too-hot": "cpu-too-hot",
    "host-part-failing": "host-hardware-error disk-failing power-supply-failed",
    "file-locks-missing": "file-locked miopen-database-not-writable",
    "accelerator-not-set-up": "gaudi-driver-differs gaudi-not-acquired neuron-driver-missing "
    "tpu-in-use tpu-denied ascend-not-set-up intel-gpu-denied intel-gpu-without-runtime",
    "container-without-gpu-runtime": "container-devices-unresolved container-cgroup-denied "
    "container-image-has-driver container-refuses-gpus container-without-compute "
    "container-needs-newer-driver image-needs-newer-driver device-plugin-without-driver "
    "container-without-driver",
    "pictures-refused": "picture-type-of-transform channels-of-normalization "
    "array-with-negative-strides transform-of-pictures picture-unreadable",
    "file-of-another-format": "file-not-json file-not-text not-json-serializable "
    "decompressor-missing csv-not-parsed",
    "weights-file-not-whole": "data-ends",
    "checkpoint-damaged": "file-is-a-pointer safetensors-header",
    "number-out-of-type": "number-as-text text-is-no-number minus-100-decoded "
    "random-number-of-32-bits not-a-number-to-integer",
    "kernel-launch-refused": "more-than-32-bits",
    "failure-stands-above": "replica-raised data-set-not-generated import-within-transformers "
    "worker-raised",
    "torch-older-than-library": "pickled-weights-refused",
    "mask-refused": "mask-of-another-length mask-not-aligned cache-without-layers",
    "engine-limits-exceeded": "no-room-for-cache engine-wakes-without-memory gpu-share-not-free "
    "length-beyond-model prompt-beyond-length beyond-the-engines-length",
    "simulator-not-usable": "renderer-without-display environment-of-other-form",
    "completion-failed": "link-memory-protection gid-not-routed",
    "network-interface-wrong": "nccl-wrong-interface",
    "checkpoint-of-other-keys": "sharded-checkpoint-of-other-sizes checkpoint-arguments-differ",
    "texts-unpadded": "padding-token-in-config padding-token-missing",
    "name-undefined": "variable-of-branch",
    "parameters-are-partitioned": "checkpoint-saved-ungathered recomputed-under-zero-3",
    "nccl-network-not-used": "peer-memory-missing",
    "answer-not-in-time": "server-ended",
    "iommu-blocks-gpu": "iommu-not-passed-through",
    "actor-died": "ray-actor-not-created",
    "hf-auth": "hub-may-not-write",
    "module-hidden-by-own-file": "package-is-hidden torch-shadowed",
    "autograd-misuse": "parameter-ready-twice",
    "compile-failed": "compile-backend-raised",
    "device-number-too-high": "peer-gpu-hidden",
    "storage-not-answering": "network-storage-hangs",
    "missing-key": "hook-on-a-replaced-layer",
    "attribute-missing": "property-raised",
    "power-limit-low": "power-limit-differs",
    "python-too-old": "python-unsupported",
    "notices-of-the-end": "destroy-process-group worker-of-another-process leaked-semaphores",
    "request-tried-again": "wandb-server-slow",
    "bf16-model-in-fp16-without-bf16": "t5-in-fp16-without-bf16",
}
"""Row -> the ids that became a part of it."""
RETIRED = {id: row for row, ids in _JOINED.items() for id in ids.split()}
"""Id that is no longer used -> the id of the row that took its place."""


def current(id: str) -> str:
    """The id under which a row is known now."""
    return RETIRED.get(id, id)
