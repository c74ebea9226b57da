/**
 * Checks that a webhook is from the gateway, by the rules of Standard Webhooks.
 *
 * const event = await verify(body, request.headers, ["whsec_…"]);
 */

import { SignatureError } from "./errors.js";

const SECRET_START = "whsec_";

/** A webhook. One that is delivered twice has the same id both times. */
export interface WebhookEvent {
  id: string;
  type: string;
  timestamp: string;
  data: unknown;
}

export interface VerifyOptions {
  /** How far the clocks of the two machines may be apart; 300 seconds if left out. */
  toleranceS?: number;
  nowS?: number;
}

type HeadersLike = Headers | Record<string, string | string[] | undefined>;

/**
 * The event of a webhook; throws SignatureError if it is not one of the gateway.
 *
 * Give the body exactly as it arrived, and both secrets while one replaces the other.
 */
export async function verify(
  body: string | Uint8Array,
  headers: HeadersLike,
  secrets: string | string[],
  options: VerifyOptions = {},
): Promise<WebhookEvent> {
  const header = headerReader(headers);
  const id = header("webhook-id");
  const moment = header("webhook-timestamp");
  if (!id || !/^\d{1,15}$/.test(moment)) {
    throw new SignatureError(
      "The headers webhook-id and webhook-timestamp are missing or invalid.",
    );
  }
  const nowS = options.nowS ?? Date.now() / 1000;
  if (Math.abs(nowS - Number(moment)) > (options.toleranceS ?? 300)) {
    throw new SignatureError("The webhook is too old, or the clock of this machine is wrong.");
  }
  const text = typeof body === "string" ? body : new TextDecoder().decode(body);
  const signed = joined(`${id}.${moment}.`, body);
  const given = header("webhook-signature").split(" ");
  const subtle = await webCrypto();
  for (const secret of [secrets].flat()) {
    const key = await subtle.importKey("raw", keyOf(secret), HMAC, false, ["verify"]);
    for (const each of given) {
      const signature = each.startsWith("v1,") ? fromBase64(each.slice(3)) : null;
      // The platform compares in constant time.
      if (signature && (await subtle.verify("HMAC", key, signature, signed))) {
        return eventOf(id, text);
      }
    }
  }
  throw new SignatureError("No signature of the webhook fits the secret.");
}

const HMAC = { name: "HMAC", hash: "SHA-256" };

function headerReader(headers: HeadersLike): (name: string) => string {
  // Not by its class: a framework may bring a `Headers` of its own.
  if (isReader(headers)) return (name) => headers.get(name) ?? "";
  const lower = new Map(
    Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]),
  );
  return (name) => [lower.get(name)].flat().join(" ");
}

function isReader(headers: HeadersLike): headers is Headers {
  return typeof headers.get === "function";
}

function joined(start: string, body: string | Uint8Array): Uint8Array<ArrayBuffer> {
  const encoder = new TextEncoder();
  const head = encoder.encode(start);
  const tail = typeof body === "string" ? encoder.encode(body) : body;
  const all = new Uint8Array(head.length + tail.length);
  all.set(head);
  all.set(tail, head.length);
  return all;
}

function keyOf(secret: string): Uint8Array<ArrayBuffer> {
  const isOne = secret.startsWith(SECRET_START);
  const key = isOne ? fromBase64(secret.slice(SECRET_START.length)) : null;
  if (!key) throw new TypeError(`A secret is ${SECRET_START} and base64.`);
  return key;
}

function fromBase64(text: string): Uint8Array<ArrayBuffer> | null {
  try {
    return Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
  } catch {
    return null;
  }
}

async function webCrypto(): Promise<SubtleCrypto> {
  if (globalThis.crypto?.subtle) return globalThis.crypto.subtle;
  // Node 18 has it in a module. The name is not a literal, so that bundlers leave it alone.
  const name = "node:crypto";
  return ((await import(name)) as { webcrypto: Crypto }).webcrypto.subtle;
}

function eventOf(id: string, text: string): WebhookEvent {
  const content = JSON.parse(text) as Partial<WebhookEvent>;
  return {
    id,
    type: content.type ?? "",
    timestamp: content.timestamp ?? "",
    data: content.data,
  };
}
