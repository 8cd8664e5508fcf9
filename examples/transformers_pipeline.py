"""Ask through the pipeline of Transformers: python examples/transformers_pipeline.py [MODEL]

Without MODEL it is the demo model of this package; any gpt-oss folder or hub name will do.
"""

import sys

from transformers import pipeline

from gpt_oss_harmony.engines.demo_model import demo_model_folder

model = sys.argv[1] if len(sys.argv) > 1 else str(demo_model_folder())
generator = pipeline("text-generation", model=model, dtype="auto")
messages = [{"role": "user", "content": "What is 27 + 45?"}]
result = generator(messages, max_new_tokens=200, do_sample=False)
print(result[0]["generated_text"][-1]["content"])
