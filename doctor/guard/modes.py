"""Modules that compute something else in training mode."""

from __future__ import annotations

from types import ModuleType

from .foreign import Foreign


def mode_matters(torch: ModuleType, module: Foreign) -> bool:
    """Whether a module computes something else in training mode."""
    dropout, norm = torch.nn.modules.dropout._DropoutNd, torch.nn.modules.batchnorm._BatchNorm
    if isinstance(module, dropout):
        return bool(module.p > 0)
    return isinstance(module, norm) and bool(module.track_running_stats)
