"""Prepared data in trainers: the demo model learns from it, and from nothing that is masked."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from gpt_oss_harmony.engines.demo_model import demo_model_folder
from gpt_oss_harmony.training import IGNORED, TrainingOptions, stream_examples

pytestmark = pytest.mark.slow

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
datasets = pytest.importorskip("datasets")
pytest.importorskip("accelerate")
pytest.importorskip("pyarrow")

from gpt_oss_harmony.training.files import PrepareSettings, prepare  # noqa: E402

PAD = 199999
CITIES = ("Rome", "Oslo")


def chat(city: str) -> dict[str, Any]:
    asked = {"role": "user", "content": f"Where is {city}?"}
    answer = {"role": "assistant", "thinking": f"They ask for {city}.", "content": "Far away."}
    return {"messages": [asked, answer, asked, {**answer, "content": "Still far away."}]}


def prepared(folder: Path, settings: PrepareSettings | None = None) -> Any:
    source = folder / "chats.jsonl"
    source.write_text("".join(json.dumps(chat(city)) + "\n" for city in CITIES))
    undated = replace(settings or PrepareSettings(), start_date=None)
    prepare(source, folder / "out", undated, workers=1)
    cache = str(folder / "cache")
    return datasets.load_dataset(str(folder / "out"), split="train", cache_dir=cache)


def collated(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    longest = max(len(row["input_ids"]) for row in rows)

    def padded(name: str, padding: int) -> Any:
        lists = (row[name] + [padding] * (longest - len(row[name])) for row in rows)
        return torch.tensor(list(lists))

    ids = padded("input_ids", PAD)
    mask = (torch.arange(longest) < torch.tensor([[len(row["input_ids"])] for row in rows])).long()
    return {"input_ids": ids, "labels": padded("labels", IGNORED), "attention_mask": mask}


SETTINGS: dict[str, Any] = {
    "per_device_train_batch_size": 4,
    "max_steps": 2,
    "optim": "sgd",
    "learning_rate": 0.1,
    "logging_steps": 1,
    "report_to": [],
    "save_strategy": "no",
    "use_cpu": True,
    "disable_tqdm": True,
    "dataloader_pin_memory": False,
}
"""The settings of both trainers."""


def masked_loss(model: Any, batch: dict[str, Any]) -> float:
    """The mean loss of the trainable labels, taken from the logits at their places."""
    with torch.no_grad():
        logits = model(**{name: batch[name] for name in batch if name != "labels"}).logits
    trainable = batch["labels"][:, 1:] != IGNORED
    logs = torch.log_softmax(logits[:, :-1][trainable], dim=-1)
    labels = batch["labels"][:, 1:][trainable]
    return -float(logs[torch.arange(len(labels)), labels].mean())


class Untrained(NamedTuple):
    """What the model makes of the rows before it learns from them."""

    rows: list[dict[str, Any]]
    loss: float
    loss_without_mask: float


@pytest.fixture(scope="module")
def untrained(tmp_path_factory: pytest.TempPathFactory) -> Untrained:
    """The rows, and their losses, which take seconds over a vocabulary of 200,000."""
    rows = list(prepared(tmp_path_factory.mktemp("untrained")))
    folder = demo_model_folder(tmp_path_factory.getbasetemp().parent)
    model = transformers.AutoModelForCausalLM.from_pretrained(folder)
    unmasked = [{**row, "labels": row["input_ids"]} for row in rows]
    losses = [masked_loss(model, collated(batch)) for batch in (rows, unmasked)]
    return Untrained(rows, *losses)


def test_torch_reads_batches_of_it(tmp_path: Path) -> None:
    rows = prepared(tmp_path).with_format("torch", columns=["input_ids", "labels"])
    batches = list(torch.utils.data.DataLoader(rows, batch_size=1))
    assert [batch["input_ids"].shape for batch in batches] == [(1, 78), (1, 96)] * 2
    assert all((batch["labels"][:, 0] == IGNORED).all() for batch in batches)


def test_the_trainer_of_transformers_trains_on_it(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, untrained: Untrained
) -> None:
    rows = prepared(tmp_path)
    folder = demo_model_folder(tmp_path_factory.getbasetemp().parent)
    model = transformers.AutoModelForCausalLM.from_pretrained(folder)
    assert list(rows) == untrained.rows
    assert len(rows) == 4
    arguments = transformers.TrainingArguments(output_dir=str(tmp_path / "trained"), **SETTINGS)
    trainer = transformers.Trainer(
        model=model, args=arguments, train_dataset=rows, data_collator=collated
    )
    trainer.train()
    losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    # What the trainer takes the loss of is what is trainable, and nothing else.
    assert losses[0] == pytest.approx(untrained.loss, rel=1e-3)
    assert losses[-1] < 0.9 * losses[0]


def streamed() -> Iterator[dict[str, list[int]]]:
    for example in stream_examples(map(chat, CITIES), start_date=None):
        yield {"input_ids": example.input_ids, "labels": example.labels}


def labels_of_masks(row: dict[str, Any]) -> list[int]:
    pairs = zip(row["input_ids"], row["assistant_masks"], strict=True)
    return [token if mask else IGNORED for token, mask in pairs]


@pytest.mark.parametrize("columns", ["labels", "masks", "stream"])
@pytest.mark.filterwarnings("ignore")  # TRL uses what Transformers deprecated
def test_the_trainer_of_trl_trains_on_it(
    columns: str, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, untrained: Untrained
) -> None:
    trl = pytest.importorskip("trl", reason="trl is not installed")
    folder = demo_model_folder(tmp_path_factory.getbasetemp().parent)
    load = transformers.AutoModelForCausalLM.from_pretrained
    model = load(folder, router_aux_loss_coef=0.0)  # TRL would add that loss
    rows = prepared(tmp_path)
    examples = list(rows)
    if columns == "masks":
        examples = [{**row, "labels": labels_of_masks(row)} for row in examples]
        rows = rows.remove_columns("labels")
    elif columns == "stream":
        rows = datasets.IterableDataset.from_generator(streamed)
    assert examples == untrained.rows
    assert abs(untrained.loss_without_mask - untrained.loss) > 0.1
    settings = {**SETTINGS, "max_steps": 1} if columns == "stream" else SETTINGS
    arguments = trl.SFTConfig(
        output_dir=str(tmp_path / "trained"), bf16=False, max_length=None, **settings
    )
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    trainer = trl.SFTTrainer(
        model=model, args=arguments, train_dataset=rows, processing_class=tokenizer
    )
    trainer.train()
    losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    assert losses[0] == pytest.approx(untrained.loss, rel=1e-3)
    if columns != "stream":
        assert losses[-1] < 0.9 * losses[0]


def test_the_collator_of_trl_takes_packed_rows(tmp_path: Path) -> None:
    collators = pytest.importorskip("trl.trainer.sft_trainer")
    settings = PrepareSettings(TrainingOptions(context_length=300), pack=True)
    rows = list(prepared(tmp_path, settings))
    names = ("input_ids", "labels", "seq_lengths")
    chosen = [{name: row[name] for name in names} for row in rows]
    collator = collators.DataCollatorForLanguageModeling(PAD, padding_free=True)
    batch = collator(chosen)
    assert batch["input_ids"].tolist() == [[i for row in rows for i in row["input_ids"]]]
    assert batch["labels"].tolist() == [[label for row in rows for label in row["labels"]]]
    assert batch["position_ids"].tolist() == [[i for row in rows for i in row["position_ids"]]]


def test_packed_examples_are_trained_on_as_by_themselves(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, untrained: Untrained
) -> None:
    masking = pytest.importorskip("transformers.masking_utils")
    model = transformers.AutoModelForCausalLM.from_pretrained(
        demo_model_folder(tmp_path_factory.getbasetemp().parent)
    )
    settings = PrepareSettings(TrainingOptions(context_length=400), pack=True)
    (row,) = prepared(tmp_path, settings)
    places = torch.tensor([row["position_ids"]])
    makers = masking.create_causal_mask, masking.create_sliding_window_causal_mask
    named = inspect.signature(makers[0]).parameters
    cache = "cache" if "cache" in named else "past_key_values"  # before Transformers 5.24
    given = {"config": model.config, "attention_mask": None, cache: None}
    given |= {"inputs_embeds": torch.zeros(*places.shape, 1), "position_ids": places}
    # GptOssModel itself tells the masks nothing of the positions; see docs/guides/trainers.md.
    kinds = "full_attention", "sliding_attention"
    apart = {kind: make(**given) for kind, make in zip(kinds, makers, strict=True)}
    batch = {"input_ids": torch.tensor([row["input_ids"]]), "labels": torch.tensor([row["labels"]])}
    loss = masked_loss(model, {**batch, "position_ids": places, "attention_mask": apart})
    assert loss == pytest.approx(untrained.loss, rel=1e-4)
