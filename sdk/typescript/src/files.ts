/** The records of an export's file, as they arrive. */

import { TransportError } from "./errors.js";
import { readJson } from "./json.js";

/**
 * A file that is being read. A read has to end in time while it is armed; once released, it no
 * longer ends with the signal of its call.
 */
export interface OpenedFile {
  body: ReadableStream<Uint8Array>;
  arm: () => void;
  disarm: () => void;
  release: () => void;
}

/** Unpacks a file of gzip JSON Lines. Throws TransportError if it breaks off. */
export async function* recordsOf<T>(file: OpenedFile): AsyncGenerator<T[]> {
  const gunzip = new DecompressionStream("gzip") as unknown as TransformStream<
    Uint8Array,
    Uint8Array
  >;
  const reader = file.body.pipeThrough(gunzip).getReader();
  const decoder = new TextDecoder();
  let rest = "";
  try {
    for (;;) {
      // Not while the caller works on the records that it has.
      file.arm();
      const { done, value } = await reader.read().catch((cause: unknown) => {
        throw new TransportError(`The file broke off: ${String(cause)}`, { cause });
      });
      file.disarm();
      if (done) return;
      const lines = (rest + decoder.decode(value, { stream: true })).split("\n");
      rest = lines.pop() ?? "";
      if (lines.length > 0) yield lines.map((line) => readJson(line) as T);
    }
  } finally {
    file.disarm();
    file.release();
    // Also if the loop ends in the middle. A stream that failed cannot be cancelled.
    await reader.cancel().catch(() => undefined);
  }
}
