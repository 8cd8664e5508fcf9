"""Prompts by the model's chat template: python examples/transformers_chat_template.py [MODEL]"""

import sys

from transformers import AutoModelForCausalLM, AutoTokenizer

from gpt_oss_harmony.engines.demo_model import demo_model_folder

name = sys.argv[1] if len(sys.argv) > 1 else str(demo_model_folder())
tokenizer = AutoTokenizer.from_pretrained(name)
model = AutoModelForCausalLM.from_pretrained(name, dtype="auto")
messages = [{"role": "user", "content": "What is 27 + 45?"}]
inputs = tokenizer.apply_chat_template(
    messages, add_generation_prompt=True, return_tensors="pt", return_dict=True
).to(model.device)
outputs = model.generate(**inputs, max_new_tokens=200, do_sample=False)
print(tokenizer.decode(outputs[0][inputs["input_ids"].shape[-1] :]))
