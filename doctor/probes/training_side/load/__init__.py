"""A GPU under load, and a sum over the GPUs of the job."""
