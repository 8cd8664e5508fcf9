"""Prompts and messages by this library, tokens by Transformers:
python examples/transformers_generate.py [MODEL]
"""

import json
import sys

import torch
from transformers import AutoModelForCausalLM

from gpt_oss_harmony import (
    Conversation,
    HarmonyEncodingName,
    Message,
    Role,
    SystemContent,
    load_harmony_encoding,
)
from gpt_oss_harmony.engines.demo_model import demo_model_folder
from gpt_oss_harmony.grammar import GrammarLogitsProcessor, turn_grammar

encoding = load_harmony_encoding(HarmonyEncodingName.HARMONY_GPT_OSS)
conversation = Conversation.from_messages(
    [
        Message.from_role_and_content(Role.SYSTEM, SystemContent.new()),
        Message.from_role_and_content(Role.USER, "What is 27 + 45?"),
    ]
)
prompt = encoding.render_conversation_for_completion(conversation, Role.ASSISTANT)

name = sys.argv[1] if len(sys.argv) > 1 else str(demo_model_folder())
model = AutoModelForCausalLM.from_pretrained(name, dtype="auto")
outputs = model.generate(
    torch.tensor([prompt], device=model.device),
    max_new_tokens=200,
    do_sample=False,
    eos_token_id=encoding.stop_tokens_for_assistant_actions(),
    # Whatever the model would like, it writes a turn that can be parsed.
    logits_processor=[GrammarLogitsProcessor(turn_grammar(conversation), len(prompt))],
)
completion = outputs[0][len(prompt) :]
for message in encoding.parse_messages_from_completion_tokens(completion, Role.ASSISTANT):
    print(json.dumps(message.to_dict()))
