"""The records of a checkpoint."""

from doctor.checkpoint.records.checkpoint import (
    Checkpoint,
    CodeCall,
    Loading,
    OwnCode,
    Sibling,
    Tokenizer,
)
from doctor.checkpoint.records.contents import (
    BatchStatistics,
    Contents,
    Files,
    Kind,
    Norm,
    Role,
    Share,
)
from doctor.checkpoint.records.continuation import Continuation, Plan
from doctor.checkpoint.records.equality import Differing, Equality
from doctor.checkpoint.records.merge import (
    AdapterUse,
    LayerUpdate,
    Merge,
    MergedWeight,
    Replaced,
    Untouched,
)
from doctor.checkpoint.records.model import ChangedSetting, LoraFit, ModelConfig, Quantization, Size
from doctor.checkpoint.records.problems import Problem, ProblemKind
from doctor.checkpoint.records.training import Fit, History, NormEvidence, Optimizer, Training
from doctor.checkpoint.records.values import (
    TRANSPOSED,
    TURNED,
    Average,
    Constant,
    Copy,
    Incomparable,
    Large,
    LayerChange,
    LayerValues,
    Movement,
    NonFinite,
    Outlier,
    SecondWeights,
    TensorChange,
    UnchangedRole,
    Values,
    ZeroRange,
)

__all__ = [
    "TRANSPOSED", "TURNED",
    "AdapterUse", "Average", "BatchStatistics", "ChangedSetting", "Checkpoint", "CodeCall",
    "Constant", "Contents", "Continuation", "Copy", "Differing",
    "Equality", "Files", "Fit", "History", "Incomparable", "Kind", "Large", "LayerChange",
    "LayerUpdate", "LayerValues", "Loading", "LoraFit", "Merge", "MergedWeight", "ModelConfig",
    "Movement", "NonFinite", "Norm", "NormEvidence", "Optimizer", "Outlier", "OwnCode", "Plan",
    "Problem", "ProblemKind", "Quantization", "Replaced", "Role", "SecondWeights", "Share",
    "Sibling", "Size", "TensorChange", "Tokenizer", "Training", "UnchangedRole",
    "Untouched", "Values", "ZeroRange",
]  # fmt: skip
