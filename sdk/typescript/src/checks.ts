/** Refuses at once what cannot be meant, before anything is sent. */

import type { Operation } from "./operation.js";

// A timer takes no longer time, 24 days, and whole numbers only.
const TIMEOUT_MAX_MS = 2 ** 31 - 1;

export function checkedBaseUrl(baseUrl: string): string {
  const given = String(baseUrl ?? "").trim();
  if (!/^https?:\/\//.test(given)) {
    throw new TypeError(
      "The address must begin with https://, such as https://gateway.example.",
    );
  }
  if (!isAddress(given)) {
    // `fetch` refuses a user in it, and ? or # would swallow the path.
    throw new TypeError(
      "Give the address as https://gateway.example, with a port or a path at most.",
    );
  }
  const address = given.replace(/\/+$/, "");
  if (/\/papi(\/tool)?$/.test(address)) {
    throw new TypeError("The address is the gateway's alone, without /papi/tool.");
  }
  return address;
}

function isAddress(text: string): boolean {
  // `new URL` would take the first part of a path for the host that is missing.
  if (!/^https?:\/\/[^/]/.test(text) || /[\s?#@\\]/.test(text)) return false;
  try {
    return new URL(text).hostname !== "";
  } catch {
    return false;
  }
}

export function checkedToken(token: string): string {
  const text = String(token ?? "").trim();
  if (!/^[!-~]+$/.test(text)) {
    throw new TypeError("The token is empty or not whole: copy all of it, without Bearer.");
  }
  return text;
}

/** What cannot be sent is no lost connection, and would fail again each time. */
export function checkHeaders(headers: Record<string, string>): void {
  for (const [name, value] of Object.entries(headers)) {
    if (!/^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/.test(name)) {
      throw new TypeError(`The header '${name}' cannot be sent: its name is not one.`);
    }
    if (!/^[\t -~]*$/.test(String(value))) {
      throw new TypeError(
        `The header '${name}' cannot be sent: its value must be a text of printable ASCII ` +
          "characters.",
      );
    }
  }
}

export function checkedTimeoutMs(timeoutMs: number): number {
  if (!(timeoutMs > 0)) {
    throw new TypeError("timeoutMs must be a number of milliseconds above 0.");
  }
  return Math.min(Math.ceil(timeoutMs), TIMEOUT_MAX_MS);
}

export function checkedRetries(retries: number): number {
  // With what is no number the first failure would be followed by no end of others.
  if (!(retries >= 0)) {
    throw new TypeError("retries must be a number, 0 or more.");
  }
  return retries;
}

/** TypeScript asks for them; in JavaScript they may have been forgotten. */
export function checkParameters(operation: Operation | undefined, values: unknown): void {
  if (operation === undefined) {
    throw new TypeError('Name a method that is paid for, such as "orders".');
  }
  if (typeof values !== "object" || values === null) {
    const needed = operation.needs === undefined ? "" : `: it needs ${operation.needs.join(", ")}`;
    throw new TypeError(
      `Give the parameters of ${operation.calledAs} as an object with their names${needed}.`,
    );
  }
}
