"""Makes the checkpoint of an old release: `python make_checkpoint.py FOLDER`, run with that release (torch 2.1)."""

from __future__ import annotations

import sys

import torch
import torch.distributed.checkpoint as dcp

state = {
    "model.weight": torch.arange(6.0).view(2, 3),
    "model.bias": torch.arange(2, dtype=torch.float64),
    "step": 3,
}
dcp.save_state_dict(state, dcp.FileSystemWriter(sys.argv[1]), no_dist=True)
