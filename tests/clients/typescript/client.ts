// Talks to a server by the AI SDK: `node --import tsx client.ts URL MODEL`.
// Every case runs with every provider; what came of it is written as one JSON object.

import { createAnthropic } from "@ai-sdk/anthropic";
import { createOpenResponses } from "@ai-sdk/open-responses";
import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import {
  APICallError,
  generateObject,
  generateText,
  type LanguageModel,
  Output,
  stepCountIs,
  streamText,
  tool,
} from "ai";
import { z } from "zod";

const [url, model] = process.argv.slice(2);
const settings = { baseURL: url, apiKey: "none" };
const openai = createOpenAI(settings);
const openResponses = createOpenResponses({ url: `${url}/responses`, name: "open" });
const compatible = createOpenAICompatible({
  ...settings,
  name: "compatible",
  includeUsage: true,
  supportsStructuredOutputs: true,
});

const anthropic = createAnthropic(settings);

const providers: Record<string, (name: string) => LanguageModel> = {
  responses: openai.responses,
  chat: openai.chat,
  open: openResponses,
  compatible,
  anthropic,
};

const weather = tool({
  description: "Gets the current weather in the provided location.",
  inputSchema: z.object({
    location: z.string().describe("The city and state, e.g. San Francisco, CA"),
    format: z.enum(["celsius", "fahrenheit"]).optional(),
  }),
  execute: async ({ location }) => ({ sunny: location === "Paris", temperature: 20 }),
});
const list = z.object({ items: z.array(z.string()).describe("entries on the shopping list") });
const plain = { temperature: 0, maxRetries: 0 };
// For models that it does not know, Anthropic's provider asks for JSON by a tool.
const json = { providerOptions: { anthropic: { structuredOutputMode: "outputFormat" } } } as const;

const cases: Record<string, (chosen: LanguageModel) => Promise<unknown>> = {
  async text(chosen) {
    const answer = await generateText({ ...plain, model: chosen, prompt: "What is 27 + 45?" });
    const { text, reasoningText, finishReason, usage } = answer;
    return { text, reasoningText, finishReason, usage };
  },

  async history(chosen) {
    const answer = await generateText({
      ...plain,
      model: chosen,
      system: "Be brief.",
      messages: [
        { role: "user", content: "Hello! My name is Anna." },
        { role: "assistant", content: "Hello, Anna! How can I help you?" },
        { role: "user", content: "What is my name?" },
      ],
    });
    return answer.text;
  },

  async stream(chosen) {
    const answer = streamText({ ...plain, model: chosen, prompt: "What is 27 + 45?" });
    const kinds: string[] = [];
    let text = "";
    let reasoning = "";
    for await (const part of answer.fullStream) {
      if (kinds.at(-1) !== part.type) kinds.push(part.type);
      if (part.type === "text-delta") text += part.text;
      if (part.type === "reasoning-delta") reasoning += part.text;
      if (part.type === "error") throw part.error;
    }
    return { kinds, text, reasoning, usage: await answer.usage };
  },

  async tools(chosen) {
    const answer = await generateText({
      ...plain,
      model: chosen,
      tools: { get_current_weather: weather },
      stopWhen: stepCountIs(4),
      prompt: "What is the weather like in Paris?",
    });
    return {
      text: answer.text,
      steps: answer.steps.map((step) => step.finishReason),
      inputs: answer.steps.flatMap((step) => step.toolCalls.map((call) => call.input)),
    };
  },

  async streamed_tools(chosen) {
    const answer = streamText({
      ...plain,
      model: chosen,
      tools: { get_current_weather: weather },
      stopWhen: stepCountIs(4),
      prompt: "What is the weather like in Paris?",
    });
    return { text: await answer.text, steps: (await answer.steps).length };
  },

  async required_tool(chosen) {
    const answer = await generateText({
      ...plain,
      model: chosen,
      tools: { get_current_weather: weather },
      toolChoice: { type: "tool", toolName: "get_current_weather" },
      prompt: "What is the weather like in Paris?",
    });
    return answer.toolCalls.map((call) => call.toolName);
  },

  async object(chosen) {
    const answer = await generateObject({
      ...plain,
      ...json,
      model: chosen,
      schema: list,
      schemaName: "shopping_list",
      system: "You are a helpful shopping assistant",
      prompt: "I need to buy coffee, soda and eggs",
    });
    return answer.object;
  },

  async output(chosen) {
    const answer = streamText({
      ...plain,
      ...json,
      model: chosen,
      output: Output.object({ schema: list, name: "shopping_list" }),
      prompt: "I need to buy coffee, soda and eggs",
    });
    for await (const part of answer.fullStream) if (part.type === "error") throw part.error;
    return await answer.output;
  },

  async limit(chosen) {
    const prompt = "What is 27 + 45?";
    const answer = await generateText({ ...plain, model: chosen, prompt, maxOutputTokens: 16 });
    return answer.finishReason;
  },
};

async function fails(chosen: LanguageModel): Promise<unknown> {
  try {
    await generateText({ ...plain, model: chosen, prompt: "Hello!" });
  } catch (error) {
    if (!APICallError.isInstance(error)) throw error;
    return { status: error.statusCode, message: error.message };
  }
  throw new Error("an answer from a model that is not there");
}

const answers: Record<string, unknown> = {};
const runs: Promise<void>[] = [];

function run(name: string, work: Promise<unknown>): void {
  const failed = (error: unknown) => ({ failed: error instanceof Error ? error.stack : error });
  runs.push(work.catch(failed).then((answer) => void (answers[name] = answer)));
}

for (const [provider, choose] of Object.entries(providers)) {
  for (const [name, work] of Object.entries(cases)) run(`${provider}.${name}`, work(choose(model)));
  run(`${provider}.another_model`, fails(choose("another")));
}
await Promise.all(runs);
console.log(JSON.stringify(answers));
