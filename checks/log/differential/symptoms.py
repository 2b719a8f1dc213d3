"""Groups of checks and classes that have causes in common."""

from __future__ import annotations

NAN = ("loss-nonfinite", "loss-zero-gradnorm-nan", "gradient-nonfinite", "stopped-at-nan")
SCALER = ("scaler-collapse",)
DIVERGED = ("loss-divergence",)
WORSE = (*DIVERGED, "loss-spike")
FLAT = ("loss-plateau",)
STANDS = ("evaluation-stands-still",)
OVERFITS = ("evaluation-rises",)
REWARDS = ("rewards-alike",)
CONTROL = ("value-function-fails", "collapsed")
RATE_ZERO = ("learning-rate-zero",)
ANEW = ("schedule-begins-anew",)
RESUMED = ("loss-lost-at-resume", *ANEW)
MEMORY = ("cuda-oom",)
INDEX = ("device-side-assert", "index-out-of-range")
KILLED = ("dataloader-worker-killed", "killed-sigkill", "host-out-of-memory")
TIMEOUT = ("nccl-timeout", "rendezvous-timeout")
DATA = ("waits-for-data", "throughput-falling")
