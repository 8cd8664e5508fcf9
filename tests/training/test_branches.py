"""Branched sequences: each label sees what it sees in its own example, and no token more."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpt_oss_harmony.training import (
    IGNORED,
    BranchedSequence,
    TrainingExample,
    TrainingOptions,
    branch,
    row_examples,
    training_examples,
)
from support.training_conversations import any_letters, conversation, likely_letters


def seen_by(sequence: BranchedSequence, index: int) -> list[tuple[int, int]]:
    """Return the tokens that a token sees, each with its position, in the order of positions."""
    until, positions = sequence.visible_until(), sequence.position_ids()
    before = [at for at in range(index + 1) if at == index or until[at] > index]
    return [(positions[at], sequence.input_ids[at]) for at in before]


def learned(example: TrainingExample) -> list[tuple[list[tuple[int, int]], int]]:
    """Return for each label the tokens that predict it, with their positions, and the label."""
    return [
        (list(enumerate(example.input_ids[:index])), label)
        for index, label in enumerate(example.labels)
        if label != IGNORED
    ]


def learned_in(sequence: BranchedSequence) -> list[tuple[list[tuple[int, int]], int]]:
    """Return the same for a sequence, as a model does: the token before predicts a label."""
    return [
        (seen_by(sequence, index - 1), label)
        for index, label in enumerate(sequence.labels)
        if label != IGNORED
    ]


@settings(max_examples=30)
@given(
    st.one_of(any_letters, likely_letters),
    st.sampled_from([None, 60, 120]),
    st.sampled_from([None, 60, 150, 400]),
)
def test_a_label_is_predicted_from_the_tokens_of_its_example(
    letters: str, context: int | None, limit: int | None
) -> None:
    options = TrainingOptions(context_length=context)
    examples = training_examples(conversation(letters), options)
    sequences = branch(examples, limit)
    made = [pair for sequence in sequences for pair in learned_in(sequence)]
    assert made == [pair for example in examples for pair in learned(example)]
    assert sum(map(len, sequences)) <= sum(map(len, examples))
    for sequence in sequences:
        assert len(sequence) <= (limit or len(sequence)) or len(sequence.branches) == 1


def test_the_length_grows_with_the_turns_and_not_with_their_square() -> None:
    def tokens(turns: int) -> tuple[int, int]:
        examples = training_examples(conversation("sd" + "uaf" * turns))
        assert len(examples) == turns
        (sequence,) = branch(examples)
        return sum(map(len, examples)), len(sequence)

    (few, few_once), (many, many_once) = tokens(10), tokens(20)
    assert many > 3 * few
    assert many_once < 2.1 * few_once


def test_what_has_no_reasoning_is_one_branch() -> None:
    (example,) = training_examples(conversation("sdufufuf"))
    (sequence,) = branch([example])
    assert sequence.input_ids == example.input_ids
    assert sequence.position_ids() == list(range(len(example)))
    assert sequence.visible_until() == [len(example)] * len(example)
    assert branch([]) == []


def test_an_example_without_labels_is_a_branch_as_any_other() -> None:
    answered = training_examples(conversation("sduafuaf"))
    silent = [
        TrainingExample(ids, [IGNORED] * len(ids), [])
        for ids in (answered[0].input_ids, answered[1].input_ids[:-2], [])
    ]
    for examples in ([*silent, *answered], [answered[0], silent[1], answered[1], silent[0]]):
        (sequence,) = branch(examples)
        assert learned_in(sequence) == [pair for example in examples for pair in learned(example)]


# Files

REASONED = {"role": "assistant", "thinking": "Simple.", "content": "4."}
QUESTION = {"role": "user", "content": "2 + 2?"}
ROWS: list[dict[str, Any]] = [
    {"messages": [QUESTION, {**REASONED, "weight": 0.5}] * turns} for turns in (3, 1, 4, 2, 5)
]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    return path


@pytest.mark.parametrize("pack", [False, True])
def test_files_have_the_sequences(source: Path, pack: bool) -> None:
    pq = pytest.importorskip("pyarrow.parquet")
    from gpt_oss_harmony.training.files import PrepareSettings, prepare

    limit = TrainingOptions(context_length=400)
    settings = PrepareSettings(limit, one_sequence=True, pack=pack, loss_weights=True)
    made = prepare(source, source.parent / "out", settings, workers=1)
    plain = prepare(source, source.parent / "plain", PrepareSettings(limit), workers=1)
    rows = pq.read_table(source.parent / "out" / "data").to_pylist()
    columns = ["input_ids", "labels", "assistant_masks", "loss_weights"]
    assert list(rows[0]) == [*columns, "position_ids", "visible_until"]
    assert made.report.shared == made.report.tokens.total() - sum(
        len(row["input_ids"]) for row in rows
    )
    assert "in one sequence a row, " in made.report.text()
    assert (len(rows) < len(ROWS)) is pack
    wanted = sorted(
        pair
        for row in pq.read_table(source.parent / "plain" / "data").to_pylist()
        for pair in learned(TrainingExample(row["input_ids"], row["labels"], []))
    )
    found = []
    for row in rows:
        assert len(row["input_ids"]) <= 400
        for index, label in enumerate(row["labels"]):
            assert row["loss_weights"][index] == (0 if label == IGNORED else 0.5)
            if label != IGNORED:
                seen = [at for at in range(index) if row["visible_until"][at] > index - 1]
                tokens = [(row["position_ids"][at], row["input_ids"][at]) for at in seen]
                found.append((tokens, label))
    assert sorted(found) == wanted
    assert plain.report.shared == 0
    source.write_text("{}\n")
    assert prepare(source, source.parent / "none", settings, workers=1).report.rejected == 1


def test_what_cannot_have_the_mask_is_refused() -> None:
    pytest.importorskip("pyarrow")
    from gpt_oss_harmony.training.files import PrepareSettings

    with pytest.raises(ValueError, match="one_sequence needs a mask"):
        PrepareSettings(one_sequence=True, megatron=True)
    with pytest.raises(ValueError, match="one_sequence needs a mask"):
        PrepareSettings(one_sequence=True, columns=("labels", "attention_mask"))


def test_weights_that_nothing_reads_are_refused() -> None:
    from gpt_oss_harmony.training.trainers import BranchedCollator

    rows: list[dict[str, Any]] = [{"input_ids": [1]}, {"input_ids": [1], "loss_weights": [0.5]}]
    with pytest.raises(ValueError, match=r"loss_weights, .* prepare without --loss-weights"):
        BranchedCollator(128)(rows)


# A model


@pytest.mark.slow
def test_a_model_has_the_loss_and_the_gradients_of_the_examples(
    source: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    from gpt_oss_harmony.engines.demo_model import demo_model_folder
    from gpt_oss_harmony.training.trainers import BranchedCollator

    folder = demo_model_folder(tmp_path_factory.getbasetemp().parent)
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    for rows in (model.get_input_embeddings(), model.lm_head):
        rows.requires_grad_(False)
    long = {**REASONED, "content": "4 " * 140}
    _, made = row_examples({"messages": [QUESTION, long, QUESTION, REASONED, QUESTION, REASONED]})
    _, other = row_examples(ROWS[3])
    sequences = [*branch(made.examples), *branch(other.examples)]
    window = model.config.sliding_window
    assert window < len(made.examples[-1])
    batch = BranchedCollator(window)(
        [
            {
                "input_ids": sequence.input_ids,
                "labels": sequence.labels,
                "position_ids": sequence.position_ids(),
                "visible_until": sequence.visible_until(),
            }
            for sequence in sequences
        ]
    )

    def gradients() -> dict[str, Any]:
        made = {n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None}
        model.zero_grad()
        return made

    loss = model(**batch, num_items_in_batch=1).loss
    loss.backward()
    in_one = gradients()
    total = 0.0
    for example in (*made.examples, *other.examples):
        ids = {"input_ids": example.input_ids, "labels": example.labels}
        alone = {name: torch.tensor([values]) for name, values in ids.items()}
        separate = model(**alone, num_items_in_batch=1).loss
        separate.backward()
        total += separate.item()
    assert loss.item() == pytest.approx(total, rel=1e-5)
    for name, gradient in gradients().items():
        assert torch.allclose(gradient, in_one[name], rtol=1e-3, atol=1e-3 * gradient.abs().max())
