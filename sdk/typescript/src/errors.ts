/**
 * What a call can fail with.
 *
 * TollwayError
 * ├── TransportError            no answer arrived; the gateway may have done what was asked
 * ├── UnexpectedAnswerError     an answer that is none of a gateway's, for example from a proxy
 * │   └── UnavailableError      a proxy could not reach the gateway, which may be restarting
 * ├── RefusedError              an envelope with another code than 0
 * │   ├── ParameterError        100: the request is wrong
 * │   ├── TimedOutError         101
 * │   ├── OwnerUnknownError     103: no such shop or user
 * │   ├── SystemFaultError      200
 * │   ├── RetryLaterError       202
 * │   │   └── ThrottledError    202: too many calls in a second
 * │   ├── OperationClosedError  203
 * │   ├── PermissionMissingError  204: the account or the token may not do this
 * │   ├── UsedUpError           204: too few calls or credits left, or the token's of a day
 * │   ├── NotAuthorizedError    302: the owner has not approved; has the link to ask for it
 * │   ├── CredentialInvalidError  401
 * │   └── NotFoundError         404: the account has no such receipt, waybill, token or webhook
 * │       └── UnknownPathError  404: the gateway has no such path, or not for this method
 * ├── CarrierRefusedError       the call succeeded, but the carrier issued no waybill
 * └── SignatureError            a webhook that the gateway did not send, or sent long ago
 */

import type { Answer } from "./json.js";
import type { ReasonName } from "./reasons.js";
import type { WaybillResult } from "./types.js";

/** An answer of the gateway around its payload. */
export interface Envelope {
  code: number;
  msg: string;
  msec: number;
  time: number;
  data: Record<string, unknown>;
}

/** The base of all errors of this package. */
export class TollwayError extends Error {
  /**
   * That of the call, if it had one: with it the call can be repeated within a day, and is not
   * charged again if it was charged.
   */
  idempotencyKey: string | null = null;

  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = new.target.name;
  }
}

/** No answer arrived, also after the retries. */
export class TransportError extends TollwayError {}

/** An answer that is not an envelope. */
export class UnexpectedAnswerError extends TollwayError {
  readonly retryAfterS: number | null;

  constructor(
    readonly status: number,
    readonly body: string,
    headers = new Headers(),
  ) {
    super(unexpected(status, body, headers.get("location")));
    this.retryAfterS = retryAfterOf(headers);
  }
}

/**
 * A proxy in front of the gateway has no answer of it, also after the retries: the same call can
 * succeed later. `status` is 429, 502, 503 or 504. As after a `TransportError`, the gateway may
 * have done what was asked.
 */
export class UnavailableError extends UnexpectedAnswerError {}

/** The gateway answered with a code other than 0. */
export class RefusedError extends TollwayError {
  readonly code: number;
  readonly data: Record<string, unknown>;

  constructor(
    readonly envelope: Envelope,
    /** The name of the reason, or null if the gateway sent none. */
    readonly reason: ReasonName | null,
    readonly requestId: string,
    readonly status: number,
    readonly retryAfterS: number | null,
  ) {
    const named = reason === null ? envelope.code : `${envelope.code} ${reason}`;
    super(`${named}: ${envelope.msg} (request ${requestId})`);
    this.code = envelope.code;
    this.data = envelope.data;
  }

  /** Whether the same request can succeed later without a change. */
  get isRetryable(): boolean {
    return [101, 200, 202].includes(this.code);
  }
}

export class ParameterError extends RefusedError {}
export class TimedOutError extends RefusedError {}
export class OwnerUnknownError extends RefusedError {}
export class SystemFaultError extends RefusedError {}
export class RetryLaterError extends RefusedError {}
export class ThrottledError extends RetryLaterError {}
export class OperationClosedError extends RefusedError {}
export class PermissionMissingError extends RefusedError {}
export class UsedUpError extends RefusedError {}
export class CredentialInvalidError extends RefusedError {}
export class NotFoundError extends RefusedError {}
export class UnknownPathError extends NotFoundError {}

export class NotAuthorizedError extends RefusedError {
  /** What the shop or user opens to approve. */
  get authorizeUrl(): string {
    return String(this.data["authorize_url"]);
  }

  /** Until when the link can be opened, in seconds since 1970. */
  get expiresAt(): number {
    return Number(this.data["expires_at"]);
  }
}

/** The carrier issued no waybill, and nothing was charged; `result` is the whole answer. */
export class CarrierRefusedError extends TollwayError {
  constructor(readonly result: Answer<WaybillResult>) {
    const said = result.errorMsg ?? "The carrier refused, and gave no reason.";
    super(`${said} (request ${result.meta.requestId})`);
    this.idempotencyKey = result.meta.idempotencyKey;
  }
}

/** The signature of a webhook is missing, wrong or too old. */
export class SignatureError extends TollwayError {}

const BY_CODE: Record<number, typeof RefusedError> = {
  100: ParameterError,
  101: TimedOutError,
  103: OwnerUnknownError,
  200: SystemFaultError,
  202: RetryLaterError,
  203: OperationClosedError,
  204: PermissionMissingError,
  302: NotAuthorizedError,
  401: CredentialInvalidError,
  404: NotFoundError,
};
const BY_REASON: Record<string, typeof RefusedError> = {
  THROTTLED: ThrottledError,
  CALLS_USED_UP: UsedUpError,
  CREDITS_USED_UP: UsedUpError,
  TOKEN_DAY_USED_UP: UsedUpError,
  PATH_UNKNOWN: UnknownPathError,
  METHOD_WRONG: UnknownPathError,
};

/** The error of an answer. */
export function refused(envelope: Envelope, response: Response): RefusedError {
  const reason = response.headers.get("x-tollway-reason") as ReasonName | null;
  const kind = BY_REASON[reason ?? ""] ?? BY_CODE[envelope.code] ?? RefusedError;
  return new kind(
    envelope,
    reason,
    response.headers.get("x-request-id") ?? "",
    response.status,
    retryAfterOf(response.headers),
  );
}

/** What proxies answer in place of a gateway that they cannot reach. */
const UNAVAILABLE = [429, 502, 503, 504];

/** The error of an answer that is not an envelope. */
export function notAnswered(response: Response, body: string): UnexpectedAnswerError {
  const isAway = UNAVAILABLE.includes(response.status);
  const kind = isAway ? UnavailableError : UnexpectedAnswerError;
  return new kind(response.status, body, response.headers);
}

function unexpected(status: number, body: string, location: string | null): string {
  if (UNAVAILABLE.includes(status)) {
    return (
      `HTTP status ${status} of a proxy in front of the gateway, which is not available now: ` +
      "try again later."
    );
  }
  const found =
    location === null ? body.slice(0, 200) : `it redirects to ${location}, so use that address`;
  return `HTTP status ${status}, and not the answer of a gateway: ${found}`;
}

/** How long to wait: proxies ask for seconds, or for a moment by their own clock. */
function retryAfterOf(headers: Headers): number | null {
  const asked = headers.get("retry-after") ?? "";
  if (/^\d+$/.test(asked)) return Number(asked);
  const until = momentOf(asked);
  if (until === null) return null;
  return Math.max(0, (until - (momentOf(headers.get("date") ?? "") ?? Date.now())) / 1000);
}

function momentOf(text: string): number | null {
  const found = / GMT$/.test(text) ? Date.parse(text) : NaN;
  return Number.isNaN(found) ? null : found;
}
