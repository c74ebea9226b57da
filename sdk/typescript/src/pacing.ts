/** Keeps a client under the gateway's limit, so that calls wait here and are not refused there. */

// The gateway counts arrivals, and two calls may be closer together there than when they left.
const WINDOW_MS = 1050;
const DEFAULT_LIMIT = 10;

/**
 * Reserves a moment for each call: never more than the limit in any window, by operation.
 *
 * The limit is the gateway's, as its last answer said. Calls of other processes of the account
 * are not seen here; if they use up the limit, the answer is 202 and the call is repeated.
 */
export class Pacer {
  private readonly limits = new Map<string, number>();
  private readonly reserved = new Map<string, number[]>();
  /** Moments that were given back. */
  private readonly free = new Map<string, number[]>();

  constructor(private readonly nowMs: () => number = () => performance.now()) {}

  /** How many milliseconds to wait before the next call, and its moment. */
  reserve(name: string): { ms: number; at: number } {
    const now = this.nowMs();
    // Those that are past are of no use: others may be taken close to them.
    const [earliest, ...free] = (this.free.get(name) ?? []).filter((at) => at >= now);
    if (earliest !== undefined) {
      this.free.set(name, free);
      return { ms: earliest - now, at: earliest };
    }
    const limit = this.limits.get(name) ?? DEFAULT_LIMIT;
    const reserved = this.reserved.get(name) ?? [];
    this.reserved.set(name, reserved);
    reserved.splice(0, Math.max(0, reserved.length - limit));
    const oldest = reserved.length === limit ? reserved.shift() : undefined;
    const at = oldest === undefined ? now : Math.max(now, oldest + WINDOW_MS);
    reserved.push(at);
    return { ms: at - now, at };
  }

  /** Of a call that is given up while it waits: the next one gets its moment. */
  giveBack(name: string, at: number): void {
    this.free.set(name, [...(this.free.get(name) ?? []), at].sort((a, b) => a - b));
  }

  /** Takes the limit from a RateLimit-Policy header, such as `"orders";q=10;w=1`. */
  learn(name: string, policy: string): void {
    const found = /;\s*q=(\d+)/.exec(policy);
    if (found && Number(found[1]) > 0) this.limits.set(name, Number(found[1]));
  }
}

/** Waits, unless the signal aborts. */
export function wait(ms: number, signal: AbortSignal | undefined): Promise<void> {
  signal?.throwIfAborted();
  if (ms <= 0) return Promise.resolve();
  return new Promise((resolve, reject) => {
    const onAbort = (): void => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", onAbort);
      resolve();
    }, ms);
    signal?.addEventListener("abort", onAbort, { once: true });
  });
}
