"""The guide's blocks for TRL run as they stand, one after the other, on the demo model."""

from __future__ import annotations

import copy
import functools
import json
import re
from pathlib import Path
from typing import Any

import pytest

from gpt_oss_harmony.apis import current_date
from gpt_oss_harmony.engines.demo_model import demo_model_folder
from gpt_oss_harmony.training.files import prepare

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
datasets = pytest.importorskip("datasets")
trl = pytest.importorskip("trl")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore"),  # TRL uses what Transformers deprecated
]

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "trainers.md"
SMALL: dict[str, Any] = {
    "per_device_train_batch_size": 2,
    "max_steps": 2,
    "optim": "sgd",
    "lr_scheduler_type": "constant",
    "logging_steps": 1,
    "report_to": [],
    "save_strategy": "no",
    "use_cpu": True,
    "bf16": False,
    "gradient_checkpointing": False,
    "disable_tqdm": True,
    "dataloader_pin_memory": False,
}
QUESTION = {"role": "user", "content": "What is the weather like in Rome?"}
ANSWER = {"role": "assistant", "content": "It is sunny."}


def blocks() -> dict[str, list[str]]:
    """Return the code of the guide's section about TRL, by its heading."""
    section = GUIDE.read_text("utf-8").partition("\n## TRL\n")[2].partition("\n## ")[0]
    found: dict[str, list[str]] = {}
    for part in section.split("\n### ")[1:]:
        code = re.findall(r"^```py(?:thon)?\n(.*?)^```$", part, re.MULTILINE | re.DOTALL)
        found[part.partition("\n")[0]] = code
    return found


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = demo_model_folder(tmp_path_factory.getbasetemp().parent)
    load = transformers.AutoModelForCausalLM.from_pretrained
    model = load(folder, router_aux_loss_coef=0.0, experts_implementation="eager")
    for rows in (model.get_input_embeddings(), model.lm_head):
        rows.requires_grad_(False)
    return model, transformers.AutoTokenizer.from_pretrained(folder)


def run(
    headings: list[str],
    loaded: Any,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    **settings: Any,
) -> list[Any]:
    """Run the blocks under some headings in a folder with data; return the trainers."""
    wrong = {**ANSWER, "content": "I don't know."}
    rows = {
        "chats.jsonl": {"messages": [QUESTION, ANSWER]},
        "prompts.jsonl": {"prompt": [QUESTION]},
        "pairs.jsonl": {"prompt": [QUESTION], "chosen": [ANSWER], "rejected": [wrong]},
    }
    for file, row in rows.items():
        (folder / file).write_text(json.dumps(row) + "\n")
    prepare(folder / "chats.jsonl", folder / "data", workers=1)
    monkeypatch.chdir(folder)
    for name in ("SFTConfig", "DPOConfig", "GRPOConfig"):
        own = {"max_completion_length": 64} if name == "GRPOConfig" else {}
        config = functools.partial(getattr(trl, name), **{**SMALL, **own, **settings})
        monkeypatch.setattr(trl, name, config)
    model, tokenizer = loaded
    scope: dict[str, Any] = {"model": copy.deepcopy(model), "tokenizer": tokenizer, "trl": trl}
    trainers: list[Any] = []
    for heading in headings:
        for code in blocks()[heading]:
            exec(compile(code, f"{GUIDE}#{heading}", "exec"), scope)
            if scope.get("trainer") is not None and scope["trainer"] not in trainers:
                trainers.append(scope["trainer"])
    return trainers


def losses(trainer: Any) -> list[float]:
    return [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]


def test_every_block_has_a_test() -> None:
    assert {heading: len(code) for heading, code in blocks().items()} == {
        "SFT": 1,
        "LoRA": 1,
        "DPO": 2,
        "GRPO": 2,
    }


def test_sft(loaded: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (trainer,) = run(["SFT"], loaded, tmp_path, monkeypatch, learning_rate=0.1)
    assert losses(trainer)[1] < losses(trainer)[0]
    (row,) = datasets.load_dataset("data", split="train")
    (batch,) = trainer.get_train_dataloader()
    assert batch["input_ids"].tolist() == [row["input_ids"]]
    assert batch["labels"].tolist() == [row["labels"]]


def test_lora(loaded: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("peft")
    _, trainer = run(
        ["SFT", "LoRA"], loaded, tmp_path, monkeypatch, max_steps=6, optim="adamw_torch"
    )
    assert losses(trainer)[-1] < losses(trainer)[0]
    trained = [name for name, weight in trainer.model.named_parameters() if weight.requires_grad]
    assert trained
    assert all("lora_" in name for name in trained)
    assert (tmp_path / "adapter" / "adapter_model.safetensors").exists()


def test_dpo(loaded: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SMALL, "per_device_train_batch_size", 1)
    (trainer,) = run(["DPO"], loaded, tmp_path, monkeypatch, learning_rate=0.1)
    assert losses(trainer)[1] < losses(trainer)[0]


def test_grpo(loaded: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    played, with_tools = run(["DPO", "GRPO"], loaded, tmp_path, monkeypatch, max_steps=1)[1:]
    assert played.state.global_step == with_tools.state.global_step == 1
    (logged,) = [e for e in with_tools.state.log_history if "tools/call_frequency" in e]
    assert logged["tools/call_frequency"] >= 0
    arguments = with_tools.args.chat_template_kwargs
    prompt = with_tools.processing_class.apply_chat_template(
        [QUESTION], tools=with_tools.tools, add_generation_prompt=True, tokenize=False, **arguments
    )
    assert f"Current date: {current_date()}\n" in prompt
