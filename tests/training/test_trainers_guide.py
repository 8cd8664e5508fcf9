"""The guides' blocks run as they stand: for TRL on the demo model, others with their package.

`make trainers` installs these packages, too, but not Unsloth, which brings a PyTorch of its own.
Without one, its test is skipped.
"""

from __future__ import annotations

import copy
import functools
import importlib
import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from gpt_oss_harmony import Conversation
from gpt_oss_harmony.apis import current_date
from gpt_oss_harmony.engines import Sampling
from gpt_oss_harmony.engines.demo_model import demo_model_folder
from gpt_oss_harmony.pipeline import pipeline
from gpt_oss_harmony.training import IGNORED, TokenSequence, row_examples
from gpt_oss_harmony.training.files import PrepareSettings, prepare
from gpt_oss_harmony.training.trainers import rollout_columns

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
datasets = pytest.importorskip("datasets")
trl = pytest.importorskip("trl")
load_file, save_file = (
    getattr(pytest.importorskip("safetensors.torch"), name) for name in ("load_file", "save_file")
)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore"),  # TRL uses what Transformers deprecated
]

GUIDES = Path(__file__).parents[2] / "docs" / "guides"
ROUTE, GUIDE = GUIDES / "fine-tune.md", GUIDES / "trainers.md"
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
    """Return the code of the guides by its heading; blocks of `python` are run by other tests."""
    found: dict[str, list[str]] = {}
    texts = [guide.read_text("utf-8") for guide in (ROUTE, GUIDE)]
    for section in (part for text in texts for part in text.split("\n## ")[1:]):
        is_trl = section.startswith("TRL\n")
        for part in section.split("\n### ") if is_trl else [section]:
            kind = "py(?:thon)?" if is_trl else "py"
            code = re.findall(rf"^```{kind}\n(.*?)^```$", part, re.MULTILINE | re.DOTALL)
            if code:
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
    labelled = [
        {"prompt": [QUESTION], "completion": [answer], "label": answer is ANSWER}
        for answer in (ANSWER, wrong)
    ]
    (folder / "labelled.jsonl").write_text("".join(json.dumps(row) + "\n" for row in labelled))
    prepare(folder / "chats.jsonl", folder / "data", workers=1)
    monkeypatch.chdir(folder)
    for name in ("SFTConfig", "DPOConfig", "KTOConfig", "GRPOConfig"):
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
        "Try it without a GPU": 1,
        "gpt-oss-20b with 48 GB": 1,
        "gpt-oss-20b with 16 GB": 1,
        "Serve it": 1,
        "SFT": 1,
        "LoRA": 1,
        "DPO": 2,
        "KTO": 2,
        "GRPO": 2,
        "One sequence for a row": 1,
        "renderers, verifiers, prime-rl": 2,
        "tinker-cookbook": 1,
        "Megatron and NeMo": 1,
        "veRL": 2,
        "NeMo-RL": 1,
    }


def prepare_route(folder: Path, output: str = "data", **settings: Any) -> None:
    """Write the two rows of the route and the files made of them."""
    rows = re.findall(r"^  '(\{.*\})'", ROUTE.read_text("utf-8"), re.MULTILINE)
    assert len(rows) == 2
    (folder / "chats.jsonl").write_text("".join(f"{row}\n" for row in rows))
    prepare(folder / "chats.jsonl", folder / output, PrepareSettings(**settings), workers=1)


def run_route(heading: str) -> dict[str, Any]:
    (code,) = blocks()[heading]
    scope: dict[str, Any] = {}
    exec(compile(code, f"{ROUTE}#{heading}", "exec"), scope)
    return scope


def answer_of(folder: str, question: str) -> str | None:
    with pipeline(folder) as ask:
        return ask(question, Sampling(temperature=0))[-1].text


def test_the_route_without_a_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("peft")
    prepare_route(tmp_path)
    monkeypatch.chdir(tmp_path)
    run_route("Try it without a GPU")
    answer = answer_of("./adapter", "Who sells milk here?")
    assert answer == "Ben does."
    assert f"`{answer}`" in ROUTE.read_text("utf-8")


def test_the_script_for_unsloth(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On the CPU and the demo model, whose weights are not of 4 bits; what is served is ours."""
    unsloth = pytest.importorskip("unsloth", reason="Unsloth is not installed")
    prepare_route(tmp_path, "data-unsloth", columns=("labels", "attention_mask"))
    monkeypatch.chdir(tmp_path)
    load = unsloth.FastLanguageModel.from_pretrained
    small = {"load_in_4bit": False}
    monkeypatch.setattr(
        unsloth.FastLanguageModel,
        "from_pretrained",
        lambda name, **settings: load(str(demo_model_folder()), **{**settings, **small}),
    )
    made = trl.SFTConfig
    few = {"max_steps": 40, "learning_rate": 1e-2, "use_cpu": True, "bf16": False,
           "gradient_accumulation_steps": 2, "warmup_steps": 0}  # fmt: skip
    monkeypatch.setattr(trl, "SFTConfig", lambda **settings: made(**{**settings, **few}))
    run_route("gpt-oss-20b with 16 GB")
    assert answer_of("./adapter", "Who sells milk here?") == "Ben does."


def as_mxfp4(weight: Any) -> tuple[Any, Any]:
    """Round the experts' weights to 4 bits as gpt-oss has them: the codes, two a byte, and scales.

    Of each group of 32 inputs the scale is a power of two (OCP Microscaling Formats, 1.0).
    """
    values = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6])
    values = torch.cat((values, -values))
    groups = weight.float().transpose(1, 2).unflatten(-1, (-1, 32))
    exponents = groups.abs().amax(-1, keepdim=True).clamp(min=2**-100).log2().floor() - 2
    nearest = (groups / 2**exponents).unsqueeze(-1).sub(values).abs().argmin(-1)
    codes = nearest.to(torch.uint8)
    return codes[..., ::2] | codes[..., 1::2] << 4, (exponents.squeeze(-1) + 127).to(torch.uint8)


def write_as_mxfp4(folder: Path) -> None:
    """Write the demo model as gpt-oss-20b is published: its experts as MXFP4."""
    shutil.copytree(demo_model_folder(folder.parent), folder)
    weights: dict[str, Any] = {}
    for name, weight in load_file(folder / "model.safetensors").items():
        if name.endswith(("experts.gate_up_proj", "experts.down_proj")):
            weights[f"{name}_blocks"], weights[f"{name}_scales"] = as_mxfp4(weight)
        else:
            weights[name] = weight
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    config = json.loads((folder / "config.json").read_text())
    plain = ["model.layers.*.self_attn", "model.layers.*.mlp.router", "model.embed_tokens"]
    config["quantization_config"] = {
        "quant_method": "mxfp4", "modules_to_not_convert": [*plain, "lm_head"]
    }  # fmt: skip
    (folder / "config.json").write_text(json.dumps(config))


def test_the_script_for_gpt_oss_20b(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On small weights, in a folder that is found by the name of the large ones."""
    pytest.importorskip("peft")
    row = json.dumps({"messages": [QUESTION, ANSWER]})
    (tmp_path / "chats.jsonl").write_text(f"{row}\n" * 4)
    prepare(tmp_path / "chats.jsonl", tmp_path / "data", workers=1)
    (tmp_path / "openai").mkdir()
    write_as_mxfp4(tmp_path / "openai" / "gpt-oss-20b")
    monkeypatch.chdir(tmp_path)
    made = trl.SFTConfig
    few = {"max_steps": 3, "learning_rate": 1e-2, "warmup_steps": 0, "use_cpu": True}
    monkeypatch.setattr(trl, "SFTConfig", lambda **settings: made(**{**settings, **few}))
    trainer = run_route("gpt-oss-20b with 48 GB")["trainer"]
    assert losses(trainer)[-1] < losses(trainer)[0]
    assert any("eval_loss" in entry for entry in trainer.state.log_history)
    run_route("Serve it")
    for folder in ("./adapter", "./merged"):
        assert answer_of(folder, "What is 12 + 30?") == "12 + 30 = 42."


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


def test_kto(loaded: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, trainer = run(["DPO", "KTO"], loaded, tmp_path, monkeypatch, learning_rate=0.1)
    good, bad = trainer.train_dataset
    assert (good["label"], bad["label"]) == (True, False)
    assert good["KL_completion_ids"] == bad["completion_ids"]
    (batch,) = trainer.get_train_dataloader()  # by the trainer's own collator
    for row, ids, mask in zip(
        (good, bad), batch["input_ids"], batch["completion_mask"], strict=True
    ):
        learned = ids[mask.bool()].tolist()
        assert learned == row["completion_ids"]
        assert ids.tolist()[: len(row["prompt_ids"])] == row["prompt_ids"]
    assert batch["label"].tolist() == [True, False]
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


def test_one_sequence(loaded: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [{"messages": [QUESTION, {**ANSWER, "thinking": "Hm."}] * turns} for turns in (3, 1)]
    (tmp_path / "chats.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    settings = PrepareSettings(one_sequence=True)
    prepare(tmp_path / "chats.jsonl", tmp_path / "data", settings, workers=1)
    monkeypatch.chdir(tmp_path)
    arguments = functools.partial(transformers.TrainingArguments, **SMALL, learning_rate=0.1)
    loaded_last = importlib.import_module("transformers")  # it replaces itself when it is used
    monkeypatch.setattr(loaded_last, "TrainingArguments", arguments)
    trainer = run_alone("One sequence for a row", model=copy.deepcopy(loaded[0]))["trainer"]
    assert losses(trainer)[1] < losses(trainer)[0]
    (batch,) = trainer.get_train_dataloader()
    full, sliding = (batch["attention_mask"][f"{kind}_attention"] for kind in ("full", "sliding"))
    assert full.shape == sliding.shape == (2, 1, *[batch["input_ids"].shape[1]] * 2)
    assert bool((full == 0).sum() > (sliding == 0).sum())


# Other packages

TOOLS = [{"name": "f", "description": "A function.", "parameters": {"type": "object"}}]
CALL = {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
CALLING = {"role": "assistant", "content": "", "tool_calls": [CALL]}
RESULT = {"role": "tool", "tool_call_id": "1", "name": "f", "content": "20"}


def run_alone(heading: str, **scope: Any) -> dict[str, Any]:
    code, *_ = blocks()[heading]
    exec(compile(code, f"{GUIDE}#{heading}", "exec"), scope)
    return scope


def test_renderers() -> None:
    pytest.importorskip("renderers", reason="renderers is not installed")
    nested = [{"type": "function", "function": tool} for tool in TOOLS]
    row = {"messages": [QUESTION, CALLING], "tools": nested, "reasoning_effort": "low"}
    (example,) = row_examples(row, start_date=current_date())[1].examples
    start = next(at for at, label in enumerate(example.labels) if label != IGNORED)
    completion = example.input_ids[start:]
    made = run_alone(
        "renderers, verifiers, prime-rl",
        messages=[QUESTION],
        tools=TOOLS,
        completion=completion,
        results=[RESULT],
    )
    assert made["prompt"] == example.input_ids[:start]
    assert [(call.name, call.arguments) for call in made["parsed"].tool_calls] == [("f", {})]
    asked = {**row, "messages": [QUESTION, CALLING, RESULT, ANSWER]}
    (whole,) = row_examples(asked, start_date=current_date())[1].examples
    following = made["following"].token_ids
    assert following == whole.input_ids[: len(following)]
    scope = {**made, "messages": [QUESTION, ANSWER, QUESTION, CALLING, RESULT, ANSWER]}
    exec(blocks()["renderers, verifiers, prime-rl"][1], scope)
    taught = row_examples({**row, "messages": scope["messages"]}, start_date=current_date())[1]
    learned = sum(sum(sample.loss_mask) for sample in scope["samples"])
    assert learned == sum(example.trainable_tokens for example in taught.examples)


def test_tinker(loaded: Any) -> None:
    base = pytest.importorskip("tinker_cookbook.renderers.base", reason="it is not installed")
    read = HarmonyRows([QUESTION, ANSWER])
    made = run_alone(
        "tinker-cookbook",
        tools=TOOLS,
        question=QUESTION,
        completion=read.completion,
        chat=[QUESTION, ANSWER],
        TrainOnWhat=base.TrainOnWhat,
    )
    assert made["message"]["content"] == ANSWER["content"]
    assert made["ended"] is base.ParseTermination.STOP_SEQUENCE
    ((sequence, weights),) = made["examples"]
    assert sequence.to_ints() == read.example.input_ids
    assert weights.tolist() == read.example.assistant_masks()


def test_megatron(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("megatron.core", reason="megatron-core is not installed")
    source = tmp_path / "chats.jsonl"
    source.write_text(json.dumps({"messages": [QUESTION, ANSWER]}) + "\n")
    prepare(source, tmp_path / "data", PrepareSettings(megatron=True), workers=1)
    monkeypatch.chdir(tmp_path)
    made = run_alone("Megatron and NeMo")
    (row,) = datasets.load_dataset("data", split="train", cache_dir=str(tmp_path / "cache"))
    assert [one.tolist() for one in made["tokens"]] == [row["input_ids"]]
    assert [one.tolist() for one in made["labels"]] == [row["labels"]]


def test_verl() -> None:
    loop = pytest.importorskip(
        "verl.experimental.agent_loop.agent_loop", reason="verl is not installed"
    )
    read = HarmonyRows([QUESTION, ANSWER])
    prompt = TokenSequence.of_prompt(read.conversation)
    sequence = prompt.add_sampled(read.completion, [-0.5] * len(read.completion))
    made = run_alone(
        "veRL",
        sequence=sequence,
        rollout_columns=rollout_columns,
        AgentLoopOutput=loop.AgentLoopOutput,
        AgentLoopMetrics=loop.AgentLoopMetrics,
    )
    assert made["output"].response_ids == read.completion
    assert made["output"].response_mask == [1] * len(read.completion)


def test_rows_for_verl_and_nemo_rl(tmp_path: Path) -> None:
    source = tmp_path / "chats.jsonl"
    source.write_text(json.dumps({"messages": [QUESTION, ANSWER, QUESTION, ANSWER]}) + "\n")
    prepare(source, tmp_path / "data", workers=1)
    (file,) = (tmp_path / "data" / "data").glob("*.parquet")
    scope: dict[str, Any] = {}
    exec(blocks()["veRL"][1], scope)
    exec(blocks()["NeMo-RL"][0], scope)
    read = scope["PreparedRows"]([str(file)], None, None)
    assert len(read) == 1
    row, given = read.rows[0], read[0]
    assert given["input_ids"].tolist() == row["input_ids"]
    assert given["loss_mask"].tolist() == row["assistant_masks"]
    assert given["position_ids"].tolist() == list(range(len(row["input_ids"])))
    made = scope["prepared_processor"](row, None, None, 1000, 0)
    tokens = [token for message in made["message_log"] for token in message["token_ids"].tolist()]
    assert tokens == row["input_ids"]
    assert made["length"] == len(tokens)
    trained = [
        message["role"] == "assistant"
        for message in made["message_log"]
        for _ in message["token_ids"]
    ]
    assert trained == [bool(mask) for mask in row["assistant_masks"]]
    assert sum(trained) > 5
    assert [
        made["loss_multiplier"],
        scope["prepared_processor"](row, None, None, 9, 0)["loss_multiplier"],
    ] == [1, 0]


class HarmonyRows:
    """A chat at low effort as a row: its example, its question, and what the model samples."""

    def __init__(self, chat: list[dict[str, str]]) -> None:
        row = {"messages": chat, "reasoning_effort": "low"}
        read, made = row_examples(row, start_date=current_date())
        (self.example,) = made.examples
        self.conversation = Conversation.from_messages(read.conversation.messages[:-1])
        start = next(at for at, label in enumerate(self.example.labels) if label != IGNORED)
        self.completion = self.example.input_ids[start:]
