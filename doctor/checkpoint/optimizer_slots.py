"""Names of the slots in which optimizers keep their state for a parameter."""

from __future__ import annotations

MOMENTS = (
    *("exp_avg", "exp_avg_sq", "exp_inf", "exp_avg_diff", "momentum_buffer", "square_avg"),
    *("grad_avg", "sum", "acc_delta", "row_var", "col_var", "variance", "exp_avg_sq_row"),
    *("exp_avg_sq_col", "momentum", "prev"),
)
"""Slots that are zero until the first gradient."""

SQUARES = frozenset(
    {"exp_avg_sq", "max_exp_avg_sq", "exp_avg_sq_row", "exp_avg_sq_col", "row_var", "col_var"}
    | {"square_avg", "acc_delta", "exp_inf", "variance", "sum"}
)
"""Sums, means and maxima of squares and magnitudes, which are never negative."""

AVERAGES = ("ax",)
"""ASGD's average of the weights: it shows their dtype, and no gradient."""

NESTED = "__bnb_optimizer_quant_state__"
"""Where bitsandbytes keeps the quantised state of an entry, so that FSDP leaves it whole."""

EIGHT_BIT = (("state1", "absmax1"), ("state2", "absmax2"))
"""bitsandbytes' slots, and the scales that are zero where a quantised slot is."""

COMPENSATION = ("compensation", "kahan_comp", "shift", "mantissa")
"""Slots that keep what rounding would lose: Kahan summation, or the low half of fp32 weights."""

MASTERS = ("master_param", "master_params", "master_weight", "master", "fp32_param", "param")
"""Slots that hold an fp32 copy of the weight."""

SAME_SHAPE = (
    *("exp_avg", "exp_avg_sq", "exp_inf", "momentum_buffer", "square_avg", "variance", "sum"),
    *("state1", "prev", "ax"),
)
"""Slots that have the shape of their weight."""

FACTORED = ("row_var", "exp_avg_sq_row")
"""Slots that only weights of two and more dimensions have."""
