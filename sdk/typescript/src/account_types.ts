/**
 * The answers of the account API.
 *
 * Made by `make sdk` from the gateway's descriptors: do not edit.
 */

/** One balance: what is available, set aside, and charged in all. */
export interface BalanceLeft {
  unit: string;
  amount: number;
  held: number;
  posted: number;
}

/** An operation that the account may call. */
export interface PermittedOperation {
  operation: string;
  unit: string;
  price: number;
  is_open: boolean;
}

/** The account, its balances, and what it may call at which price. */
export interface AccountState {
  account_id: string;
  name: string;
  balances: BalanceLeft[];
  operations: PermittedOperation[];
}

/** How many calls of an operation a second the account has, and how many are left now. */
export interface RateLimit {
  operation: string;
  limit: number;
  remaining: number;
}

/** The limits as the gateway that answers sees them. */
export interface LimitsLeft {
  limits: RateLimit[];
}

/** The calls of one operation on one day: those charged, their amount, and all others. */
export interface UsageDay {
  date: string;
  operation: string;
  charged_calls: number;
  amount: number;
  other_calls: number;
}

export interface Usage {
  days: UsageDay[];
}

/** One entry. `amount` is what became available: a charge is negative. */
export interface LedgerEntry {
  number: number;
  kind: string;
  amount: number;
  balance_after: number;
  at_ms: number;
  operation: string | null;
  request_id: string | null;
  token_id: string | null;
  note: string | null;
}

/** The newest first. `next_before` is null on the last page. */
export interface Entries {
  entries: LedgerEntry[];
  next_before: number | null;
}

/**
 * One call; its receipt says more about it. `more` counts further calls with the same
 * operation and reason in the same minute, which are not listed.
 */
export interface ListedCall {
  request_id: string;
  at_ms: number;
  operation: string;
  code: number;
  reason: string;
  amount: number;
  unit: string | null;
  is_test: boolean;
  more?: number;
}

/** The newest first. `next_cursor` is null on the last page. */
export interface Calls {
  requests: ListedCall[];
  next_cursor: string | null;
}

/** The consent that a call was made under. */
export interface ReceiptConsent {
  owner_kind: string;
  owner_id: string;
  consent_id: string;
}

/** What was set aside for a call, until when, and whether it was captured or released. */
export interface ReceiptHold {
  id: string;
  state: string;
  amount: number;
  deadline_at_ms: number;
  settled_at_ms: number | null;
}

/** The waybill that a call asked for; a warning is about a part of an address. */
export interface ReceiptWaybill {
  object_id: string;
  wp_code: string;
  number: string | null;
  state: string;
  parent_number: string | null;
  warnings: string[];
}

/**
 * One call. `amount` is what it took, or what is set aside for it; the balances are those
 * around that. `code` and `reason` are what it was answered with, if that is known yet.
 */
export interface Receipt {
  request_id: string;
  account_id: string;
  operation: string;
  at_ms: number;
  outcome: string;
  code: number | null;
  reason: string | null;
  why: string;
  amount?: number;
  unit?: string | null;
  balance_before?: number | null;
  balance_after?: number | null;
  token_id?: string | null;
  replay_of?: string | null;
  client_request_id?: string | null;
  consent?: ReceiptConsent | null;
  hold?: ReceiptHold | null;
  waybill?: ReceiptWaybill | null;
  is_test?: boolean;
}

/** What a token is limited to; None where it is not. */
export interface TokenLimits {
  operations?: string[] | null;
  networks?: string[] | null;
  credits_per_day?: number | null;
  calls_per_day?: number | null;
}

/** A token as the operator sees it: never the token itself, only how it starts. */
export interface Token {
  id: string;
  account_id: string;
  kind: string;
  label: string;
  start: string;
  issued_at_s: number;
  expires_at_s: number | null;
  revoked_at_s: number | null;
  last_used_at_s: number | null;
  client_id: string | null;
  limits?: TokenLimits;
}

/** The oldest first, without their texts. */
export interface Tokens {
  tokens: Token[];
}

/** A token just issued; the only time its text is seen. */
export interface IssuedToken {
  text: string;
  token: Token;
}

/** One consent; `holds` says whether it can be used now. */
export interface ConsentEntry {
  id: string;
  owner_kind: string;
  owner_id: string;
  scope: string;
  granted_at_s: number;
  expires_at_s: number | null;
  revoked_at_s: number | null;
  holds: boolean;
}

/** In the order of their ids. `next_after` is null on the last page. */
export interface Consents {
  consents: ConsentEntry[];
  next_after: string | null;
}

/** Where the owner can approve, and until when, in seconds since 1970. */
export interface Link {
  authorize_url: string;
  expires_at: number;
}

/**
 * A waybill. `state` is pending, issued, refused or cancelled. Its receiver can be changed
 * until `printed_at_s`, when its label was first written.
 */
export interface WaybillState {
  object_id: string;
  owner_id: string;
  order_sn: string;
  wp_code: string;
  state: string;
  waybill_code: string | null;
  price: number;
  asked_at_s: number;
  issued_at_s: number | null;
  cancelled_at_s: number | null;
  printed_at_s: number | null;
}

/** The label as a file; `content` is base64. */
export interface WaybillLabel {
  waybill_code: string;
  content_type: string;
  content: string;
}

/** The labels in one file; `content` is base64. */
export interface WaybillLabels {
  waybill_codes: string[];
  content_type: string;
  content: string;
}

/** An endpoint, as it is shown. */
export interface WebhookEndpoint {
  id: string;
  url: string;
  made_at_s: number;
  rotated_at_s: number | null;
  ended_at_s: number | null;
}

/** The oldest first. */
export interface Webhooks {
  webhooks: WebhookEndpoint[];
}

/** An endpoint with the secret that was made for it just now. */
export interface EndpointSecret {
  endpoint: WebhookEndpoint;
  secret: string;
}

/** The new secret: the only time it is shown. The old one signs too, for a day. */
export interface WebhookSecret {
  secret: string;
}

export interface Done {
  done: boolean;
}

/** One event to one endpoint. `status` is the HTTP status of the last answer. */
export interface Delivery {
  number: number;
  event_id: string;
  type: string;
  subject: string;
  at_ms: number;
  state: string;
  attempts: number;
  next_at_ms: number;
  status: number | null;
  settled_at_ms: number | null;
}

/** The newest first. `next_before` is null on the last page. */
export interface Deliveries {
  deliveries: Delivery[];
  next_before: number | null;
}

export interface BalanceAlert {
  unit: string;
  below: number;
}

export interface Alerts {
  alerts: BalanceAlert[];
}
