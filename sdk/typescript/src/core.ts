/** How one call is made: paced, repeated where that is safe, with errors by reason. */

import {
  checkHeaders,
  checkParameters,
  checkedBaseUrl,
  checkedRetries,
  checkedTimeoutMs,
  checkedToken,
} from "./checks.js";
import {
  type Envelope,
  ParameterError,
  RefusedError,
  ThrottledError,
  TollwayError,
  TransportError,
  UnavailableError,
  UnexpectedAnswerError,
  notAnswered,
  refused,
} from "./errors.js";
import { type OpenedFile, recordsOf } from "./files.js";
import { type Answer, onTheWire, readJson } from "./json.js";
import type { Operation } from "./operation.js";
import { Pacer, wait } from "./pacing.js";
import type { Page } from "./paging.js";
import { VERSION } from "./version.js";

const FIRST_DELAY_MS = 500;
const DELAY_MAX_MS = 20_000;
// A call that is asked to wait longer than this ends, and its error says how long.
const ASKED_MAX_MS = 60_000;
// A loop or a file that has begun is tried so many times as often as a call, which takes about a
// minute by default: ending would lose what was read.
const LOOP_PATIENCE = 2;
// From how many records of a file, at most, it is tried to go on.
const RECORDS_BACK_MAX = 30;

// A browser sends its own, and does not let a page change it.
const IN_A_BROWSER = "window" in globalThis || "WorkerGlobalScope" in globalThis;

export interface ClientOptions {
  token: string;
  /** Where the gateway is, for example `https://gateway.example`. */
  baseUrl: string;
  /**
   * How often a call is repeated that may succeed then; 4 if left out. Twice as often in a loop or
   * a file that has begun.
   */
  retries?: number;
  /** How long one attempt may take; 30 seconds if left out. */
  timeoutMs?: number;
  /** The language of messages, such as `zh`; English if left out. */
  language?: string;
  /** What sends requests; the global `fetch` if left out. */
  fetch?: typeof fetch;
}

export interface CallOptions {
  /** Repeating a call with the same key within a day is not charged again. */
  idempotencyKey?: string;
  headers?: Record<string, string>;
  signal?: AbortSignal;
}

/** The options of a loop: each of its pages is a call, and has a key of its own. */
export type LoopOptions = Omit<CallOptions, "idempotencyKey">;

/** The base of the client: what all operations have in common. */
export class Core {
  private readonly baseUrl: string;
  readonly #headers: Record<string, string>;
  private readonly retries: number;
  private readonly timeoutMs: number;
  private readonly send: typeof fetch;
  private readonly pacer = new Pacer();

  constructor(options: ClientOptions) {
    if (typeof options !== "object" || options === null) {
      throw new TypeError(
        "Give the token and the address: " +
          'new Client({ token: "tw_…", baseUrl: "https://gateway.example" }).',
      );
    }
    this.baseUrl = checkedBaseUrl(options.baseUrl);
    this.#headers = {
      Authorization: `Bearer ${checkedToken(options.token)}`,
      "Accept-Language": options.language ?? "en",
      ...(IN_A_BROWSER ? {} : { "User-Agent": `tollway-client-javascript/${VERSION}` }),
    };
    checkHeaders(this.#headers);
    this.retries = checkedRetries(options.retries ?? 4);
    this.timeoutMs = checkedTimeoutMs(options.timeoutMs ?? 30_000);
    this.send = options.fetch ?? ((input, init) => fetch(input, init));
  }

  /**
   * A call of an operation.
   *
   * A paid one always has an Idempotency-Key, so that a repetition is answered with the stored
   * answer and not charged again, whether or not the first attempt arrived.
   */
  protected async call<P>(
    operation: Operation,
    values: object,
    options: CallOptions = {},
    retries = this.retries,
  ): Promise<Answer<P>> {
    checkParameters(operation, values);
    const key = keyOf(operation, options);
    if (key.text !== null && !/^[ -~]{1,255}$/.test(key.text)) {
      throw new TypeError("An Idempotency-Key is 1 to 255 printable ASCII characters.");
    }
    const headers = withHeaders({ ...this.#headers, ...key.added }, options.headers);
    checkHeaders(headers);
    for (let attempt = 0; ; attempt += 1) {
      await this.paced(operation, options.signal);
      try {
        return await this.attempt<P>(operation, values, headers, key.text, options.signal);
      } catch (error) {
        if (error instanceof TollwayError) error.idempotencyKey = key.text;
        if (attempt >= retries || !mayRepeat(operation, error)) throw error;
        await wait(delayMs(attempt, error), options.signal);
      }
    }
  }

  private async paced(operation: Operation, signal: AbortSignal | undefined): Promise<void> {
    const { ms, at } = this.pacer.reserve(operation.name);
    try {
      await wait(ms, signal);
    } catch (error) {
      this.pacer.giveBack(operation.name, at);
      throw error;
    }
  }

  /** What makes the call of each page of a loop. */
  protected pages<P>(
    operation: Operation,
    calledAs: string,
    filter: object,
    options: LoopOptions = {},
  ): (values: object) => Promise<Answer<P>> {
    // The loop sets some of those that a call needs.
    checkParameters({ ...operation, calledAs, needs: undefined }, filter);
    // One key for all would be refused on the second page, which is another request.
    const { idempotencyKey = givenKey(options) }: CallOptions = options;
    if (idempotencyKey !== undefined) {
      throw new TypeError(
        "A loop takes no Idempotency-Key: each page is a call of its own, and gets one.",
      );
    }
    let retries = this.retries;
    return async (values) => {
      const answer = await this.call<P>(operation, values, options, retries);
      retries = this.retries * LOOP_PATIENCE;
      return answer;
    };
  }

  /**
   * The records of an export's file. One that breaks off is asked for again after the last record
   * that arrived, which `key` names. One that changed since the export is refused as that, and is
   * no longer in the file: then it is asked for after the record before.
   */
  protected async *file<T>(
    operation: Operation,
    request: object,
    key: keyof T,
    options: CallOptions = {},
  ): AsyncGenerator<Page<T>> {
    checkParameters(operation, request);
    checkHeaders(withHeaders(this.#headers, options.headers));
    let values = request;
    let retries = this.retries;
    let given: T[] = [];
    for (let attempt = 0; ; attempt += 1) {
      await this.paced(operation, options.signal);
      try {
        for await (const records of recordsOf<T>(await this.open(operation, values, options))) {
          given = [...given, ...records].slice(-RECORDS_BACK_MAX);
          values = { ...values, after: given[given.length - 1]?.[key] };
          attempt = 0;
          retries = this.retries * LOOP_PATIENCE;
          yield { records };
        }
        return;
      } catch (error) {
        options.signal?.throwIfAborted();
        if (error instanceof ParameterError && given.length > 1) {
          given.pop();
          values = { ...values, after: given[given.length - 1]?.[key] };
          attempt = 0;
          continue;
        }
        if (attempt >= retries || !isPassing(error)) throw error;
        await wait(delayMs(attempt, error), options.signal);
      }
    }
  }

  /** Opens a file. It may take as long as it likes, but no silence may be longer than a timeout. */
  private async open(
    operation: Operation,
    values: object,
    options: CallOptions,
  ): Promise<OpenedFile> {
    const silence = new AbortController();
    const giveUp = (): void => silence.abort(new Error("There was no answer in time."));
    let timer = setTimeout(giveUp, this.timeoutMs);
    const disarm = (): void => clearTimeout(timer);
    const arm = (): void => {
      timer = setTimeout(giveUp, this.timeoutMs);
    };
    const [url, init] = requestOf(this.baseUrl, operation, values, this.#headers);
    const [both, release] = eitherOf(silence.signal, options.signal);
    const headers = withHeaders(this.#headers, options.headers);
    try {
      const response = await this.send(url, { ...init, headers, signal: both });
      this.pacer.learn(operation.name, response.headers.get("ratelimit-policy") ?? "");
      if (response.headers.get("content-type") !== "application/gzip" || response.body === null) {
        throw refused(envelopeOf(response, await response.text()), response);
      }
      disarm();
      return { body: response.body, arm, disarm, release };
    } catch (cause) {
      disarm();
      release();
      if (options.signal?.aborted || cause instanceof TollwayError) throw cause;
      throw noAnswer(cause);
    }
  }

  /** The records of all pages, one by one. */
  protected async *each<T>(pages: AsyncGenerator<Page<T>>): AsyncGenerator<T, void, undefined> {
    for await (const page of pages) yield* page.records;
  }

  private async attempt<P>(
    operation: Operation,
    values: object,
    headers: Record<string, string>,
    idempotencyKey: string | null,
    signal: AbortSignal | undefined,
  ): Promise<Answer<P>> {
    const [either, release] = eitherOf(AbortSignal.timeout(this.timeoutMs), signal);
    const [url, init] = requestOf(this.baseUrl, operation, values, headers);
    let response: Response;
    let text: string;
    try {
      response = await this.send(url, { ...init, signal: either });
      text = await response.text();
    } catch (cause) {
      if (signal?.aborted) throw cause;
      throw noAnswer(cause);
    } finally {
      release();
    }
    this.pacer.learn(operation.name, response.headers.get("ratelimit-policy") ?? "");
    const envelope = envelopeOf(response, text);
    if (envelope.code !== 0) throw refused(envelope, response);
    const meta = {
      requestId: response.headers.get("x-request-id") ?? "",
      msec: envelope.msec,
      time: envelope.time,
      replayOf: response.headers.get("x-replay-of"),
      headers: response.headers,
      idempotencyKey,
    };
    // Not enumerable: printing, comparing and storing a payload leave it out.
    return Object.defineProperty(envelope.data, "meta", { value: meta }) as Answer<P>;
  }
}

/** The reason is in the cause of what `fetch` throws, which says no more than that it failed. */
function noAnswer(cause: unknown): TransportError {
  const reason = cause instanceof Error && cause.cause instanceof Error ? cause.cause : cause;
  return new TransportError(`No answer: ${String(reason)}`, { cause });
}

function requestOf(
  baseUrl: string,
  operation: Operation,
  values: object,
  headers: Record<string, string>,
): [string, RequestInit] {
  const sent = Object.entries(values)
    .filter(([, value]) => value !== undefined && value !== null)
    .map(([name, value]) => [name, onTheWire(name, value)] as const);
  const url = baseUrl + operation.path;
  // A redirect would turn a POST into a GET, or send what is in it to somebody else.
  const init = { method: operation.method, redirect: "manual" as const };
  if (operation.encoding === "json") {
    const typed = { ...headers, "Content-Type": "application/json" };
    const body = JSON.stringify(Object.fromEntries(sent), onTheWire);
    return [url, { ...init, headers: typed, body }];
  }
  const pairs = new URLSearchParams(sent.map(([name, value]) => [name, String(value)]));
  if (operation.encoding === "query") return [`${url}?${pairs}`, { ...init, headers }];
  return [url, { ...init, headers, body: pairs }];
}

function envelopeOf(response: Response, text: string): Envelope {
  let found: unknown;
  try {
    found = readJson(text);
  } catch {
    found = null;
  }
  const { code, data } = (found ?? {}) as Record<string, unknown>;
  if (typeof code !== "number" || typeof data !== "object" || !data || Array.isArray(data)) {
    throw notAnswered(response, text);
  }
  return found as Envelope;
}

function mayRepeat(operation: Operation, error: unknown): error is TollwayError {
  // A refusal for being too fast has done nothing.
  if (operation.repeats === "unsent" && !(error instanceof ThrottledError)) return false;
  return isPassing(error);
}

function isPassing(error: unknown): error is TollwayError {
  if (askedMs(error) > ASKED_MAX_MS) return false;
  if (error instanceof RefusedError) return error.isRetryable;
  return error instanceof TransportError || error instanceof UnavailableError;
}

/** Longer each time, and different for each client, or all would come back together. */
function delayMs(attempt: number, error: TollwayError): number {
  const longest = Math.min(DELAY_MAX_MS, FIRST_DELAY_MS * 2 ** attempt);
  const delay = longest / 2 + (Math.random() * longest) / 2;
  return Math.max(delay, askedMs(error));
}

function askedMs(error: unknown): number {
  const hasAsked = error instanceof RefusedError || error instanceof UnexpectedAnswerError;
  return hasAsked ? (error.retryAfterS ?? 0) * 1000 : 0;
}

/**
 * A signal that aborts with either of two, and what lets go of the second one, which may live as
 * long as the program. `AbortSignal.any` is not in Node 18.
 */
function eitherOf(
  timeout: AbortSignal,
  signal: AbortSignal | undefined,
): [AbortSignal, () => void] {
  if (signal === undefined) return [timeout, () => undefined];
  const both = new AbortController();
  const onAbort = (): void => both.abort((signal.aborted ? signal : timeout).reason);
  for (const each of [timeout, signal]) {
    if (each.aborted) onAbort();
    each.addEventListener("abort", onAbort, { once: true });
  }
  return [both.signal, () => signal.removeEventListener("abort", onAbort)];
}

/** Headers with those that were given, which replace ours however they are spelled. */
function withHeaders(
  ours: Record<string, string>,
  given: Record<string, string> = {},
): Record<string, string> {
  const names = new Set(Object.keys(given).map((name) => name.toLowerCase()));
  const kept = Object.entries(ours).filter(([name]) => !names.has(name.toLowerCase()));
  return { ...Object.fromEntries(kept), ...given };
}

/** The key among the headers that were given. */
function givenKey({ headers = {} }: CallOptions): string | undefined {
  return Object.entries(headers).find(([name]) => name.toLowerCase() === "idempotency-key")?.[1];
}

/** The key of a call, and the header with it, unless that was given. */
function keyOf(
  operation: Operation,
  options: CallOptions,
): { text: string | null; added: Record<string, string> } {
  // `fetch` would join two keys to one, which is new each time.
  const given = givenKey(options);
  if (given !== undefined) return { text: given, added: {} };
  if ((operation.repeats ?? "key") !== "key") return { text: null, added: {} };
  const text = options.idempotencyKey ?? (globalThis.crypto?.randomUUID?.() ?? randomKey());
  return { text, added: { "Idempotency-Key": text } };
}

/** For Node 18 and pages without TLS, which have no `crypto.randomUUID`. */
function randomKey(): string {
  const part = (): string => Math.random().toString(36).slice(2);
  return `${Date.now().toString(36)}-${part()}${part()}${part()}`;
}
