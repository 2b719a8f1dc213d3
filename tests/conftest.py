"""Settings of all tests, made before any library reads them."""

import os

# Threads of several tests that wait for each other on a busy machine take ten times as long.
os.environ.setdefault("OMP_NUM_THREADS", "1")
