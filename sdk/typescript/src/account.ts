/**
 * The account API.
 *
 * Made by `make sdk` from the gateway's descriptors: do not edit.
 */

import type {
  AccountState,
  Alerts,
  Calls,
  Consents,
  Deliveries,
  Done,
  EndpointSecret,
  Entries,
  IssuedToken,
  LimitsLeft,
  Link,
  Receipt,
  Token,
  Tokens,
  Usage,
  WaybillLabel,
  WaybillLabels,
  WaybillState,
  WebhookSecret,
  Webhooks,
} from "./account_types.js";
import type { CallOptions } from "./core.js";
import type { Answer, Day, Whole } from "./json.js";
import type { Operation } from "./operation.js";

type Call = <P>(
  operation: Operation,
  values: object,
  options?: CallOptions,
) => Promise<Answer<P>>;

const ACCOUNT_BALANCE: Operation = {
  name: "account_balance",
  calledAs: "account.balance",
  method: "GET",
  path: "/account/v1/balance",
  encoding: "query",
  repeats: "always",
};
const ACCOUNT_LIMITS: Operation = {
  name: "account_limits",
  calledAs: "account.limits",
  method: "GET",
  path: "/account/v1/limits",
  encoding: "query",
  repeats: "always",
};
const ACCOUNT_USAGE: Operation = {
  name: "account_usage",
  calledAs: "account.usage",
  method: "GET",
  path: "/account/v1/usage",
  encoding: "query",
  repeats: "always",
  needs: ["from_date", "to_date"],
};
const ACCOUNT_ENTRIES: Operation = {
  name: "account_entries",
  calledAs: "account.entries",
  method: "GET",
  path: "/account/v1/entries",
  encoding: "query",
  repeats: "always",
};
const ACCOUNT_REQUESTS: Operation = {
  name: "account_requests",
  calledAs: "account.requests",
  method: "GET",
  path: "/account/v1/requests",
  encoding: "query",
  repeats: "always",
};
const ACCOUNT_RECEIPT: Operation = {
  name: "account_receipt",
  calledAs: "account.receipt",
  method: "GET",
  path: "/account/v1/receipt",
  encoding: "query",
  repeats: "always",
  needs: ["request_id"],
};
const ACCOUNT_TOKENS: Operation = {
  name: "account_tokens",
  calledAs: "account.tokens",
  method: "GET",
  path: "/account/v1/tokens",
  encoding: "query",
  repeats: "always",
};
const ACCOUNT_TOKENS_MAKE: Operation = {
  name: "account_tokens_make",
  calledAs: "account.tokensMake",
  method: "POST",
  path: "/account/v1/tokens/make",
  encoding: "json",
  repeats: "unsent",
  needs: ["label"],
};
const ACCOUNT_TOKENS_ROTATE: Operation = {
  name: "account_tokens_rotate",
  calledAs: "account.tokensRotate",
  method: "POST",
  path: "/account/v1/tokens/rotate",
  encoding: "json",
  repeats: "unsent",
  needs: ["token_id"],
};
const ACCOUNT_TOKENS_REVOKE: Operation = {
  name: "account_tokens_revoke",
  calledAs: "account.tokensRevoke",
  method: "POST",
  path: "/account/v1/tokens/revoke",
  encoding: "json",
  repeats: "unsent",
  needs: ["token_id"],
};
const ACCOUNT_CONSENTS: Operation = {
  name: "account_consents",
  calledAs: "account.consents",
  method: "GET",
  path: "/account/v1/consents",
  encoding: "query",
  repeats: "always",
};
const ACCOUNT_CONSENTS_LINK: Operation = {
  name: "account_consents_link",
  calledAs: "account.consentsLink",
  method: "POST",
  path: "/account/v1/consents/link",
  encoding: "json",
  repeats: "unsent",
  needs: ["scope", "owner_id"],
};
const ACCOUNT_WAYBILLS: Operation = {
  name: "account_waybills",
  calledAs: "account.waybills",
  method: "GET",
  path: "/account/v1/waybills",
  encoding: "query",
  repeats: "always",
  needs: ["object_id"],
};
const ACCOUNT_WAYBILLS_LABEL: Operation = {
  name: "account_waybills_label",
  calledAs: "account.waybillsLabel",
  method: "GET",
  path: "/account/v1/waybills/label",
  encoding: "query",
  repeats: "always",
  needs: ["object_id"],
};
const ACCOUNT_WAYBILLS_LABELS: Operation = {
  name: "account_waybills_labels",
  calledAs: "account.waybillsLabels",
  method: "POST",
  path: "/account/v1/waybills/labels",
  encoding: "json",
  repeats: "unsent",
  needs: ["object_ids"],
};
const ACCOUNT_WAYBILLS_CANCEL: Operation = {
  name: "account_waybills_cancel",
  calledAs: "account.waybillsCancel",
  method: "POST",
  path: "/account/v1/waybills/cancel",
  encoding: "json",
  repeats: "unsent",
  needs: ["object_id"],
};
const ACCOUNT_WAYBILLS_RECEIVER: Operation = {
  name: "account_waybills_receiver",
  calledAs: "account.waybillsReceiver",
  method: "POST",
  path: "/account/v1/waybills/receiver",
  encoding: "json",
  repeats: "unsent",
  needs: [
    "object_id",
    "receiver_province",
    "receiver_city",
    "receiver_town",
    "receiver_address",
    "receiver_phone",
    "receiver_name",
  ],
};
const ACCOUNT_WEBHOOKS: Operation = {
  name: "account_webhooks",
  calledAs: "account.webhooks",
  method: "GET",
  path: "/account/v1/webhooks",
  encoding: "query",
  repeats: "always",
};
const ACCOUNT_WEBHOOKS_MAKE: Operation = {
  name: "account_webhooks_make",
  calledAs: "account.webhooksMake",
  method: "POST",
  path: "/account/v1/webhooks/make",
  encoding: "json",
  repeats: "unsent",
  needs: ["url"],
};
const ACCOUNT_WEBHOOKS_ROTATE: Operation = {
  name: "account_webhooks_rotate",
  calledAs: "account.webhooksRotate",
  method: "POST",
  path: "/account/v1/webhooks/rotate",
  encoding: "json",
  repeats: "unsent",
  needs: ["webhook_id"],
};
const ACCOUNT_WEBHOOKS_END: Operation = {
  name: "account_webhooks_end",
  calledAs: "account.webhooksEnd",
  method: "POST",
  path: "/account/v1/webhooks/end",
  encoding: "json",
  repeats: "unsent",
  needs: ["webhook_id"],
};
const ACCOUNT_WEBHOOKS_TEST: Operation = {
  name: "account_webhooks_test",
  calledAs: "account.webhooksTest",
  method: "POST",
  path: "/account/v1/webhooks/test",
  encoding: "json",
  repeats: "unsent",
};
const ACCOUNT_WEBHOOKS_DELIVERIES: Operation = {
  name: "account_webhooks_deliveries",
  calledAs: "account.webhooksDeliveries",
  method: "GET",
  path: "/account/v1/webhooks/deliveries",
  encoding: "query",
  repeats: "always",
  needs: ["webhook_id"],
};
const ACCOUNT_WEBHOOKS_REDELIVER: Operation = {
  name: "account_webhooks_redeliver",
  calledAs: "account.webhooksRedeliver",
  method: "POST",
  path: "/account/v1/webhooks/redeliver",
  encoding: "json",
  repeats: "unsent",
  needs: ["webhook_id", "event_id"],
};
const ACCOUNT_ALERTS: Operation = {
  name: "account_alerts",
  calledAs: "account.alerts",
  method: "GET",
  path: "/account/v1/alerts",
  encoding: "query",
  repeats: "always",
};
const ACCOUNT_ALERTS_SET: Operation = {
  name: "account_alerts_set",
  calledAs: "account.alertsSet",
  method: "POST",
  path: "/account/v1/alerts/set",
  encoding: "json",
  repeats: "unsent",
  needs: ["unit", "below"],
};

export interface AccountUsageRequest {
  /** The first day. Send a date as YYYY-MM-DD. */
  from_date: Day;
  /** The last day; at most 31 days in all. Send a date as YYYY-MM-DD. */
  to_date: Day;
}

export interface AccountEntriesRequest {
  /** The balance: credits, or calls: and an operation. Send a text of 1 to 128 characters. */
  unit?: string;
  /**
   * Only entries with a smaller number; for the next page. Send a whole number from 1 to
   * 4611686018427387904.
   */
  before?: Whole;
  /** Entries per page; 50 if left out. Send a whole number from 1 to 100. */
  limit?: Whole;
}

export interface AccountRequestsRequest {
  /** The next_cursor of the page before. Send a text of 1 to 2000 characters. */
  cursor?: string;
  /** Calls per page; 50 if left out. Send a whole number from 1 to 100. */
  limit?: Whole;
}

export interface AccountReceiptRequest {
  /** The X-Request-Id of the call. Send a text of 1 to 64 characters. */
  request_id: string;
}

export interface AccountTokensMakeRequest {
  /** What the token is for. Send a text of 1 to 100 characters. */
  label: string;
  /** live, or test for the sandbox; live if left out. Send one of live, test. */
  kind?: string;
  /**
   * After how many days it expires. Never later than the token that makes it. Send a whole
   * number from 1 to 3650.
   */
  expires_days?: Whole;
  /**
   * The operations it is for, with commas between them; account for this API. Send some of
   * product_analysis, coupon_claims, promotion_material, waybills, orders, account, with commas.
   */
  operations?: string;
  /**
   * The addresses or networks it may be used from, with commas between them. Send at most 50
   * addresses like 203.0.113.7 or networks like 203.0.113.0/24.
   */
  addresses?: string;
  /** How many credits it may spend in a day. Send a whole number from 0 to 1000000000000000. */
  credits_per_day?: Whole;
  /** How many calls may succeed in a day. Send a whole number from 0 to 1000000000000000. */
  calls_per_day?: Whole;
}

export interface AccountTokensRotateRequest {
  /** The id of the token. Send a text of 1 to 64 characters. */
  token_id: string;
  /**
   * For how many seconds the old token still works; a day if left out. Send a whole number from
   * 0 to 2592000.
   */
  overlap_s?: Whole;
}

export interface AccountTokensRevokeRequest {
  /** The id of the token. Send a text of 1 to 64 characters. */
  token_id: string;
}

export interface AccountConsentsRequest {
  /** Only consents after this one; for the next page. Send the next_after of the page before. */
  after?: string;
  /** Consents per page; 100 if left out. Send a whole number from 1 to 1000. */
  limit?: Whole;
}

export interface AccountConsentsLinkRequest {
  /** What the consent is to be for. Send one of promotion, waybills, orders. */
  scope: string;
  /** The shop, or the user. Send a text of 1 to 64 characters. */
  owner_id: string;
}

export interface AccountWaybillsRequest {
  /** The objectId of the waybill's answer. Send a text of 1 to 64 characters. */
  object_id: string;
}

export interface AccountWaybillsLabelRequest {
  /** The objectId of the waybill's answer. Send a text of 1 to 64 characters. */
  object_id: string;
  /** The kind of file; pdf if left out. Send one of pdf, png, zpl. */
  format?: string;
}

export interface AccountWaybillsLabelsRequest {
  /**
   * The objectIds of the waybills' answers; a page for each, in this order. Send a list of 1 to
   * 100, each a text of 1 to 64 characters.
   */
  object_ids: readonly string[];
}

export interface AccountWaybillsCancelRequest {
  /** The objectId of the waybill's answer. Send a text of 1 to 64 characters. */
  object_id: string;
}

export interface AccountWaybillsReceiverRequest {
  /** The objectId of the waybill's answer. Send a text of 1 to 64 characters. */
  object_id: string;
  /** Receiver province. Send a text of 1 to 64 characters. */
  receiver_province: string;
  /** Receiver city. Send a text of 1 to 64 characters. */
  receiver_city: string;
  /** Receiver district. Send a text of 1 to 64 characters. */
  receiver_town: string;
  /** Receiver street address. Send a text of 1 to 255 characters. */
  receiver_address: string;
  /** Receiver phone. Send a mobile number, or a fixed line with its area code. */
  receiver_phone: string;
  /** Receiver name. Send a text of 1 to 39 characters. */
  receiver_name: string;
}

export interface AccountWebhooksMakeRequest {
  /** Where events are sent: an https address. Send a text of 1 to 500 characters. */
  url: string;
}

export interface AccountWebhooksRotateRequest {
  /** The id of the webhook. Send a text of 1 to 64 characters. */
  webhook_id: string;
}

export interface AccountWebhooksEndRequest {
  /** The id of the webhook. Send a text of 1 to 64 characters. */
  webhook_id: string;
}

export interface AccountWebhooksDeliveriesRequest {
  /** The id of the webhook. Send a text of 1 to 64 characters. */
  webhook_id: string;
  /**
   * Only deliveries with a smaller number; for the next page. Send a whole number from 1 to
   * 4611686018427387904.
   */
  before?: Whole;
  /** Deliveries per page; 50 if left out. Send a whole number from 1 to 100. */
  limit?: Whole;
}

export interface AccountWebhooksRedeliverRequest {
  /** The id of the webhook. Send a text of 1 to 64 characters. */
  webhook_id: string;
  /** The id of the event. Send a text of 1 to 100 characters. */
  event_id: string;
}

export interface AccountAlertsSetRequest {
  /** The balance: credits, or calls: and an operation. Send a text of 1 to 128 characters. */
  unit: string;
  /**
   * Below which amount to notify; 0 ends the alert. Send a whole number from 0 to
   * 1000000000000000.
   */
  below: Whole;
}

/** What a caller can know and change of its account. */
export class Account {
  constructor(private readonly call: Call) {}

  /** Balances, prices and permissions. */
  balance(
    options?: CallOptions,
  ): Promise<Answer<AccountState>> {
    return this.call<AccountState>(ACCOUNT_BALANCE, {}, options);
  }

  /** What is left of the limits now. */
  limits(
    options?: CallOptions,
  ): Promise<Answer<LimitsLeft>> {
    return this.call<LimitsLeft>(ACCOUNT_LIMITS, {}, options);
  }

  /** Use by day and operation. */
  usage(
    request: AccountUsageRequest,
    options?: CallOptions,
  ): Promise<Answer<Usage>> {
    return this.call<Usage>(ACCOUNT_USAGE, request, options);
  }

  /** The ledger of one balance. */
  entries(
    request: AccountEntriesRequest = {},
    options?: CallOptions,
  ): Promise<Answer<Entries>> {
    return this.call<Entries>(ACCOUNT_ENTRIES, request, options);
  }

  /** The calls of the account. */
  requests(
    request: AccountRequestsRequest = {},
    options?: CallOptions,
  ): Promise<Answer<Calls>> {
    return this.call<Calls>(ACCOUNT_REQUESTS, request, options);
  }

  /** The receipt of a call. */
  receipt(
    request: AccountReceiptRequest,
    options?: CallOptions,
  ): Promise<Answer<Receipt>> {
    return this.call<Receipt>(ACCOUNT_RECEIPT, request, options);
  }

  /** The tokens of the account. */
  tokens(
    options?: CallOptions,
  ): Promise<Answer<Tokens>> {
    return this.call<Tokens>(ACCOUNT_TOKENS, {}, options);
  }

  /** Make a token. */
  tokensMake(
    request: AccountTokensMakeRequest,
    options?: CallOptions,
  ): Promise<Answer<IssuedToken>> {
    return this.call<IssuedToken>(ACCOUNT_TOKENS_MAKE, request, options);
  }

  /** Replace a token by a new one. */
  tokensRotate(
    request: AccountTokensRotateRequest,
    options?: CallOptions,
  ): Promise<Answer<IssuedToken>> {
    return this.call<IssuedToken>(ACCOUNT_TOKENS_ROTATE, request, options);
  }

  /** Revoke a token. */
  tokensRevoke(
    request: AccountTokensRevokeRequest,
    options?: CallOptions,
  ): Promise<Answer<Token>> {
    return this.call<Token>(ACCOUNT_TOKENS_REVOKE, request, options);
  }

  /** The consents of shops and users. */
  consents(
    request: AccountConsentsRequest = {},
    options?: CallOptions,
  ): Promise<Answer<Consents>> {
    return this.call<Consents>(ACCOUNT_CONSENTS, request, options);
  }

  /** A link that asks an owner for consent. */
  consentsLink(
    request: AccountConsentsLinkRequest,
    options?: CallOptions,
  ): Promise<Answer<Link>> {
    return this.call<Link>(ACCOUNT_CONSENTS_LINK, request, options);
  }

  /** The state of a waybill. */
  waybills(
    request: AccountWaybillsRequest,
    options?: CallOptions,
  ): Promise<Answer<WaybillState>> {
    return this.call<WaybillState>(ACCOUNT_WAYBILLS, request, options);
  }

  /** The label of a waybill as a file. */
  waybillsLabel(
    request: AccountWaybillsLabelRequest,
    options?: CallOptions,
  ): Promise<Answer<WaybillLabel>> {
    return this.call<WaybillLabel>(ACCOUNT_WAYBILLS_LABEL, request, options);
  }

  /** One PDF with the labels of many waybills. */
  waybillsLabels(
    request: AccountWaybillsLabelsRequest,
    options?: CallOptions,
  ): Promise<Answer<WaybillLabels>> {
    return this.call<WaybillLabels>(ACCOUNT_WAYBILLS_LABELS, request, options);
  }

  /** Cancel a waybill. */
  waybillsCancel(
    request: AccountWaybillsCancelRequest,
    options?: CallOptions,
  ): Promise<Answer<WaybillState>> {
    return this.call<WaybillState>(ACCOUNT_WAYBILLS_CANCEL, request, options);
  }

  /** Change the receiver of a waybill that is not printed yet. */
  waybillsReceiver(
    request: AccountWaybillsReceiverRequest,
    options?: CallOptions,
  ): Promise<Answer<WaybillState>> {
    return this.call<WaybillState>(ACCOUNT_WAYBILLS_RECEIVER, request, options);
  }

  /** The webhooks of the account. */
  webhooks(
    options?: CallOptions,
  ): Promise<Answer<Webhooks>> {
    return this.call<Webhooks>(ACCOUNT_WEBHOOKS, {}, options);
  }

  /** Add a webhook. */
  webhooksMake(
    request: AccountWebhooksMakeRequest,
    options?: CallOptions,
  ): Promise<Answer<EndpointSecret>> {
    return this.call<EndpointSecret>(ACCOUNT_WEBHOOKS_MAKE, request, options);
  }

  /** A new secret for a webhook. */
  webhooksRotate(
    request: AccountWebhooksRotateRequest,
    options?: CallOptions,
  ): Promise<Answer<WebhookSecret>> {
    return this.call<WebhookSecret>(ACCOUNT_WEBHOOKS_ROTATE, request, options);
  }

  /** End a webhook. */
  webhooksEnd(
    request: AccountWebhooksEndRequest,
    options?: CallOptions,
  ): Promise<Answer<Done>> {
    return this.call<Done>(ACCOUNT_WEBHOOKS_END, request, options);
  }

  /** Send a test event. */
  webhooksTest(
    options?: CallOptions,
  ): Promise<Answer<Done>> {
    return this.call<Done>(ACCOUNT_WEBHOOKS_TEST, {}, options);
  }

  /** The log of a webhook. */
  webhooksDeliveries(
    request: AccountWebhooksDeliveriesRequest,
    options?: CallOptions,
  ): Promise<Answer<Deliveries>> {
    return this.call<Deliveries>(ACCOUNT_WEBHOOKS_DELIVERIES, request, options);
  }

  /** Deliver an event again. */
  webhooksRedeliver(
    request: AccountWebhooksRedeliverRequest,
    options?: CallOptions,
  ): Promise<Answer<Done>> {
    return this.call<Done>(ACCOUNT_WEBHOOKS_REDELIVER, request, options);
  }

  /** The alerts of low balances. */
  alerts(
    options?: CallOptions,
  ): Promise<Answer<Alerts>> {
    return this.call<Alerts>(ACCOUNT_ALERTS, {}, options);
  }

  /** Set an alert of a low balance. */
  alertsSet(
    request: AccountAlertsSetRequest,
    options?: CallOptions,
  ): Promise<Answer<Alerts>> {
    return this.call<Alerts>(ACCOUNT_ALERTS_SET, request, options);
  }
}
