// Runs one framework against a server: `node frameworks.mjs NAME URL MODEL`; writes JSON, as
// programs/frameworks.py does.

const [name, url, model] = process.argv.slice(2);
const HELLO = "Say hello.";
const TIME = "What time is it?";
const PLACE = "Which city is it?";

async function joined(pieces) {
  const found = [];
  for await (const piece of pieces) if (piece) found.push(piece);
  return [found.join(""), found.length > 1];
}

async function* mapped(source, text) {
  for await (const one of source) yield text(one);
}

async function mastra() {
  const { Agent } = await import("@mastra/core/agent");
  const { createTool } = await import("@mastra/core/tools");
  const { z } = await import("zod");
  const local = { id: `local/${model}`, url, apiKey: "none" };
  const now = createTool({
    id: "now",
    description: "Tells the time.",
    inputSchema: z.object({}),
    execute: async () => ({ time: "noon" }),
  });
  const about = { id: "one", name: "one", instructions: "Be brief.", model: local };
  const agent = new Agent(about);
  const clock = new Agent({ ...about, tools: { now } });
  const form = { structuredOutput: { schema: z.object({ city: z.string() }) } };
  return {
    answer: async () => (await agent.generate(HELLO)).text,
    stream: async () => joined((await agent.stream(HELLO)).textStream),
    tool: async () => (await clock.generate(TIME)).text,
    form: async () => (await agent.generate(PLACE, form)).object.city,
  };
}

async function langchain_js() {
  const { ChatOpenAI } = await import("@langchain/openai");
  const { createAgent, tool } = await import("langchain");
  const { z } = await import("zod");
  const chat = new ChatOpenAI({ model, apiKey: "none", configuration: { baseURL: url } });
  const about = { name: "now", description: "Tells the time.", schema: z.object({}) };
  const clock = createAgent({ model: chat, tools: [tool(() => "noon", about)] });
  const asked = { messages: [{ role: "user", content: TIME }] };
  const form = chat.withStructuredOutput(z.object({ city: z.string() }));
  return {
    answer: async () => (await chat.invoke(HELLO)).text,
    stream: async () => joined(mapped(await chat.stream(HELLO), (chunk) => chunk.text)),
    tool: async () => (await clock.invoke(asked)).messages.at(-1).text,
    form: async () => (await form.invoke(PLACE)).city,
  };
}

async function openai_agents_js() {
  const { Agent, OpenAIProvider, Runner, tool } = await import("@openai/agents");
  const { z } = await import("zod");
  const runner = new Runner({
    modelProvider: new OpenAIProvider({ apiKey: "none", baseURL: url }),
    tracingDisabled: true,
  });
  const now = tool({
    name: "now",
    description: "Tells the time.",
    parameters: z.object({}),
    execute: async () => "noon",
  });
  const one = (fields = {}) => new Agent({ name: "one", model, ...fields });
  const streamed = async () => {
    const stream = await runner.run(one(), HELLO, { stream: true });
    return joined(stream.toTextStream());
  };
  const form = one({ outputType: z.object({ city: z.string() }) });
  return {
    answer: async () => (await runner.run(one(), HELLO)).finalOutput,
    stream: streamed,
    tool: async () => (await runner.run(one({ tools: [now] }), TIME)).finalOutput,
    form: async () => (await runner.run(form, PLACE)).finalOutput.city,
  };
}

async function ollama_js() {
  const { Ollama } = await import("ollama");
  const client = new Ollama({ host: url.replace(/\/v1$/, "") });
  const ask = (content, fields = {}) =>
    client.chat({ model, messages: [{ role: "user", content }], ...fields });
  const declared = { name: "now", description: "Tells the time.", parameters: { type: "object" } };
  const city = { type: "object", properties: { city: { type: "string" } }, required: ["city"] };
  const clock = async () => {
    const fields = { model, tools: [{ type: "function", function: declared }] };
    const messages = [{ role: "user", content: TIME }];
    const { message } = await client.chat({ ...fields, messages });
    const [{ function: called }] = message.tool_calls;
    const result = { role: "tool", tool_name: called.name, content: "noon" };
    const said = await client.chat({ ...fields, messages: [...messages, message, result] });
    return said.message.content;
  };
  return {
    answer: async () => (await ask(HELLO)).message.content,
    stream: async () =>
      joined(mapped(await ask(HELLO, { stream: true }), (chunk) => chunk.message.content)),
    tool: clock,
    form: async () => JSON.parse((await ask(PLACE, { format: city })).message.content).city,
  };
}

const found = {};
const frameworks = { mastra, langchain_js, openai_agents_js, ollama_js };
for (const [step, run] of Object.entries(await frameworks[name]())) {
  try {
    found[step] = await run();
  } catch (error) {
    found[step] = String(error?.stack ?? error).slice(0, 1500); // the result of the step
  }
}
console.log(JSON.stringify(found));
process.exit();
