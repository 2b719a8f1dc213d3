"""What is known about hardware before any is looked at: one row per vendor, one per product.

In: a name. Out: rows.
`vendors` has what a vendor's GPUs are recognized by and driven with. A new vendor is a row there,
and a reader of its tool beside `doctor.probes.doctor_side.nvml`.
`data_center`, `workstation`, `geforce`, `laptops`, `embedded`, `amd` and `intel` have the products,
`find` the row of a name, `xids` what the numbers of NVIDIA's driver mean.
Rows are data: no facts, no thresholds, no functions that look at a machine. Imports nothing of the
doctor, and is read before anything heavy is imported.
"""

READ = "2026-11-23"
"""The day on which the rows were last compared with their sources."""
