export * from "./account.js";
export type * as AccountTypes from "./account_types.js";
export * from "./client.js";
export type { CallOptions, ClientOptions, LoopOptions } from "./core.js";
export * from "./errors.js";
export type { Answer, Cost, Day, Meta, Moment, Whole } from "./json.js";
export { CODES, type ReasonName } from "./reasons.js";
export type * from "./types.js";
export { type VerifyOptions, verify, type WebhookEvent } from "./webhooks.js";
