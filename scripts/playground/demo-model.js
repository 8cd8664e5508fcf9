/**
 * The demo model of the package in JavaScript: token ids in, token ids and their probabilities out.
 *
 * NumPy has no build for this Python on PyPI or npm, so this is the architecture of gpt-oss once more,
 * as far as the demo model needs it: tests compare it with the engine. It reads one token at a time, in
 * double precision where numbers are added up.
 */

/** @import { ModelPiece, ModelSettings } from "../../src/gpt_oss_harmony/inspector/page/wire.js" */

/** @typedef {{ dtype: string, shape: number[], data_offsets: [number, number] }} Entry */
/** @typedef {{ matrix: Float32Array, bias: Float32Array }} Linear a row of `matrix` for each output */
/** @typedef {{ keys: Float32Array[], values: Float32Array[] }} Cache of a layer, by position */

/** The length of a token's code, in signs. */
const SIGNS = 64;

/** What a gate and its partner are cut to. */
const LIMIT = 7;

/** The model has no room for the first token of a completion. */
export class PromptTooLong extends RangeError {
  /** @param {number} most the tokens that the model reads */
  constructor(most) {
    super(`the model reads ${most} tokens`);
    this.most = most;
  }
}

export class DemoModel {
  #config;
  #tensors;
  #layers;
  /** The row of each token in the embedding, which is also the head. */
  #rowOf;
  #rows;

  /** @param {ArrayBuffer} file written by build.py */
  constructor(file) {
    this.#tensors = new Tensors(file);
    this.#config = this.#tensors.config;
    const { rows, rowOf } = this.#embedding();
    this.#rows = rows;
    this.#rowOf = rowOf;
    const { hidden_size: hidden, intermediate_size: inner } = this.#config;
    this.#layers = Array.from({ length: this.#config.num_hidden_layers }, (_, number) => {
      const of = (/** @type {string} */ name) => this.#tensors.floats(`layers.${number}.${name}`);
      const linear = (/** @type {string} */ name) => ({ matrix: of(`${name}.weight`), bias: of(`${name}.bias`) });
      return {
        window: this.#config.layer_types[number] === "sliding_attention" ? this.#config.sliding_window : Infinity,
        attentionNorm: of("input_layernorm.weight"),
        query: linear("self_attn.q_proj"),
        key: linear("self_attn.k_proj"),
        value: linear("self_attn.v_proj"),
        out: linear("self_attn.o_proj"),
        sinks: of("self_attn.sinks"),
        expertsNorm: of("post_attention_layernorm.weight"),
        router: linear("mlp.router"),
        gateUp: turned(of("mlp.experts.gate_up_proj"), of("mlp.experts.gate_up_proj_bias"), hidden, 2 * inner),
        down: turned(of("mlp.experts.down_proj"), of("mlp.experts.down_proj_bias"), inner, hidden),
      };
    });
  }

  /** The rows that were trained, and those that are made of a token's kind and code. */
  #embedding() {
    const tensors = this.#tensors;
    const size = this.#config.hidden_size;
    const kinds = tensors.floats("kinds");
    const projection = tensors.floats("projection");
    const coded = tensors.integers("coded_tokens");
    const codes = tensors.bytes("codes");
    const used = tensors.integers("used_tokens");
    const usedRows = tensors.floats("used_rows");
    const rowOf = Uint16Array.from(tensors.bytes("token_kinds"));
    const kindRows = kinds.length / size;
    const rows = new Float32Array((kindRows + coded.length + used.length) * size);
    rows.set(kinds.map(bfloat16));
    coded.forEach((token, place) => {
      const kind = rowOf[token] * size;
      rowOf[token] = kindRows + place;
      const sums = new Float64Array(size);
      for (let sign = 0; sign < SIGNS; sign += 1) {
        const bit = (codes[place * (SIGNS / 8) + (sign >> 3)] >> (7 - (sign & 7))) & 1;
        const plus = 2 * bit - 1;
        for (let at = 0; at < size; at += 1) sums[at] += plus * projection[sign * size + at];
      }
      for (let at = 0; at < size; at += 1) {
        rows[(kindRows + place) * size + at] = bfloat16(kinds[kind + at] + sums[at] / Math.sqrt(SIGNS));
      }
    });
    used.forEach((token, place) => {
      rowOf[token] = kindRows + coded.length + place;
    });
    rows.set(usedRows, (kindRows + coded.length) * size);
    return { rows, rowOf };
  }

  /**
   * Sample a completion token by token. The generator may be left at any time.
   *
   * @param {number[]} prompt
   * @param {ModelSettings} settings
   * @param {number} likeliest how many of the likeliest tokens there are beside each
   * @returns {Generator<ModelPiece | null, void, undefined>} null after a token of the prompt
   */
  *complete(prompt, { maxTokens, temperature, seed }, likeliest) {
    const room = this.#config.max_position_embeddings - prompt.length;
    if (room < 1) throw new PromptTooLong(this.#config.max_position_embeddings);
    const random = randomNumbers(seed);
    const caches = this.#layers.map(() => /** @type {Cache} */ ({ keys: [], values: [] }));
    let state = new Float32Array();
    for (const token of prompt) {
      state = this.#read(token, caches);
      yield null;
    }
    const most = Math.min(maxTokens ?? room, room);
    for (let count = 1; count <= most; count += 1) {
      const scores = this.#scores(state);
      const best = highest(scores, Math.max(likeliest, 1));
      const total = sumOf(weights(scores, best[0], 1));
      const logprob = (/** @type {number} */ token) => scores[token] - scores[best[0]] - Math.log(total);
      const id = temperature === 0 ? best[0] : drawn(scores, best[0], temperature ?? 1, random());
      const isLast = this.#config.stop_tokens.includes(id);
      const finish = isLast ? "stop" : count === most ? "length" : null;
      yield {
        id,
        logprob: logprob(id),
        likeliest: best.slice(0, likeliest).map((token) => ({ id: token, logprob: logprob(token) })),
        finish,
      };
      if (isLast) return;
      if (count < most) state = this.#read(id, caches);
    }
  }

  /**
   * Read the next token; return its state after the last layer.
   *
   * @param {number} token
   * @param {Cache[]} caches
   */
  #read(token, caches) {
    const size = this.#config.hidden_size;
    const row = this.#rowOf[token] * size;
    const state = this.#rows.slice(row, row + size);
    this.#layers.forEach((layer, number) => {
      addTo(state, this.#attention(layer, this.#normalised(state, layer.attentionNorm), caches[number]));
      addTo(state, this.#experts(layer, this.#normalised(state, layer.expertsNorm)));
    });
    return this.#normalised(state, this.#tensors.floats("norm.weight"));
  }

  /** @param {Float32Array} state */
  #scores(state) {
    const ofRows = product(this.#rows, state);
    const scores = new Float32Array(this.#rowOf.length);
    for (let token = 0; token < scores.length; token += 1) scores[token] = ofRows[this.#rowOf[token]];
    return scores;
  }

  /**
   * Scale to the mean square 1.
   *
   * @param {Float32Array} state
   * @param {Float32Array} weight
   */
  #normalised(state, weight) {
    const square = state.reduce((sum, number) => sum + number * number, 0) / state.length;
    const scale = 1 / Math.sqrt(square + this.#config.rms_norm_eps);
    return state.map((number, at) => number * scale * weight[at]);
  }

  /**
   * @param {{ window: number, sinks: Float32Array, query: Linear, key: Linear, value: Linear, out: Linear }} layer
   * @param {Float32Array} state
   * @param {Cache} cache
   */
  #attention(layer, state, { keys, values }) {
    const { head_dim: size, num_attention_heads: heads, num_key_value_heads: groups } = this.#config;
    const position = keys.length;
    const queries = this.#rotated(linear(layer.query, state), position);
    keys.push(this.#rotated(linear(layer.key, state), position));
    values.push(linear(layer.value, state));
    const first = Math.max(0, position + 1 - layer.window);
    const mixed = new Float32Array(heads * size);
    for (let head = 0; head < heads; head += 1) {
      const query = queries.subarray(head * size, (head + 1) * size);
      const start = Math.floor((head * groups) / heads) * size; // several heads share keys
      const scores = keys.slice(first).map((key) => dot(query, key, start) / Math.sqrt(size));
      // A sink takes a share and adds no value, so that a token need not attend to anything.
      const largest = scores.reduce((one, other) => Math.max(one, other), layer.sinks[head]);
      const shares = scores.map((score) => Math.exp(score - largest));
      const total = shares.reduce((sum, share) => sum + share, Math.exp(layer.sinks[head] - largest));
      shares.forEach((share, at) => {
        const value = values[first + at];
        for (let place = 0; place < size; place += 1) {
          mixed[head * size + place] += (share / total) * value[start + place];
        }
      });
    }
    return linear(layer.out, mixed);
  }

  /**
   * Turn the pairs of each head's numbers by the token's position: the halves of a head have one of each.
   *
   * @param {Float32Array} heads
   * @param {number} position
   */
  #rotated(heads, position) {
    const { head_dim: size, rope_theta: base } = this.#config;
    const turned = heads.slice();
    for (let pair = 0; pair < size / 2; pair += 1) {
      const angle = position * base ** ((-2 * pair) / size);
      const [cosine, sine] = [Math.cos(angle), Math.sin(angle)];
      for (let at = pair; at < heads.length; at += size) {
        turned[at] = heads[at] * cosine - heads[at + size / 2] * sine;
        turned[at + size / 2] = heads[at + size / 2] * cosine + heads[at] * sine;
      }
    }
    return turned;
  }

  /**
   * Add up the results of the experts that the router scores highest.
   *
   * @param {{ router: Linear, gateUp: Linear[], down: Linear[] }} layer
   * @param {Float32Array} state
   */
  #experts({ router, gateUp, down }, state) {
    const scores = linear(router, state);
    const chosen = highest(scores, this.#config.num_experts_per_tok);
    const shares = chosen.map((expert) => Math.exp(scores[expert] - scores[chosen[0]]));
    const total = shares.reduce((sum, share) => sum + share, 0);
    const result = new Float32Array(state.length);
    chosen.forEach((expert, place) => {
      const both = linear(gateUp[expert], state);
      const inner = new Float32Array(both.length / 2);
      for (let at = 0; at < inner.length; at += 1) {
        const gate = Math.min(both[2 * at], LIMIT);
        const up = Math.max(-LIMIT, Math.min(both[2 * at + 1], LIMIT));
        inner[at] = ((up + 1) * gate) / (1 + Math.exp(-1.702 * gate));
      }
      const share = shares[place] / total;
      addTo(result, linear(down[expert], inner).map((number) => number * share));
    });
    return result;
  }
}

/** The tensors of a file in the safetensors format; numbers in bfloat16 become those of 32 bits. */
class Tensors {
  #file;
  #begin;
  /** @type {Record<string, Entry>} */
  #entries;
  /** @type {Map<string, Float32Array>} */
  #read = new Map();
  /** @type {any} */
  config;

  /** @param {ArrayBuffer} file */
  constructor(file) {
    this.#file = file;
    this.#begin = 8 + new DataView(file).getUint32(0, true);
    const { __metadata__: metadata, ...entries } = JSON.parse(new TextDecoder().decode(file.slice(8, this.#begin)));
    this.#entries = entries;
    this.config = JSON.parse(metadata.config);
  }

  /** @param {string} name */
  #content(name) {
    const [start, end] = this.#entries[name].data_offsets;
    return this.#file.slice(this.#begin + start, this.#begin + end);
  }

  /** @param {string} name */
  bytes(name) {
    return new Uint8Array(this.#content(name));
  }

  /** @param {string} name */
  integers(name) {
    return new Int32Array(this.#content(name));
  }

  /** @param {string} name */
  floats(name) {
    const known = this.#read.get(name);
    if (known !== undefined) return known;
    const upper = new Uint16Array(this.#content(name)); // bfloat16 is the upper half of a float32
    const floats = new Float32Array(Uint32Array.from(upper, (half) => half << 16).buffer);
    this.#read.set(name, floats);
    return floats;
  }
}

/**
 * The nearest number in bfloat16; of two that are as near, the even one.
 *
 * @param {number} number
 */
function bfloat16(number) {
  BITS.floats[0] = number;
  const bits = BITS.integers[0];
  BITS.integers[0] = (bits + 0x7fff + ((bits >>> 16) & 1)) & 0xffff0000;
  return BITS.floats[0];
}

const FLOAT = new ArrayBuffer(4);
const BITS = { floats: new Float32Array(FLOAT), integers: new Uint32Array(FLOAT) };

/**
 * The matrices of experts, which are stored by inputs, by outputs.
 *
 * @param {Float32Array} stored
 * @param {Float32Array} biases
 * @param {number} inputs
 * @param {number} outputs
 * @returns {Linear[]}
 */
function turned(stored, biases, inputs, outputs) {
  return Array.from({ length: biases.length / outputs }, (_, expert) => {
    const matrix = new Float32Array(inputs * outputs);
    for (let input = 0; input < inputs; input += 1) {
      for (let output = 0; output < outputs; output += 1) {
        matrix[output * inputs + input] = stored[(expert * inputs + input) * outputs + output];
      }
    }
    return { matrix, bias: biases.slice(expert * outputs, (expert + 1) * outputs) };
  });
}

/**
 * @param {Float32Array} matrix
 * @param {Float32Array} vector
 */
function product(matrix, vector) {
  const size = vector.length;
  const result = new Float32Array(matrix.length / size);
  for (let row = 0, at = 0; row < result.length; row += 1) {
    let sum = 0;
    for (let column = 0; column < size; column += 1, at += 1) sum += matrix[at] * vector[column];
    result[row] = sum;
  }
  return result;
}

/**
 * @param {Linear} layer
 * @param {Float32Array} vector
 */
function linear({ matrix, bias }, vector) {
  const result = product(matrix, vector);
  addTo(result, bias);
  return result;
}

/**
 * @param {Float32Array} vector
 * @param {Float32Array} other
 * @param {number} start where the other begins
 */
function dot(vector, other, start) {
  let sum = 0;
  for (let at = 0; at < vector.length; at += 1) sum += vector[at] * other[start + at];
  return sum;
}

/**
 * @param {Float32Array} sum
 * @param {Float32Array} added
 */
function addTo(sum, added) {
  for (let at = 0; at < sum.length; at += 1) sum[at] += added[at];
}

/**
 * The places of the largest numbers, the largest first, and of equal ones the first.
 *
 * @param {Float32Array} numbers
 * @param {number} count
 */
function highest(numbers, count) {
  /** @type {number[]} */
  const found = [];
  for (let at = 0; at < numbers.length; at += 1) {
    if (found.length === count && numbers[at] <= numbers[found[count - 1]]) continue;
    let place = found.length;
    while (place > 0 && numbers[found[place - 1]] < numbers[at]) place -= 1;
    found.splice(place, 0, at);
    if (found.length > count) found.pop();
  }
  return found;
}

/**
 * Draw a token with its probability.
 *
 * @param {Float32Array} scores
 * @param {number} best the token with the highest score
 * @param {number} temperature
 * @param {number} random
 */
function drawn(scores, best, temperature, random) {
  const likely = weights(scores, best, temperature);
  let rest = random * sumOf(likely);
  for (let token = 0; token < likely.length; token += 1) {
    rest -= likely[token];
    if (rest < 0) return token;
  }
  return best; // where the sum was rounded
}

/**
 * Numbers in proportion to the probabilities of tokens: 1 for the best.
 *
 * @param {Float32Array} scores
 * @param {number} best
 * @param {number} temperature
 */
function weights(scores, best, temperature) {
  const found = new Float32Array(scores.length);
  const largest = scores[best];
  for (let at = 0; at < scores.length; at += 1) found[at] = Math.exp((scores[at] - largest) / temperature);
  return found;
}

/** @param {Float32Array} numbers */
function sumOf(numbers) {
  let sum = 0;
  for (let at = 0; at < numbers.length; at += 1) sum += numbers[at];
  return sum;
}

/**
 * Random numbers from 0 to 1: the same for the same seed (mulberry32).
 *
 * @param {number | null} seed
 * @returns {() => number}
 */
function randomNumbers(seed) {
  if (seed === null) return Math.random;
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}
