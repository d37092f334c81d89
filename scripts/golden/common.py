"""What every section shares: seeds, files, and the rule that a second run writes the same bytes."""

import json
import logging
import pathlib
import warnings

import numpy as np
import torch
from safetensors.torch import save_file


def quiet_and_deterministic():
    """One thread and deterministic algorithms: sums have one order, so a machine of the same kind writes the same bytes."""
    import transformers

    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    warnings.simplefilter("ignore", FutureWarning)
    logging.getLogger("bitsandbytes").setLevel(logging.CRITICAL)


def generator(name):
    """A random generator of its own for each named thing: a section made alone equals the same section made with others."""
    return np.random.Generator(np.random.PCG64([ord(c) for c in name]))


def normal(rng, shape, scale=1.0):
    return torch.from_numpy((rng.standard_normal(shape) * scale).astype(np.float32))


def save_tensors(path, tensors):
    path = pathlib.Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    save_file({k: v.detach().contiguous() for k, v in sorted(tensors.items())}, path)


def save_json(path, value):
    """Floats are written with as many digits as their double needs."""
    path = pathlib.Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, indent=1) + "\n")


def ints(values):
    return torch.tensor(values, dtype=torch.int32)
