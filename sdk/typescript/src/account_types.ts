/**
 * The answers of the account API.
 *
 * Made by `make sdk` from the gateway's descriptors: do not edit.
 */

/** One balance: what is available, set aside, and charged in all. */
export interface BalanceLeft {
  /** credits, or calls: and the operation's name. */
  unit: string;
  /** What is available. */
  amount: number;
  /** What is set aside for calls whose outcome is not known yet. */
  held: number;
  /** What was charged in all. */
  posted: number;
}

/** An operation that the account may call. */
export interface PermittedOperation {
  /** The operation's name, as in the address of its page here. */
  operation: string;
  /** The balance that pays: credits, or calls: and the operation's name. */
  unit: string;
  /** What a successful call takes. */
  price: number;
  /** Whether it can be called now. */
  is_open: boolean;
}

/** The account, its balances, and what it may call at which price. */
export interface AccountState {
  /** Id of the account. */
  account_id: string;
  /** Its name. */
  name: string;
  /** The account's balances. */
  balances: BalanceLeft[];
  /** What the account may call, and at which price. */
  operations: PermittedOperation[];
}

/** How many calls of an operation a second the account has, and how many are left now. */
export interface RateLimit {
  /** The operation's name, as in the address of its page here. */
  operation: string;
  /** How many calls a second. */
  limit: number;
  /** How many calls are left of this second. */
  remaining: number;
}

/** The limits as the gateway that answers sees them. */
export interface LimitsLeft {
  /** One for each operation. */
  limits: RateLimit[];
}

/** The calls of one operation on one day: those charged, their amount, and all others. */
export interface UsageDay {
  /** The day, as YYYY-MM-DD. */
  date: string;
  /** The operation's name, as in the address of its page here. */
  operation: string;
  /** Calls that were charged. */
  charged_calls: number;
  /** What they took. */
  amount: number;
  /** Live calls that were not charged. */
  other_calls: number;
}

export interface Usage {
  /** One for each day and operation that had calls, the oldest first. */
  days: UsageDay[];
}

/** One entry. `amount` is what became available: a charge is negative. */
export interface LedgerEntry {
  /** Its number in this balance; without gaps. */
  number: number;
  /** top_up, correction, charge, hold or release. */
  kind: string;
  /** What became available by it; negative for a charge. */
  amount: number;
  /** What was available after it. */
  balance_after: number;
  /** When, in milliseconds since 1970. */
  at_ms: number;
  /**
   * The operation's name; of a refund, that of the call it refunds; null for other top-ups and
   * corrections.
   */
  operation: string | null;
  /**
   * The X-Request-Id of the call; of a refund, of the call it refunds; null for other top-ups
   * and corrections.
   */
  request_id: string | null;
  /** Id of the token; null unless a call made the entry. */
  token_id: string | null;
  /** What the operator noted; null if nothing. */
  note: string | null;
}

/** The newest first. `next_before` is null on the last page. */
export interface Entries {
  /** The entries, the newest first. */
  entries: LedgerEntry[];
  /** The before of the next page; null on the last one. */
  next_before: number | null;
}

/**
 * One call; its receipt says more about it. `more` counts further calls with the same operation
 * and reason in the same minute, which are not listed.
 */
export interface ListedCall {
  /** The X-Request-Id of the call. */
  request_id: string;
  /** When, in milliseconds since 1970. */
  at_ms: number;
  /** The operation's name, as in the address of its page here. */
  operation: string;
  /** Code of the answer; 0 means success. */
  code: number;
  /**
   * Name of the reason; SUCCESS if it was charged; of another success, why it was not, such as
   * REPLAYED.
   */
  reason: string;
  /** What it took; 0 unless it was charged. */
  amount: number;
  /** The balance that paid; null unless it was charged. */
  unit: string | null;
  /** Whether it was made with a test token. */
  is_test: boolean;
  /** Further calls with the same operation and reason in the same minute, which are not listed. */
  more?: number;
}

/** The newest first. `next_cursor` is null on the last page. */
export interface Calls {
  /** The calls, the newest first. */
  requests: ListedCall[];
  /** The cursor of the next page; null on the last one. */
  next_cursor: string | null;
}

/** The consent that a call was made under. */
export interface ReceiptConsent {
  /** shop or user. */
  owner_kind: string;
  /** Id of the shop or user. */
  owner_id: string;
  /** Id of the consent. */
  consent_id: string;
}

/** What was set aside for a call, until when, and whether it was captured or released. */
export interface ReceiptHold {
  /** Its id. */
  id: string;
  /** held, captured or released. */
  state: string;
  /** How much is or was set aside. */
  amount: number;
  /**
   * By when it should be settled, in milliseconds since 1970; later it stays, and is reported as
   * overdue.
   */
  deadline_at_ms: number;
  /** When it was settled, in milliseconds since 1970; null while it is open. */
  settled_at_ms: number | null;
}

/** What was given back of what a call took, and when. */
export interface ReceiptRefund {
  /** How much was given back. */
  amount: number;
  /** When, in milliseconds since 1970. */
  at_ms: number;
}

/** The waybill that a call asked for; a warning is about a part of an address. */
export interface ReceiptWaybill {
  /** The objectId of the waybill's answer. */
  object_id: string;
  /** Carrier short code. */
  wp_code: string;
  /** Waybill number; null if none was issued. */
  number: string | null;
  /** pending, issued, refused or cancelled. */
  state: string;
  /** Waybill number of the order's first parcel; null for a single parcel. */
  parent_number: string | null;
  /** Doubts about parts of the addresses. */
  warnings: string[];
}

/**
 * One call. `amount` is what it took, or what is set aside for it; the balances are those around
 * that. `code` and `reason` are what it was answered with, if that is known yet.
 */
export interface Receipt {
  /** The X-Request-Id of the call. */
  request_id: string;
  /** Id of the account. */
  account_id: string;
  /** The operation's name, as in the address of its page here. */
  operation: string;
  /** When, in milliseconds since 1970. */
  at_ms: number;
  /** charged, not_charged or held. */
  outcome: string;
  /** Code of its answer; null while it is not known. */
  code: number | null;
  /** Name of the reason; null while it is not known. */
  reason: string | null;
  /** Why it was charged or not, in a sentence. */
  why: string;
  /** What it took, or what is set aside for it. */
  amount?: number;
  /** The balance that paid; null if none did. */
  unit?: string | null;
  /** What was available before it; null if no balance changed. */
  balance_before?: number | null;
  /** What was available after it; null if no balance changed. */
  balance_after?: number | null;
  /** Id of the token that made the call; null if it is not known. */
  token_id?: string | null;
  /** The call whose answer was given again; null if none was. */
  replay_of?: string | null;
  /** The X-Request-Id that the request had; null without one. */
  client_request_id?: string | null;
  /** The consent it was made under; null if it needs none. */
  consent?: ReceiptConsent | null;
  /** What was set aside for it; null if nothing was. */
  hold?: ReceiptHold | null;
  /** What was given back of it since; null if nothing was. */
  refund?: ReceiptRefund | null;
  /** The waybill that it asked for; null if none. */
  waybill?: ReceiptWaybill | null;
  /** Whether it was made with a test token. */
  is_test?: boolean;
  /** shop or user; null if it named none. */
  owner_kind?: string | null;
  /** Whose data it asked for, also if that was refused; null if it named none. */
  owner_id?: string | null;
  /** What its answer said of a wrong parameter; null if none was, or if it is not known. */
  msg?: string | null;
}

/** What a token is limited to; None where it is not. */
export interface TokenLimits {
  /** The operations it is for; null for all. */
  operations?: string[] | null;
  /** The networks it may be used from; null for all. */
  networks?: string[] | null;
  /** How many credits it may spend in a day; null for any number. */
  credits_per_day?: number | null;
  /** How many calls may succeed in a day; null for any number. */
  calls_per_day?: number | null;
}

/** A token as the operator sees it: never the token itself, only how it starts. */
export interface Token {
  /** Its id. */
  id: string;
  /** Id of the account. */
  account_id: string;
  /** live or test. */
  kind: string;
  /** What it is for. */
  label: string;
  /** How it starts. */
  start: string;
  /** When it was issued, in seconds since 1970. */
  issued_at_s: number;
  /** When it expires, in seconds since 1970; null for never. */
  expires_at_s: number | null;
  /** When it was revoked, in seconds since 1970; null if it was not. */
  revoked_at_s: number | null;
  /** When it was last used, in seconds since 1970; null if never. */
  last_used_at_s: number | null;
  /** The OAuth client that obtained it; null if none did. */
  client_id: string | null;
  /** What it is limited to. */
  limits?: TokenLimits;
}

/** The oldest first, without their texts. Of over 1,000, some that ended are left out. */
export interface Tokens {
  /** The tokens, the oldest first, without their texts. */
  tokens: Token[];
}

/** A token just issued; the only time its text is seen. */
export interface IssuedToken {
  /** The token, shown only here. */
  text: string;
  /** What is known of it. */
  token: Token;
}

/** One consent; `holds` says whether it can be used now. */
export interface ConsentEntry {
  /** Its id. */
  id: string;
  /** shop or user. */
  owner_kind: string;
  /** Id of the shop or user. */
  owner_id: string;
  /** What it is for: waybills, orders or promotion. */
  scope: string;
  /** When it was given, in seconds since 1970. */
  granted_at_s: number;
  /** When it expires, in seconds since 1970; null for never. */
  expires_at_s: number | null;
  /** When it was revoked, in seconds since 1970; null if it was not. */
  revoked_at_s: number | null;
  /** Whether it can be used now. */
  holds: boolean;
}

/** In the order of their ids. `next_after` is null on the last page. */
export interface Consents {
  /** The consents, in the order of their ids. */
  consents: ConsentEntry[];
  /** The after of the next page; null on the last one. */
  next_after: string | null;
}

/** Where the owner can approve, and until when, in seconds since 1970. */
export interface Link {
  /** Where the owner can approve. */
  authorize_url: string;
  /** Until when the link works, in seconds since 1970. */
  expires_at: number;
}

/**
 * A waybill. `state` is pending, issued, refused or cancelled. Its receiver can be changed until
 * `printed_at_s`, when its label was first written.
 */
export interface WaybillState {
  /** The objectId of the waybill's answer. */
  object_id: string;
  /** Id of the shop or user. */
  owner_id: string;
  /** Order number. */
  order_sn: string;
  /** Carrier short code. */
  wp_code: string;
  /** pending, issued, refused or cancelled. */
  state: string;
  /** Waybill number; null if none was issued. */
  waybill_code: string | null;
  /** What it costs, in credits. */
  price: number;
  /** When it was asked for, in seconds since 1970. */
  asked_at_s: number;
  /** When it was issued, in seconds since 1970; null if it was not. */
  issued_at_s: number | null;
  /** When it was cancelled, in seconds since 1970; null if it was not. */
  cancelled_at_s: number | null;
  /**
   * When its label was first written, in seconds since 1970; until then, null, its receiver can
   * be changed.
   */
  printed_at_s: number | null;
}

/** The label as a file; `content` is base64. */
export interface WaybillLabel {
  /** Waybill number. */
  waybill_code: string;
  /** The file's media type, such as application/pdf. */
  content_type: string;
  /** The file, as base64. */
  content: string;
}

/** The labels in one file; `content` is base64. */
export interface WaybillLabels {
  /** Waybill numbers, in the order of the pages. */
  waybill_codes: string[];
  /** The file's media type, such as application/pdf. */
  content_type: string;
  /** The file, as base64. */
  content: string;
}

/** An endpoint, as it is shown. */
export interface WebhookEndpoint {
  /** Its id. */
  id: string;
  /** Where events are sent. */
  url: string;
  /** When it was added, in seconds since 1970. */
  made_at_s: number;
  /** When it got a new secret, in seconds since 1970; null if never. */
  rotated_at_s: number | null;
  /** When it was ended, in seconds since 1970; null if it was not. */
  ended_at_s: number | null;
}

/** The oldest first. */
export interface Webhooks {
  /** The webhooks, the oldest first; ended ones too. */
  webhooks: WebhookEndpoint[];
}

/** An endpoint with the secret that was made for it just now. */
export interface EndpointSecret {
  /** The webhook. */
  endpoint: WebhookEndpoint;
  /** The secret, shown only here: it starts with whsec_. */
  secret: string;
}

/** The new secret: the only time it is shown. The old one signs too, for a day. */
export interface WebhookSecret {
  /** The new secret, shown only here. The old one signs too, for a day. */
  secret: string;
}

export interface Done {
  /** True; false for a test event if there is no webhook. */
  done: boolean;
}

/** One event to one endpoint. `status` is the HTTP status of the last answer. */
export interface Delivery {
  /** Its number, for the next page. */
  number: number;
  /** Id of the event, which is its webhook-id header. */
  event_id: string;
  /** Type of the event, such as balance.low. */
  type: string;
  /** What the event is about; order holds within a subject. */
  subject: string;
  /** When, in milliseconds since 1970. */
  at_ms: number;
  /** waiting, delivered or failed. */
  state: string;
  /** How often it was tried. */
  attempts: number;
  /** When it is tried next, in milliseconds since 1970. */
  next_at_ms: number;
  /** HTTP status of the last answer; null if there was none. */
  status: number | null;
  /** When it was settled, in milliseconds since 1970; null while it is open. */
  settled_at_ms: number | null;
}

/** The newest first. `next_before` is null on the last page. */
export interface Deliveries {
  /** The deliveries, the newest first. */
  deliveries: Delivery[];
  /** The before of the next page; null on the last one. */
  next_before: number | null;
}

export interface BalanceAlert {
  /** credits, or calls: and the operation's name. */
  unit: string;
  /** Below which amount an event is sent. */
  below: number;
}

export interface Alerts {
  /** The alerts. */
  alerts: BalanceAlert[];
}
