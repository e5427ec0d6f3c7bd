"""The event loop, the networks, the learner, and what a person sees of them."""

import os

if not os.environ.get("MKL_CBWR"):
    # MKL reads it when a process first computes. Otherwise results of fewer than eight columns are
    # rounded by their place in memory, and a job's bits would depend on its company.
    os.environ["MKL_CBWR"] = "AUTO"
