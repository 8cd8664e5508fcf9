// OpenAI's TypeScript SDK: the helper that joins a stream, as JSON.
import OpenAI from "openai";

const [baseURL, model] = process.argv.slice(2);
const client = new OpenAI({ baseURL, apiKey: "none", maxRetries: 0 });
const response = await client.responses.stream({ model, input: "hi" }).finalResponse();
console.log(JSON.stringify(response.output.map((item) => item.content[0].text)));
