"""Train the demo model with LLaMA-Factory on prepared rows, and read ids and labels back.

``python scripts/trainers/llama_factory.py PYTHON``: this Python has the library and makes the rows;
PYTHON has LLaMA-Factory and trains an adapter for six steps, on the CPU. Two things are replaced
there: torchaudio, which is an empty module, and the function that chooses a kernel for GPUs.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from importlib.machinery import ModuleSpec
from importlib.util import module_from_spec
from pathlib import Path
from typing import Any

STEPS = 6


def make(folder: Path) -> str:
    """Write the rows as LLaMA-Factory reads them; return the folder of the model."""
    from datasets import load_dataset  # type: ignore[import-untyped,unused-ignore]

    from gpt_oss_harmony.engines.demo_model import demo_model_folder
    from gpt_oss_harmony.training.files import PrepareSettings, prepare

    source = folder / "chats.jsonl"
    with source.open("w") as file:
        for city in ("Rome", "Oslo", "Lima", "Bern"):
            asked = {"role": "user", "content": f"Where is {city}?"}
            answer = {"role": "assistant", "content": f"{city} is far away."}
            file.write(json.dumps({"messages": [asked, answer]}) + "\n")
    settings = PrepareSettings(columns=("labels", "attention_mask"))
    prepare(source, folder / "data", settings, workers=1)
    rows = load_dataset(str(folder / "data"), split="train", cache_dir=str(folder / "cache"))
    rows.save_to_disk(str(folder / "saved"))
    return str(demo_model_folder())


def train(folder: Path, model: str) -> None:
    """Train; print the losses, and how many rows of the batches are those that were prepared."""
    sys.modules["torchaudio"] = module_from_spec(ModuleSpec("torchaudio", None))
    from datasets import load_from_disk  # type: ignore[import-untyped,unused-ignore]
    from llamafactory.model import patcher  # type: ignore[import-not-found,unused-ignore]
    from llamafactory.train import tuner  # type: ignore[import-not-found,unused-ignore]
    from llamafactory.train.sft import trainer  # type: ignore[import-not-found,unused-ignore]

    def eager(config: Any, _: Any) -> None:
        config._attn_implementation = "eager"

    patcher.configure_attn_implementation = eager
    batches: list[dict[str, Any]] = []
    compute = trainer.CustomSeq2SeqTrainer.compute_loss

    def watched(self: Any, model: Any, inputs: Any, *rest: Any, **options: Any) -> Any:
        batches.append({name: value.tolist() for name, value in inputs.items()})
        return compute(self, model, inputs, *rest, **options)

    trainer.CustomSeq2SeqTrainer.compute_loss = watched
    tuner.run_exp(
        {
            "model_name_or_path": model,
            "stage": "sft",
            "do_train": True,
            "finetuning_type": "lora",
            "lora_target": "q_proj,k_proj,v_proj,o_proj",
            "template": "gpt_oss",
            "dataset": "none",
            "tokenized_path": str(folder / "saved"),
            "output_dir": str(folder / "out"),
            "per_device_train_batch_size": 4,
            "max_steps": STEPS,
            "learning_rate": 1e-3,
            "lr_scheduler_type": "constant",
            "optim": "adamw_torch",
            "logging_steps": 1,
            "save_strategy": "no",
            "report_to": "none",
            "use_cpu": True,
            "bf16": False,
            "disable_gradient_checkpointing": True,
        }
    )
    expected = {tuple(row["input_ids"]): row["labels"] for row in load_from_disk(folder / "saved")}
    count = 0
    for batch in batches:
        for ids, labels, mask in zip(
            batch["input_ids"], batch["labels"], batch["attention_mask"], strict=True
        ):
            own = [index for index, is_own in enumerate(mask) if is_own]
            assert [labels[index] for index in own] == expected[tuple(ids[i] for i in own)]
            assert {label for at, label in enumerate(labels) if not mask[at]} <= {-100}
            count += 1
    log = json.loads((folder / "out" / "trainer_state.json").read_text())["log_history"]
    losses = [entry["loss"] for entry in log if "loss" in entry]
    assert len(losses) == STEPS
    assert losses[-1] < losses[0]
    print(f"LLaMA-Factory: {count} rows read back; losses {losses}")


def main() -> None:
    if sys.argv[1] == "--train":
        train(Path(sys.argv[2]), sys.argv[3])
        return
    with tempfile.TemporaryDirectory() as name:
        model = make(Path(name))
        command = [sys.argv[1], "-W", "ignore", __file__, "--train", name, model]
        # It compares versions with those that it knows, and stops for newer ones.
        subprocess.run(command, check=True, env={**os.environ, "DISABLE_VERSION_CHECK": "1"})


if __name__ == "__main__":
    main()
