/** Between JSON and the types of `types.ts`. */

/**
 * A time: a Date, a number as its parameter counts, or a text (in the gateway's zone, or its own).
 */
export type Moment = Date | number | string;
/** A day: a text as YYYY-MM-DD. */
export type Day = string;
/** A whole number. Give a bigint or a text where a number would not be exact. */
export type Whole = number | bigint | string;

/** What came around a payload. */
export interface Meta {
  requestId: string;
  msec: number;
  time: number;
  /** The request whose stored answer this is; null if this call did the work. */
  replayOf: string | null;
  headers: Headers;
  /** That of the call, if it had one: with it the call can be repeated within a day. */
  idempotencyKey: string | null;
}

/** A payload with what came around it. */
export type Answer<P> = P & { readonly meta: Meta };

/** What a call would cost now: at most `cost` of the balance `unit`, of which `left` are left. */
export interface Cost {
  cost: number;
  unit: string;
  left: number;
}

// A text, the rest of a number with a fraction or an exponent, or a long whole number.
const TEXT_OR_LONG_NUMBER = /"(?:[^"\\]|\\.)*"|\d[.eE][-+.\deE]+|-?\b\d{16,}\b(?![.eE])/g;
const NOT_WHOLE = /^"|[.eE]/;

/** Reads JSON. A whole number that a `number` cannot hold exactly is read as a text. */
export function readJson(text: string): unknown {
  const safe = text.replace(TEXT_OR_LONG_NUMBER, (found) =>
    NOT_WHOLE.test(found) || Number.isSafeInteger(Number(found)) ? found : `"${found}"`,
  );
  return JSON.parse(safe);
}

/** A parameter as it is sent. */
export function onTheWire(name: string, value: unknown): string | number | boolean {
  // Not a number: some times are counted in seconds, others in milliseconds.
  if (value instanceof Date) return value.toISOString();
  if (typeof value === "bigint") return value.toString();
  if (typeof value === "number" && Math.abs(value) > Number.MAX_SAFE_INTEGER) {
    throw new RangeError(`${name}: ${value} is not exact as a number: give a bigint or a text.`);
  }
  return value as string | number | boolean;
}
