/**
 * Server-sent events: the body of an answer comes in, the data of each event goes out.
 *
 * Only `data` is read; names, ids and comments (which keep a silent stream alive) are left out.
 */

/**
 * Read the events of an answer one after the other. Leaving the loop closes the stream.
 *
 * @param {ReadableStream<Uint8Array<ArrayBuffer>>} body
 * @returns {AsyncGenerator<string, void, undefined>}
 */
export async function* readEvents(body) {
  /** @type {string[]} */
  let data = [];
  for await (const line of lines(body)) {
    if (line.startsWith("data:")) {
      data.push(line.slice(line.startsWith("data: ") ? 6 : 5));
    } else if (line === "" && data.length > 0) {
      yield data.join("\n");
      data = [];
    }
  }
}

/**
 * @param {ReadableStream<Uint8Array<ArrayBuffer>>} body
 * @returns {AsyncGenerator<string, void, undefined>} what stands before each end of a line
 */
async function* lines(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      // A \r at the end may be half of \r\n: it waits.
      const found = (rest + value).split(/\r\n|\n|\r(?!$)/);
      rest = found.pop() ?? "";
      yield* found;
    }
  } finally {
    // Where the stream has failed, `read` has told so already.
    await reader.cancel().catch(() => undefined);
  }
}
