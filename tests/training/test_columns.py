"""Columns for other trainers: chosen ones, Megatron's data sets, pairs of answers, rollouts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gpt_oss_harmony import ConversationError, load_harmony_encoding
from gpt_oss_harmony.training import IGNORED, TokenSequence, row_examples
from gpt_oss_harmony.training.trainers import (
    preference_example,
    rollout_columns,
    unpaired_preference_example,
)
from support.training_conversations import conversation, result

np = pytest.importorskip("numpy")
pq = pytest.importorskip("pyarrow.parquet")

from gpt_oss_harmony.training.files import PrepareSettings, prepare  # noqa: E402

ENCODING = load_harmony_encoding("HarmonyGptOss")
DATE = "2025-06-28"


def tokens(text: str) -> list[int]:
    return ENCODING.encode(text, allowed_special="all")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "rows.jsonl"
    rows = (conversation(letters).to_dict() for letters in ["suf", "suafuaf", "sucrf"] * 3)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_columns_can_be_chosen(source: Path) -> None:
    names = ("labels", "attention_mask")
    out = source.parent / "out"
    for _ in range(2):  # the second time, all is there
        prepare(source, out, PrepareSettings(columns=names), workers=1)
    table = pq.read_table(out / "data")
    assert table.column_names == ["input_ids", "labels", "attention_mask"]
    for row in table.to_pylist():
        assert row["attention_mask"] == [1] * len(row["input_ids"])
    with pytest.raises(ValueError, match="columns are some of labels"):
        PrepareSettings(columns=("text",))
    with pytest.raises(ValueError, match="need the column labels"):
        PrepareSettings(columns=("assistant_masks",), megatron=True)


def read_indexed(prefix: Path) -> list[list[int]]:
    """Read an indexed data set by its description."""
    index = prefix.with_suffix(".idx").read_bytes()
    assert index[:9] == b"MMIDIDX\0\0"
    version, kind = np.frombuffer(index[9:17], "<u8")[0], index[17]
    count, documents = np.frombuffer(index[18:34], "<u8")
    assert (version, kind, documents) == (1, 4, count + 1)
    lengths = np.frombuffer(index[34 : 34 + 4 * count], "<i4")
    rest = index[34 + 4 * count :]
    pointers = np.frombuffer(rest[: 8 * count], "<i8")
    assert np.frombuffer(rest[8 * count :], "<i8").tolist() == list(range(count + 1))
    data = prefix.with_suffix(".bin").read_bytes()
    return [
        np.frombuffer(data[start : start + 4 * length], "<i4").tolist()
        for start, length in zip(pointers, lengths, strict=True)
    ]


@pytest.mark.parametrize("is_empty", [False, True])
def test_megatron_reads_the_same_examples(source: Path, is_empty: bool) -> None:
    if is_empty:
        source.write_text("{}\n")
    out = source.parent / "out"
    prepare(source, out, PrepareSettings(megatron=True), workers=1, chunk_bytes=1000)
    parts = sorted((out / "data").iterdir())
    rows = [row for part in parts for row in pq.read_table(part).to_pylist()]
    assert (len(rows) == 0) == is_empty
    for name in ("input_ids", "labels"):
        expected = [row[name] for row in rows]
        assert read_indexed(out / "megatron" / name) == expected
    indexed = pytest.importorskip(
        "megatron.core.datasets.indexed_dataset", reason="megatron-core is not installed"
    )
    if not is_empty:
        made = indexed.IndexedDataset(str(out / "megatron" / "labels"))
        assert [made[index].tolist() for index in range(len(made))] == [r["labels"] for r in rows]


QUESTION = {"role": "user", "content": "2 + 2?"}
RIGHT = {"role": "assistant", "content": "4", "reasoning": "hm"}
WRONG = {"role": "assistant", "content": "5"}
THOUGHT = {"role": "assistant", "reasoning": "hm"}
CALL = {"role": "assistant", "tool_calls": [{"id": "1", "function": {"name": "f"}}]}
RESULT = {"role": "tool", "tool_call_id": "1", "content": "{}"}

PAIRS: list[dict[str, Any]] = [
    {"prompt": [QUESTION], "chosen": [RIGHT], "rejected": [WRONG]},
    {"chosen": [QUESTION, RIGHT], "rejected": [QUESTION, WRONG]},
    {"prompt": json.dumps([QUESTION]), "chosen": json.dumps([RIGHT]), "rejected": [WRONG]},
    {"prompt": None, "chosen": [QUESTION, RIGHT], "rejected": [QUESTION, WRONG], "other": 1},
    # UltraFeedback: the prompt as text, repeated in both answers
    {"prompt": "2 + 2?", "chosen": [QUESTION, RIGHT], "rejected": [QUESTION, WRONG]},
    {"prompt": "2 + 2?", "chosen": "<think>hm</think>4", "rejected": "5"},
    # OpenAI
    {
        "input": {"messages": [QUESTION], "tools": [], "parallel_tool_calls": True},
        "preferred_output": [RIGHT],
        "non_preferred_output": [WRONG],
    },
]


@pytest.mark.filterwarnings("ignore:fields that are in no column")
@pytest.mark.parametrize("row", PAIRS)
def test_pairs_of_answers(row: dict[str, Any]) -> None:
    made = preference_example(row, start_date=DATE)
    prompt = ENCODING.decode(made["prompt_ids"])
    assert prompt.endswith("<|start|>user<|message|>2 + 2?<|end|><|start|>assistant")
    assert f"Current date: {DATE}" in prompt
    assert ENCODING.decode(made["chosen_ids"]) == (
        "<|channel|>analysis<|message|>hm<|end|><|start|>assistant"
        "<|channel|>final<|message|>4<|return|>"
    )
    assert ENCODING.decode(made["rejected_ids"]) == "<|channel|>final<|message|>5<|return|>"


BAD_PAIRS: list[tuple[dict[str, Any], str]] = [
    ({"chosen": [QUESTION, RIGHT]}, "rejected: the field is missing"),
    ({"prompt": [QUESTION], "chosen": [CALL, RESULT, RIGHT], "rejected": [WRONG]}, "chosen: holds"),
    ({"chosen": [QUESTION, RIGHT], "rejected": [RESULT, WRONG]}, "no tool call"),
    (
        {"chosen": [QUESTION, RIGHT], "rejected": [{**QUESTION, "content": "x"}, WRONG]},
        "another pr",
    ),
]


@pytest.mark.parametrize(("row", "problem"), BAD_PAIRS)
def test_pairs_that_are_none(row: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConversationError, match=problem):
        preference_example(row)


def test_an_earlier_answer_is_part_of_the_prompt() -> None:
    row = {
        "chosen": [QUESTION, WRONG, QUESTION, RIGHT],
        "rejected": [QUESTION, WRONG, QUESTION, WRONG],
    }
    made = preference_example(row)
    assert ENCODING.decode(made["prompt_ids"]).count("2 + 2?") == 2
    assert len(made["rejected_ids"]) == 5


def test_rollouts_mask_what_was_not_sampled() -> None:
    prompt = TokenSequence.of_prompt(conversation("stu"))
    called = tokens("<|channel|>commentary to=functions.f<|message|>{}<|call|>")
    answered = tokens("<|channel|>final<|message|>4<|return|>")
    turn = prompt.add_sampled(called, [-1.0] * len(called)).extend([result()])
    sequence = turn.add_sampled(answered, [-2.0] * len(answered))
    columns = rollout_columns([sequence, prompt.add_sampled(answered)])
    assert columns["prompt_ids"] == [prompt.input_ids] * 2
    completion, mask = columns["completion_ids"][0], columns["env_mask"][0]
    sampled = [token for token, is_sampled in zip(completion, mask, strict=True) if is_sampled]
    assert sampled == called + answered
    assert [label != IGNORED for label in sequence.labels[len(prompt.input_ids) :]] == [
        bool(is_sampled) for is_sampled in mask
    ]
    logprobs = columns["logprobs"][0]
    assert {
        logprob for logprob, is_sampled in zip(logprobs, mask, strict=True) if not is_sampled
    } == {0}


PAIR = {
    "prompt": [{"role": "user", "content": "2 + 2?"}],
    "chosen": [{"role": "assistant", "content": "4"}],
    "rejected": [{"role": "assistant", "content": "5"}],
}


def test_fields_of_a_pair_that_are_in_no_column_are_named() -> None:
    row = {**PAIR, "margin": 0.5, "scores": [1, 2]}
    with pytest.warns(UserWarning, match="in no column: margin, scores"):
        preference_example(row)
    named: list[str] = []
    preference_example(row, on_unused=named.extend)
    assert named == ["margin", "scores"]


def test_a_pair_that_teaches_nothing_is_refused() -> None:
    with pytest.raises(ConversationError, match="rejected: is the same as the chosen answer"):
        preference_example({**PAIR, "rejected": PAIR["chosen"]})
    weighted = [{"role": "assistant", "content": "4", "weight": 0.5}]
    with pytest.raises(ConversationError, match="chosen: a preference has no weights"):
        preference_example({**PAIR, "chosen": weighted})


LABELLED: list[dict[str, Any]] = [
    {"prompt": [QUESTION], "completion": [RIGHT]},
    {"prompt": "2 + 2?", "completion": "<think>hm</think>4"},
    {"prompt": json.dumps([QUESTION]), "completion": json.dumps([RIGHT])},
]


@pytest.mark.parametrize("label", [True, False])
@pytest.mark.parametrize("row", LABELLED)
def test_a_labelled_completion_has_the_tokens_of_a_pair(row: dict[str, Any], label: bool) -> None:
    made = unpaired_preference_example({**row, "label": label}, start_date=DATE)
    pair = {"prompt": row["prompt"], "chosen": row["completion"], "rejected": [WRONG]}
    paired = preference_example(pair, start_date=DATE)
    assert made == {
        "prompt_ids": paired["prompt_ids"],
        "completion_ids": paired["chosen_ids"],
        "label": label,
    }
    assert ENCODING.decode(made["completion_ids"]) == (
        "<|channel|>analysis<|message|>hm<|end|><|start|>assistant"
        "<|channel|>final<|message|>4<|return|>"
    )


CONVERSATIONS: list[dict[str, Any]] = [
    {"messages": [QUESTION, RIGHT], "label": False},
    {"messages": [QUESTION, WRONG, QUESTION, RIGHT], "label": "False", "kto_tag": False},
    {"conversations": [{"from": "human", "value": "q"}, {"from": "gpt", "value": "a"}]},
    {"instruction": "q", "output": "a", "label": 3},
    {"input": [QUESTION, {"role": "assistant", "content": "a"}]},
    {"prompt": "q", "completion": "a"},
    {"messages": [QUESTION, {**WRONG, "channel": "final"}]},
    {
        "text": "<|start|>user<|message|>q<|end|>"
        "<|start|>assistant<|channel|>final<|message|>a<|return|>"
    },
]


@pytest.mark.parametrize("row", CONVERSATIONS)
def test_a_bad_answer_is_never_learned_and_goes_to_kto(row: dict[str, Any]) -> None:
    bad = {"kto_tag": False, **row}
    with pytest.raises(ConversationError, match="unpaired_preference_example") as caught:
        row_examples(bad, start_date=DATE)
    assert caught.value.field in ("label", "kto_tag")
    assert "remove the field if it means something else" in caught.value.problem
    good = {name: value for name, value in row.items() if name not in ("label", "kto_tag")}
    read, made = row_examples({**good, "label": True}, start_date=DATE)
    assert read.unused == ["label", *(name for name in read.unused if name != "label")]
    unused: list[str] = []
    labelled = unpaired_preference_example(bad, start_date=DATE, on_unused=unused.extend)
    learned = made.examples[-1]
    assert labelled["label"] is False
    assert ("label" in unused) == (row.get("label") == 3)
    assert labelled["prompt_ids"] + labelled["completion_ids"] == learned.input_ids
    assert labelled["completion_ids"] == learned.labels[-len(labelled["completion_ids"]) :]


@pytest.mark.parametrize("label", [0, 3, "toxic", "", ["False"]])
def test_a_class_is_no_verdict(label: Any) -> None:
    row = {"messages": [QUESTION, RIGHT], "label": label}
    read, _ = row_examples(row, start_date=DATE)
    assert read.unused == (["label"] if label != "" else [])
    with pytest.raises(ConversationError, match="label: expected true or false, found"):
        unpaired_preference_example(row)


@pytest.mark.parametrize("labels", [{"label": False, "kto_tag": "true"}, {"label": "False"}])
def test_the_label_of_a_pair_is_named_as_unused(labels: dict[str, Any]) -> None:
    unused: list[str] = []
    made = preference_example({**PAIR, **labels}, start_date=DATE, on_unused=unused.extend)
    assert made == preference_example(PAIR, start_date=DATE)
    assert unused == list(labels)
    with pytest.raises(ConversationError, match="row of preferences"):
        row_examples({**PAIR, **labels})


def test_only_the_last_answer_of_a_labelled_conversation_is_its_completion() -> None:
    row = {"messages": [QUESTION, CALL, RESULT, RIGHT], "label": True}
    made = unpaired_preference_example(row, start_date=DATE)
    assert ENCODING.decode(made["prompt_ids"]).endswith("<|end|><|start|>assistant")
    assert ENCODING.decode(made["completion_ids"]).endswith("<|message|>4<|return|>")
    assert "<|call|>" not in ENCODING.decode(made["completion_ids"])


BAD_LABELLED: list[tuple[dict[str, Any], str]] = [
    ({"completion": "4", "label": True}, "prompt: expected a text or a list|prompt: the field is"),
    ({"prompt": "q", "label": True}, "completion: the field is missing"),
    ({"prompt": "q", "completion": "4"}, "label: the field is missing; expected true or false"),
    ({"prompt": "q", "completion": "4", "label": 1}, "label: expected true or false, found 1"),
    ({"prompt": "q", "completion": "4", "label": True, "messages": []}, "messages: the row has a"),
    ({"messages": [QUESTION, {**RIGHT, "weight": 0.5}], "label": True}, "a preference has no weig"),
    *(
        ({**row, "label": False}, f"{name}: a preference has no weights; remove the weight")
        for reasoned in ([{**RIGHT, "weight": 0}], [{**THOUGHT, "weight": 0}, WRONG])
        for name, row in (
            ("messages", {"messages": [QUESTION, *reasoned]}),
            ("messages", {"messages": [QUESTION, *reasoned, QUESTION]}),
            ("completion", {"prompt": [QUESTION], "completion": reasoned}),
            ("messages", {"messages": [QUESTION, RIGHT], "weight": 0}),
            ("completion", {"prompt": [QUESTION], "completion": [RIGHT], "weight": 0}),
        )
    ),
    ({"messages": [QUESTION], "label": True}, "nothing to train on: the conversation has no"),
    (
        {"messages": [QUESTION, RIGHT], "label": True, "kto_tag": False},
        "kto_tag: label has another",
    ),
    ({"messages": [QUESTION, RIGHT], "label": False, "kto_tag": "true"}, "kto_tag: label has anot"),
    (
        {"prompt": [QUESTION], "completion": [CALL, RESULT, RIGHT], "label": False},
        "completion: holds more than the model samples in one go",
    ),
    (
        {"prompt": "q", "completion": [{**WRONG, "weight": 0.5}], "label": False},
        "completion: a preference has no weights",
    ),
]


@pytest.mark.parametrize(("row", "problem"), BAD_LABELLED)
def test_labelled_completions_that_are_none(row: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConversationError, match=problem):
        unpaired_preference_example(row)


GUESS = {**WRONG, "content": "6"}
EARLIER = [QUESTION, GUESS, QUESTION, CALL, RESULT]
BEFORE_THE_ANSWER: list[tuple[Any, dict[str, Any], str]] = [
    (row_examples, {"prompt": EARLIER, "completion": [RIGHT]}, "prompt"),
    (preference_example, {**PAIR, "prompt": EARLIER}, "prompt"),
    (
        preference_example,
        {side: [*EARLIER, *PAIR[side]] for side in PAIR if side != "prompt"},
        "prompt",
    ),
    (
        preference_example,
        {
            "input": {"messages": EARLIER},
            "preferred_output": PAIR["chosen"],
            "non_preferred_output": PAIR["rejected"],
        },
        "prompt",
    ),
    (
        unpaired_preference_example,
        {"prompt": EARLIER, "completion": [RIGHT], "label": True},
        "prompt",
    ),
    (unpaired_preference_example, {"messages": [*EARLIER, RIGHT], "label": True}, "messages"),
]


@pytest.mark.parametrize("weighted", [GUESS, CALL])
@pytest.mark.parametrize(("read", "row", "name"), BEFORE_THE_ANSWER)
def test_weights_before_the_answer_are_in_no_column(
    read: Any, row: dict[str, Any], name: str, weighted: dict[str, Any]
) -> None:
    def columns(**weight: Any) -> tuple[Any, list[str]]:
        text = json.dumps(row).replace(json.dumps(weighted), json.dumps({**weighted, **weight}))
        unused: list[str] = []
        if read is not row_examples:
            return read(json.loads(text), start_date=DATE, on_unused=unused.extend), unused
        given, made = row_examples(json.loads(text), start_date=DATE)
        return made.examples, [*given.unused]

    plain = columns()
    for true in ({"weight": 0}, {"weight": None}, {"train": False}, {"weight": 0, "train": None}):
        assert columns(**true) == plain
    for field, value in {"weight": 0.5, "train": True, "masked": False}.items():
        made, unused = columns(**{field: value})
        assert made == plain[0]
        assert [n for n in unused if n not in plain[1]] == [f"{name}[].{field}"]
    with pytest.raises(ConversationError, match=rf"{name}\[\d\].weight: expected a number"):
        columns(weight="x")


def test_fields_of_a_labelled_completion_that_are_in_no_column_are_named() -> None:
    row = {"prompt": "q", "completion": "4", "label": True, "score": 3}
    with pytest.warns(UserWarning, match="in no column: score") as caught:
        unpaired_preference_example(row)
    assert caught[0].filename == __file__
    named: list[str] = []
    unpaired_preference_example(row, on_unused=named.extend)
    assert named == ["score"]
