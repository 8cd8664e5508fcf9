"""``mlx_lm.server`` with the demo model in float32, whose experts it cannot read itself.

mlx_server.py FOLDER PORT
"""

from __future__ import annotations

import sys
from pathlib import Path

import mlx.core as mx
from mlx_lm import server, utils
from mlx_lm.models import gpt_oss

from gpt_oss_harmony.engines.mlx_engine import MlxGptOss

folder, port = sys.argv[1:]
inner = utils.load_model


def load_model(path: Path, *given: object, **named: object) -> object:
    """Load the experts as our engine does, and on the CPU in the only type that MLX has there."""
    named["get_model_classes"] = lambda config: (MlxGptOss, gpt_oss.ModelArgs)
    model, config = inner(path, *given, **named)
    model.set_dtype(mx.float32)
    return model, config


utils.load_model = load_model
server.__dict__["load_model"] = load_model
sys.argv = ["mlx_lm.server", "--model", folder, "--port", port, "--log-level", "WARNING"]
server.main()
