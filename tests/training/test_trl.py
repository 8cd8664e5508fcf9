"""TRL learns from pairs of answers, and from episodes with a tool, with the tokens of harmony."""

from __future__ import annotations

import copy
import math
from pathlib import Path
from typing import Any

import pytest

from gpt_oss_harmony import load_harmony_encoding
from gpt_oss_harmony.apis.chat.input import conversation_from_chat
from gpt_oss_harmony.engines.demo_model import demo_model_folder
from gpt_oss_harmony.tokens.special_tokens import CALL, RETURN
from gpt_oss_harmony.training import TokenSequence
from gpt_oss_harmony.training.trainers import preference_example, rollout_columns
from support.served import CHAT_WEATHER
from support.training_conversations import result

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
datasets = pytest.importorskip("datasets")
trl = pytest.importorskip("trl")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore"),  # TRL uses what Transformers deprecated
]

ENCODING = load_harmony_encoding("HarmonyGptOss")


def tokens(text: str) -> list[int]:
    return ENCODING.encode(text, allowed_special="all")


SETTINGS: dict[str, Any] = {
    "per_device_train_batch_size": 2,
    "max_steps": 2,
    "optim": "sgd",
    "learning_rate": 0.1,
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
EPISODES: dict[str, Any] = {
    **SETTINGS,
    "num_generations": 2,
    "max_completion_length": 120,
    "max_steps": 1,
    "top_k": 1,  # what the model is certain of, so that its calls are known here
}
QUESTION = [{"role": "user", "content": "What is the weather like in Rome?"}]
CALLED = tokens(
    "<|channel|>commentary to=functions.get_current_weather <|constrain|>json<|message|>"
    '{"location":"Rome"}<|call|>'
)
SUNNY = '{"sunny": true, "temperature": 20}'


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = demo_model_folder(tmp_path_factory.getbasetemp().parent)
    load = transformers.AutoModelForCausalLM.from_pretrained
    model = load(folder, router_aux_loss_coef=0.0, experts_implementation="eager")
    for rows in (model.get_input_embeddings(), model.lm_head):
        rows.requires_grad_(False)  # 201,088 rows, of which the tests change none
    return model, transformers.AutoTokenizer.from_pretrained(folder)


@pytest.fixture
def demo(loaded: Any) -> dict[str, Any]:
    """The demo model and its tokenizer, as arguments of a trainer."""
    model, tokenizer = loaded
    return {"model": copy.deepcopy(model), "processing_class": tokenizer}


def get_current_weather(location: str, format: str = "celsius") -> str:
    """Gets the current weather in the provided location.

    Args:
        location: The city and state, e.g. San Francisco, CA
        format: The unit
    """
    return SUNNY


def logged(trainer: Any, name: str) -> list[float]:
    return [entry[name] for entry in trainer.state.log_history if name in entry]


def test_dpo_prefers_the_chosen_answer(demo: dict[str, Any], tmp_path: Path) -> None:
    class PreparedDPOTrainer(trl.DPOTrainer):  # type: ignore[misc, name-defined, unused-ignore]
        def _prepare_dataset(self, dataset: Any, *_: Any, **__: Any) -> Any:
            return dataset  # the tokens are there already

    row = {
        "prompt": QUESTION,
        "chosen": [{"role": "assistant", "reasoning": "Far.", "content": "It is sunny."}],
        "rejected": [{"role": "assistant", "content": "I don't know."}],
    }
    trainer = PreparedDPOTrainer(
        args=trl.DPOConfig(
            output_dir=str(tmp_path), **{**SETTINGS, "per_device_train_batch_size": 1}
        ),
        train_dataset=datasets.Dataset.from_list([preference_example(row)]),
        **demo,
    )
    trainer.train()
    losses = logged(trainer, "loss")
    assert losses[0] == pytest.approx(math.log(2), abs=1e-3)
    assert losses[1] < losses[0]


def test_grpo_calls_a_function_and_goes_on_from_the_sampled_tokens(
    demo: dict[str, Any], tmp_path: Path
) -> None:
    completions: list[list[int]] = []
    chats: list[list[dict[str, Any]]] = []

    def reward(**columns: Any) -> list[float]:
        completions.extend(columns["completion_ids"])
        chats.extend(columns["completions"])
        return [1.0, 0.0]

    trainer = trl.GRPOTrainer(
        reward_funcs=reward,
        args=trl.GRPOConfig(output_dir=str(tmp_path), **EPISODES),
        train_dataset=datasets.Dataset.from_list([{"prompt": QUESTION}]),
        tools=[get_current_weather],
        **demo,
    )
    trainer.train()
    assert [message["role"] for message in chats[0]] == ["assistant", "tool", "assistant"]
    assert "sunny" in chats[0][-1]["content"]
    declared = transformers.utils.get_json_schema(get_current_weather)
    prompt = TokenSequence.of_prompt(
        conversation_from_chat({"messages": QUESTION, "tools": [declared]})
    )
    tokenize = demo["processing_class"].apply_chat_template
    encoded = tokenize(QUESTION, tools=[get_current_weather], add_generation_prompt=True)
    assert encoded["input_ids"] == prompt.input_ids
    sampled = 0
    for completion in completions:
        end = completion.index(CALL) + 1
        called = prompt.add_sampled(completion[:end])
        assert called.messages[-1].recipient == "functions.get_current_weather"
        following = called.extend([result(SUNNY, "functions.get_current_weather")])
        start = len(following.input_ids) - len(prompt.input_ids)
        assert (prompt.input_ids + completion)[: len(following.input_ids)] == following.input_ids
        assert completion[-1] == RETURN
        sampled += sum(following.add_sampled(completion[start:]).sampled_mask())
    # The result of the call is not learned.
    assert logged(trainer, "completions/mean_length") == [sampled / 2]
    assert logged(trainer, "tools/call_frequency") == [1]


def test_grpo_learns_from_token_sequences(demo: dict[str, Any], tmp_path: Path) -> None:
    def play(chat: list[dict[str, Any]], answer: str) -> TokenSequence:
        request = {"messages": chat, "tools": [CHAT_WEATHER]}
        sequence = TokenSequence.of_prompt(conversation_from_chat(request))
        sequence = sequence.add_sampled(CALLED, [-0.1] * len(CALLED))
        called = sequence.messages[-1].recipient
        assert called is not None
        answered = tokens(f"<|channel|>final<|message|>{answer}<|return|>")
        return sequence.extend([result(SUNNY, called)]).add_sampled(
            answered, [-0.1] * len(answered)
        )

    played: list[TokenSequence] = []

    def rollout(prompts: list[Any], trainer: Any) -> dict[str, Any]:
        pairs = zip(prompts, ("It is sunny in Rome, 20 degrees.", "I don't know."), strict=True)
        played.extend(play(chat, answer) for chat, answer in pairs)
        return rollout_columns(played)

    trainer = trl.GRPOTrainer(
        reward_funcs=lambda **_: [1.0, 0.0],
        args=trl.GRPOConfig(output_dir=str(tmp_path), **EPISODES),
        train_dataset=datasets.Dataset.from_list([{"prompt": QUESTION}]),
        rollout_func=rollout,
        **demo,
    )
    trainer.train()
    assert logged(trainer, "grad_norm")[0] > 0
    # The result of the call is not learned.
    sampled = sum(sum(sequence.sampled_mask()) for sequence in played)
    assert logged(trainer, "completions/mean_length") == [sampled / 2]
