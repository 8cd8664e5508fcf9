// Anthropic's TypeScript SDK: a whole message, a stream, the models and an error, as JSON.
import Anthropic from "@anthropic-ai/sdk";

const [baseURL, model] = process.argv.slice(2);
const client = new Anthropic({ baseURL, apiKey: "none", maxRetries: 0 });
const body = {
  model,
  max_tokens: 100,
  messages: [{ role: "user", content: "hi" }],
  tools: [{ name: "now", input_schema: { type: "object" } }],
  thinking: { type: "adaptive" },
};
const whole = await client.messages.create(body);
const streamed = await client.messages.stream(body).finalMessage();
const models = [];
for await (const found of client.models.list()) models.push(found.id);
const error = await client.messages.create({ ...body, model: "other" }).catch((caught) => caught);
console.log(
  JSON.stringify({
    whole: whole.content,
    streamed: streamed.content,
    reasons: [whole.stop_reason, streamed.stop_reason],
    models,
    error: error.constructor.name,
  }),
);
