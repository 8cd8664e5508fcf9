/** What the page and its server say to each other, as JSON. */

export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };
export type JsonObject = { [key: string]: Json };

export type Form = "auto" | "harmony" | "chat" | "responses";
export type HeaderStyle = "guide" | "reference" | "oss-harmony";
export type SchemaDialect = "typescript" | "reference";
export type Reasoning = "by-turn" | "reference" | "keep";

/** A conversation, or a request, in one of the forms. */
export interface Source {
  source: JsonObject;
  form: Form;
  /** The current date as the model shall read it; for requests. */
  date?: string | null;
}

/** How a source is rendered; the server has the defaults. */
export interface Options {
  ending?: "completion" | "training";
  header_style?: HeaderStyle;
  schema_dialect?: SchemaDialect;
  reasoning?: Reasoning;
  /** The current date as the model shall read it, as YYYY-MM-DD; for requests. */
  date?: string | null;
  /** Which of the training examples, from 0. */
  example?: number;
}

export interface Tokens {
  ids: number[];
  /** What each token stands for; null where it is no UTF-8 by itself. */
  texts: (string | null)[];
  /** The bytes of those that are null, such as "e2 96", by their index. */
  bytes: { [index: string]: string };
}

export interface TextItem {
  type: "text";
  text: string;
}

export interface ToolDescription {
  name: string;
  description: string;
  parameters?: JsonObject | null;
}

export interface ToolNamespace {
  name: string;
  description?: string | null;
  tools: ToolDescription[];
}

export interface SystemItem {
  type: "system_content";
  model_identity?: string | null;
  reasoning_effort?: "Low" | "Medium" | "High" | null;
  conversation_start_date?: string | null;
  knowledge_cutoff?: string | null;
  channel_config?: { valid_channels: string[]; channel_required: boolean } | null;
  tools?: { [name: string]: ToolNamespace } | null;
}

export interface ResponseFormat {
  name: string;
  json_schema: JsonObject | boolean;
  description?: string | null;
}

export interface DeveloperItem {
  type: "developer_content";
  instructions?: string | null;
  tools?: { [name: string]: ToolNamespace } | null;
  response_formats?: { [name: string]: ResponseFormat } | null;
}

export type ContentItem = TextItem | SystemItem | DeveloperItem;
export type Role = "system" | "developer" | "user" | "assistant" | "tool";

/** A message in canonical harmony JSON. */
export interface HarmonyMessage {
  role: Role;
  name?: string | null;
  content: string | (ContentItem | string)[];
  channel?: string | null;
  recipient?: string | null;
  content_type?: string | null;
  /** The ids that it was sampled as, which are rendered in the place of all else. */
  sampled_tokens?: number[];
}

export interface HarmonyConversation {
  messages: HarmonyMessage[];
}

export interface RenderedMessage {
  index: number;
  role: Role;
  name: string | null;
  channel: string | null;
  recipient: string | null;
  content_type: string | null;
  tokens: number;
  /** Why it is left out, in words; null where it is not. */
  dropped: string | null;
}

export interface RenderedSpan {
  start: number;
  end: number;
  /** The index of its message; that of the header of the next turn is one past the last. */
  message: number;
  kind: "header" | "body" | "stop";
  sampled: boolean;
  trainable: boolean;
}

export interface Rendering {
  form: Exclude<Form, "auto">;
  conversation: HarmonyConversation;
  messages: RenderedMessage[];
  spans: RenderedSpan[];
  tokens: Tokens;
  /** The labels that differ from the input, by their index. */
  labels: { [index: string]: number };
  text: string;
  examples: number;
  /** Why no token is trained on; null where some are. */
  untrained: string | null;
  /** What the source says in vain, such as fields that nothing reads. */
  notices: Notice[];
}

export interface Notice {
  text: string;
  /** Its field; null where it has none. */
  param: string | null;
}

export interface ComparedPart {
  text: string;
  differs: boolean;
}

export interface ComparedTable {
  columns: string[];
  totals: number[];
  rows: { message: number; cells: ComparedPart[][] }[];
}

export interface Comparison {
  header_styles: ComparedTable;
  schema_dialects: ComparedTable;
}

/** The parser's state after the token `index` (-1: before any), until the next change. */
export interface StateChange {
  index: number;
  state: string;
  role: string | null;
  channel: string | null;
  recipient: string | null;
  content_type: string | null;
}

export interface Recovery {
  kind: string;
  position: number;
  text: string;
}

export interface Reading {
  changes: StateChange[];
  /** What each token adds to the text of its message; ends where the strict parser fails. */
  deltas: (string | null)[];
  /** After which token message k is complete. */
  message_ends: number[];
  messages: HarmonyMessage[];
  recoveries: Recovery[];
  error: null | Failure;
  incomplete: boolean;
}

export interface Failure {
  message: string;
  detail: string;
  position: number;
}

export interface ParseRequest {
  input: string;
  role: Role | null;
  tools: string[];
}

export interface Parsing {
  tokens: Tokens;
  strict: Reading;
  lenient: Reading;
}

export interface AllowedRequest extends Source {
  completion: string;
  /** As in a Chat Completions request; null is "auto". */
  tool_choice: Json;
  /** Whether the model may reason first (not the option of the same name). */
  reasoning: boolean;
  from: number;
}

export interface AllowedStep {
  index: number;
  count: number;
  first: Tokens;
}

export interface Allowed {
  grammar: string;
  tokens: Tokens;
  from: number;
  steps: AllowedStep[];
  mismatch: null | { position: number; explanation: string };
  finished: boolean;
}

export interface ExportRequest extends Source, Options {
  format: "json" | "python" | "vector";
}

export interface AppendRequest extends Source {
  messages: HarmonyMessage[];
}

export interface Appended {
  form: Exclude<Form, "auto">;
  source: JsonObject;
}

export interface Exported {
  name: string;
  text: string;
}

export interface Settings {
  version: string;
  /** Whether there is a call `allowed`. */
  grammar: boolean;
  live: boolean;
  needs_key: boolean;
  model: string | null;
}

/** What each name of the API takes and answers. */
export interface Calls {
  render: { takes: Source & Options; answers: Rendering };
  append: { takes: AppendRequest; answers: Appended };
  compare: { takes: Source & Options; answers: Comparison };
  parse: { takes: ParseRequest; answers: Parsing };
  allowed: { takes: AllowedRequest; answers: Allowed };
  export: { takes: ExportRequest; answers: Exported };
}

/** An answer of Python in the page, as a server would send it. */
export interface Answer {
  status: number;
  /** JSON. */
  text: string;
}

/** The files of Python, which lie beside their list. */
export interface PythonFiles {
  files: { name: string; size: number; sha256: string }[];
}

/**
 * A sampled token. `text` is null where it is only a part of a character; then `bytes` are its
 * bytes (`e2 96`). `likeliest` are the tokens that were most probable in its place, best first.
 */
export interface SampledToken {
  id: number;
  text: string | null;
  bytes: string;
  logprob: number;
  likeliest: { text: string; logprob: number }[];
}

/** An event of a streamed completion; `finish` comes with the last token. */
export interface CompletionPiece {
  tokens: SampledToken[];
  finish: "stop" | "length" | null;
}

/** How the model in the page samples; null is its default. */
export interface ModelSettings {
  maxTokens: number | null;
  temperature: number | null;
  seed: number | null;
}

/** A token that the model in the page has sampled, and the likeliest in its place, best first. */
export interface ModelPiece {
  id: number;
  logprob: number;
  likeliest: { id: number; logprob: number }[];
  finish: "stop" | "length" | null;
}

/** `completion` numbers the completions of a page; a new one, or a stop, ends the one before. */
export type ToWorker =
  | { kind: "start"; folder: string; isControlled: boolean }
  | { kind: "call"; name: string; body: string }
  | { kind: "complete"; completion: number; prompt: number[]; settings: ModelSettings }
  | { kind: "stop" };

export type FromWorker =
  | { kind: "progress"; done: number; total: number }
  | { kind: "ready" }
  | { kind: "failed"; problem: string }
  | { kind: "answer"; answer: Answer }
  | { kind: "piece"; completion: number; piece: CompletionPiece }
  | { kind: "end"; completion: number; problem: string | null };
