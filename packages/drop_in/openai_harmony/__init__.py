"""The public names of openai-harmony 0.0.8: the same objects as in gpt-oss-harmony."""

from pathlib import Path

# OpenAI's library and its fork install a compiled module into this folder (.pyd on Windows).
for _compiled in ("openai_harmony.abi3.so", "openai_harmony.pyd"):
    _file = Path(__file__).with_name(_compiled)
    if _file.exists():
        raise ImportError(
            f"two libraries are installed in one folder: {_file} belongs to OpenAI's or its fork; "
            "run 'pip uninstall -y gpt-oss-harmony-drop-in openai-harmony oss-harmony', "
            "then install the one that you want",
            name="openai_harmony",
            path=str(_file),
        )

from gpt_oss_harmony import drop_in as _drop_in  # noqa: E402
from gpt_oss_harmony.drop_in import *  # noqa: E402, F403

__all__ = _drop_in.__all__
