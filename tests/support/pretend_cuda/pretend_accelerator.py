"""Loads accelerator.cpp: torch asks for its CUDA hooks once, while it is imported."""

from __future__ import annotations

import ctypes
import os

LIBRARY = ctypes.CDLL(os.environ["PRETEND_LIBRARY"])
