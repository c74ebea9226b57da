/** Where an operation is, and how its parameters travel. */
export interface Operation {
  name: string;
  /** What a caller calls. */
  calledAs: string;
  method: string;
  path: string;
  encoding: "query" | "form" | "json";
  /**
   * When the same request may be sent again: "key" with its Idempotency-Key, which is the default,
   * "always", or "unsent" if the gateway has certainly done nothing.
   */
  repeats?: "key" | "always" | "unsent";
  /** The parameters that a call must have. */
  needs?: string[] | undefined;
}
