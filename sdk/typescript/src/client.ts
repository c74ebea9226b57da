/**
 * The client.
 *
 * Made by `make sdk` from the gateway's descriptors: do not edit.
 */

import { Account } from "./account.js";
import { type CallOptions, Core, type LoopOptions } from "./core.js";
import { CarrierRefusedError } from "./errors.js";
import type { Answer, Cost, Day, Moment, Whole } from "./json.js";
import type { Operation } from "./operation.js";
import { claimPages, materialPages, orderPages } from "./paging.js";
import type {
  CouponClaims,
  CouponRecord,
  Export,
  Material,
  OrderEntry,
  OrderPage,
  OrdersByNumber,
  OrdersChanged,
  ProductAnalysis,
  PromotionMaterial,
  WaybillBatch,
  WaybillResult,
} from "./types.js";

const PRODUCT_ANALYSIS: Operation = {
  name: "product_analysis",
  calledAs: "productAnalysis",
  method: "GET",
  path: "/papi/tool/accounts/goods-analysis",
  encoding: "query",
  needs: ["product_id", "query_date"],
};
const COUPON_CLAIMS: Operation = {
  name: "coupon_claims",
  calledAs: "couponClaims",
  method: "POST",
  path: "/papi/tool/waimai/partner_couponList",
  encoding: "form",
  needs: ["startTime", "endTime", "page", "limit", "sid", "type"],
};
const PROMOTION_MATERIAL: Operation = {
  name: "promotion_material",
  calledAs: "promotionMaterial",
  method: "POST",
  path: "/papi/tool/affiliate/promotion",
  encoding: "json",
  needs: ["adzone_id", "promotion_id", "site_id", "platform_user_id"],
};
const WAYBILLS: Operation = {
  name: "waybills",
  calledAs: "issueWaybill",
  method: "POST",
  path: "/papi/tool/erps/getwaybillfreewn",
  encoding: "json",
  needs: [
    "owner_id",
    "order_sn",
    "sender_name",
    "sender_mobile",
    "sender_province",
    "sender_city",
    "sender_town",
    "sender_detail",
    "wp_code",
    "waybill_type",
    "receiver_province",
    "receiver_city",
    "receiver_town",
    "receiver_address",
    "receiver_phone",
    "receiver_name",
  ],
};
const ORDERS: Operation = {
  name: "orders",
  calledAs: "orders",
  method: "POST",
  path: "/papi/tool/erps/paging-orders",
  encoding: "form",
  needs: ["owner_id"],
};
const COUPON_CLAIMS_EXPORT: Operation = {
  name: "coupon_claims",
  calledAs: "couponClaimsExport",
  method: "POST",
  path: "/papi/tool/waimai/partner_couponList/export",
  encoding: "json",
  needs: ["startTime", "endTime", "sid", "type"],
};
const WAYBILLS_BATCH: Operation = {
  name: "waybills",
  calledAs: "issueWaybills",
  method: "POST",
  path: "/papi/tool/erps/getwaybillfreewn/batch",
  encoding: "json",
  needs: ["waybills"],
};
const ORDERS_BY_NUMBER: Operation = {
  name: "orders",
  calledAs: "ordersByNumber",
  method: "POST",
  path: "/papi/tool/erps/paging-orders/by-number",
  encoding: "json",
  needs: ["owner_id", "order_sn"],
};
const ORDERS_CHANGED: Operation = {
  name: "orders",
  calledAs: "ordersChanged",
  method: "POST",
  path: "/papi/tool/erps/paging-orders/changed",
  encoding: "json",
  needs: ["owner_id"],
};
const ORDERS_EXPORT: Operation = {
  name: "orders",
  calledAs: "ordersExport",
  method: "POST",
  path: "/papi/tool/erps/paging-orders/export",
  encoding: "json",
  needs: ["owner_id", "start_time", "end_time"],
};
const COUPON_CLAIMS_EXPORT_FILE: Operation = {
  name: "coupon_claims",
  calledAs: "iterCouponClaimsExport",
  method: "GET",
  path: "/papi/tool/waimai/partner_couponList/export/file",
  encoding: "query",
  needs: ["export_id"],
};
const ORDERS_EXPORT_FILE: Operation = {
  name: "orders",
  calledAs: "iterOrdersExport",
  method: "GET",
  path: "/papi/tool/erps/paging-orders/export/file",
  encoding: "query",
  needs: ["owner_id", "export_id"],
};

export interface ProductAnalysisRequest {
  /** Product id; the service finds the shop from it. Send a text of 1 to 64 characters. */
  product_id: string;
  /** Date to query; today or earlier. Send a date as YYYY-MM-DD. */
  query_date: Day;
}

export interface CouponClaimsRequest {
  /**
   * Start of the claim window, seconds timestamp; included. Send a timestamp in seconds,
   * yyyy-MM-dd, yyyy-MM-dd HH:mm:ss, or ISO 8601 with an offset.
   */
  startTime: Moment;
  /**
   * End of the claim window, seconds timestamp; excluded. At most 7 days after startTime. Send a
   * timestamp in seconds, yyyy-MM-dd, yyyy-MM-dd HH:mm:ss, or ISO 8601 with an offset.
   */
  endTime: Moment;
  /** Page number, starting at 1. Send a whole number from 1 to 2147483647. */
  page: Whole;
  /** Rows per page, maximum 1000. Send a whole number from 1 to 1000. */
  limit: Whole;
  /** Channel user identifier. Send a text of 1 to 64 characters. */
  sid: string;
  /** 4 = food delivery; 6 = flash purchase. Send one of 4 (food delivery), 6 (flash purchase). */
  type: Whole;
}

export interface PromotionMaterialRequest {
  /**
   * Third segment of the promotion slot code, which has the form mm_x_x_x. Send a whole number
   * from 1 to 999999999999999999.
   */
  adzone_id: Whole;
  /**
   * Official benefit material id: 37104 paid coupon, 37116 large shop coupon, 62191 mall shop
   * coupon, 61809 stacked coupon. Send a whole number from 1 to 999999999999999999.
   */
  promotion_id: Whole;
  /**
   * Second segment of the promotion slot code. Send a whole number from 1 to 999999999999999999.
   */
  site_id: Whole;
  /** Id of the authorizing user. Send a whole number from 1 to 999999999999999999. */
  platform_user_id: Whole;
  /** Page size; default 10. Send a whole number from 1 to 10. */
  page_size?: Whole;
  /** Page number; the first page is 1, the default. Send a whole number from 1 to 2147483647. */
  page_num?: Whole;
}

export interface WaybillsRequest {
  /** Shop owner id. Send a text of 1 to 64 characters. */
  owner_id: string;
  /** Order number, as the caller defines it. Send a text of 8 to 64 characters. */
  order_sn: string;
  /** Sender name. Send a text of 1 to 39 characters. */
  sender_name: string;
  /** Sender mobile. Send a mobile number, or a fixed line with its area code. */
  sender_mobile: string;
  /** Sender province. Send a text of 1 to 64 characters. */
  sender_province: string;
  /** Sender city. Send a text of 1 to 64 characters. */
  sender_city: string;
  /** Sender district. Send a text of 1 to 64 characters. */
  sender_town: string;
  /**
   * Sender street address, without province, city and district. Send a text of 1 to 255
   * characters.
   */
  sender_detail: string;
  /** Carrier short code. Send a text of 1 to 32 characters. */
  wp_code: string;
  /**
   * Kind of label. Send one of 1 (single-part waybill, 76×130 mm), 2 (two-part waybill, 100×180
   * mm), 3 (other, 100×150 mm).
   */
  waybill_type: Whole;
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
  /** Shop association code; required when vvtype is 2. Send a text of 1 to 64 characters. */
  shopCode?: string;
  /** Edition; the enhanced one when left out. Send one of 1 (enhanced), 2 (normal). */
  vvtype?: Whole;
  /**
   * For a further parcel of an order: the waybill number of its first one. Send a text of 1 to
   * 64 characters.
   */
  parentWaybillCode?: string;
  /** What is in the parcel, for its label. Send a text of 1 to 100 characters. */
  goods_name?: string;
  /** The parcel's weight in grams, for its label. Send a whole number from 1 to 1000000. */
  weight_g?: Whole;
}

export interface OrdersRequest {
  /** Shop owner id. Send a text of 1 to 64 characters. */
  owner_id: string;
  /**
   * Edition; the enhanced one if left out. Filters are for the enhanced one only. Send one of 1
   * (enhanced), 2 (normal).
   */
  vvtype?: Whole;
  /**
   * Page number; the first page is 0, and the default. Send a whole number from 0 to 2147483647.
   */
  page?: Whole;
  /** Orders per page; 100 if left out. Send a whole number from 1 to 100. */
  pageSize?: Whole;
  /**
   * Only orders confirmed at this time or later; enhanced edition. Send seconds, milliseconds,
   * yyyy-MM-dd, yyyy-MM-dd HH:mm:ss, or ISO 8601 with an offset.
   */
  start_time?: Moment;
  /**
   * Only orders confirmed before this time; enhanced edition. Send seconds, milliseconds,
   * yyyy-MM-dd, yyyy-MM-dd HH:mm:ss, or ISO 8601 with an offset.
   */
  end_time?: Moment;
  /**
   * Only orders whose remark contains this; enhanced edition. Send a text of 1 to 200
   * characters.
   */
  remark?: string;
  /**
   * Only orders with this flag; enhanced edition. Send one of 1 (red), 2 (yellow), 3 (green), 4
   * (blue), 5 (purple).
   */
  remarkTag?: Whole;
  /** Only orders whose flag has this text; enhanced edition. Send a text of 1 to 64 characters. */
  remarkTagName?: string;
}

export interface CouponClaimsExportRequest {
  /**
   * Start of the claim window, seconds timestamp; included. Send a timestamp in seconds,
   * yyyy-MM-dd, yyyy-MM-dd HH:mm:ss, or ISO 8601 with an offset.
   */
  startTime: Moment;
  /**
   * End of the claim window; excluded. Any length. Send a timestamp in seconds, yyyy-MM-dd,
   * yyyy-MM-dd HH:mm:ss, or ISO 8601 with an offset.
   */
  endTime: Moment;
  /** Channel user identifier. Send a text of 1 to 64 characters. */
  sid: string;
  /** 4 = food delivery; 6 = flash purchase. Send one of 4 (food delivery), 6 (flash purchase). */
  type: Whole;
}

export interface WaybillsBatchRequest {
  /** The waybills, each with the parameters of waybill issuing. Send a list of 1 to 100 objects. */
  waybills: readonly WaybillsRequest[];
}

export interface OrdersByNumberRequest {
  /** Shop owner id. Send a text of 1 to 64 characters. */
  owner_id: string;
  /** The order numbers. Send a list of 1 to 100, each a text of 1 to 64 characters. */
  order_sn: readonly string[];
}

export interface OrdersChangedRequest {
  /** Shop owner id. Send a text of 1 to 64 characters. */
  owner_id: string;
  /**
   * The next_cursor of the answer before; all orders if left out. Send a text of 1 to 64
   * characters.
   */
  cursor?: string;
  /** Orders per page; 100 if left out. Send a whole number from 1 to 100. */
  pageSize?: Whole;
}

export interface OrdersExportRequest {
  /** Shop owner id. Send a text of 1 to 64 characters. */
  owner_id: string;
  /**
   * Only orders confirmed at this time or later. Send seconds, milliseconds, yyyy-MM-dd,
   * yyyy-MM-dd HH:mm:ss, or ISO 8601 with an offset.
   */
  start_time: Moment;
  /**
   * Only orders confirmed before this time. Send seconds, milliseconds, yyyy-MM-dd, yyyy-MM-dd
   * HH:mm:ss, or ISO 8601 with an offset.
   */
  end_time: Moment;
}

export interface CouponClaimsExportFileRequest {
  /** The export_id of the export. Send a text of 1 to 1000 characters. */
  export_id: string;
  /**
   * The couponCode of the last whole line that arrived; from the first if left out. Send a text
   * of 1 to 128 characters.
   */
  after?: string;
}

export interface OrdersExportFileRequest {
  /** Shop owner id. Send a text of 1 to 64 characters. */
  owner_id: string;
  /** The export_id of the export. Send a text of 1 to 1000 characters. */
  export_id: string;
  /**
   * The order_sn of the last whole line that arrived; from the first if left out. Send a text of
   * 1 to 64 characters.
   */
  after?: string;
}

export interface CouponClaimsFilter {
  /**
   * Start of the claim window, seconds timestamp; included. Send seconds, or a time with its
   * zone, such as 2026-11-13T08:00:00+08:00.
   */
  startTime: Moment;
  /**
   * End of the claim window, seconds timestamp; excluded. Send seconds, or a time with its zone,
   * such as 2026-11-13T08:00:00+08:00.
   */
  endTime: Moment;
  /** Channel user identifier. Send a text of 1 to 64 characters. */
  sid: string;
  /** 4 = food delivery; 6 = flash purchase. Send one of 4 (food delivery), 6 (flash purchase). */
  type: Whole;
}

export interface PromotionMaterialFilter {
  /**
   * Third segment of the promotion slot code, which has the form mm_x_x_x. Send a whole number
   * from 1 to 999999999999999999.
   */
  adzone_id: Whole;
  /**
   * Official benefit material id: 37104 paid coupon, 37116 large shop coupon, 62191 mall shop
   * coupon, 61809 stacked coupon. Send a whole number from 1 to 999999999999999999.
   */
  promotion_id: Whole;
  /**
   * Second segment of the promotion slot code. Send a whole number from 1 to 999999999999999999.
   */
  site_id: Whole;
  /** Id of the authorizing user. Send a whole number from 1 to 999999999999999999. */
  platform_user_id: Whole;
}

export interface OrdersFilter {
  /** Shop owner id. Send a text of 1 to 64 characters. */
  owner_id: string;
  /**
   * Only orders confirmed at this time or later; enhanced edition. Send seconds, milliseconds,
   * yyyy-MM-dd, yyyy-MM-dd HH:mm:ss, or ISO 8601 with an offset.
   */
  start_time?: Moment;
  /**
   * Only orders confirmed before this time; enhanced edition. Send seconds, milliseconds,
   * yyyy-MM-dd, yyyy-MM-dd HH:mm:ss, or ISO 8601 with an offset.
   */
  end_time?: Moment;
  /**
   * Only orders whose remark contains this; enhanced edition. Send a text of 1 to 200
   * characters.
   */
  remark?: string;
  /**
   * Only orders with this flag; enhanced edition. Send one of 1 (red), 2 (yellow), 3 (green), 4
   * (blue), 5 (purple).
   */
  remarkTag?: Whole;
  /** Only orders whose flag has this text; enhanced edition. Send a text of 1 to 64 characters. */
  remarkTagName?: string;
}

const PAID = {
  productAnalysis: PRODUCT_ANALYSIS,
  couponClaims: COUPON_CLAIMS,
  promotionMaterial: PROMOTION_MATERIAL,
  issueWaybill: WAYBILLS,
  orders: ORDERS,
  couponClaimsExport: COUPON_CLAIMS_EXPORT,
  issueWaybills: WAYBILLS_BATCH,
  ordersByNumber: ORDERS_BY_NUMBER,
  ordersChanged: ORDERS_CHANGED,
  ordersExport: ORDERS_EXPORT,
};

/** Calls the operations of a gateway. */
export class Client extends Core {
  /** The account API: free of charge, for live tokens. */
  readonly account = new Account((operation, values, options) =>
    this.call(operation, values, options),
  );

  /** What a call would cost now, without making it; throws what it would throw. */
  costOf(
    method: keyof typeof PAID,
    request: object,
    options: CallOptions = {},
  ): Promise<Answer<Cost>> {
    const headers = { ...options.headers, "X-Tollway-Dry-Run": "1" };
    return this.call<Cost>(PAID[method], request, { ...options, headers });
  }

  /** Product analysis. */
  productAnalysis(
    request: ProductAnalysisRequest,
    options?: CallOptions,
  ): Promise<Answer<ProductAnalysis>> {
    return this.call<ProductAnalysis>(PRODUCT_ANALYSIS, request, options);
  }

  /** Coupon-claim query. */
  couponClaims(
    request: CouponClaimsRequest,
    options?: CallOptions,
  ): Promise<Answer<CouponClaims>> {
    return this.call<CouponClaims>(COUPON_CLAIMS, request, options);
  }

  /** Affiliate promotion material. */
  promotionMaterial(
    request: PromotionMaterialRequest,
    options?: CallOptions,
  ): Promise<Answer<PromotionMaterial>> {
    return this.call<PromotionMaterial>(PROMOTION_MATERIAL, request, options);
  }

  /**
   * Waybill issuing. Throws CarrierRefusedError if the carrier issues none; nothing is charged
   * then.
   */
  async issueWaybill(
    request: WaybillsRequest,
    options?: CallOptions,
  ): Promise<Answer<WaybillResult>> {
    const result = await this.call<WaybillResult>(WAYBILLS, request, options);
    if (result.code !== 1) throw new CarrierRefusedError(result);
    return result;
  }

  /** Paged order query. */
  orders(
    request: OrdersRequest,
    options?: CallOptions,
  ): Promise<Answer<OrderPage>> {
    return this.call<OrderPage>(ORDERS, request, options);
  }

  /** Export of coupon claims. */
  couponClaimsExport(
    request: CouponClaimsExportRequest,
    options?: CallOptions,
  ): Promise<Answer<Export>> {
    return this.call<Export>(COUPON_CLAIMS_EXPORT, request, options);
  }

  /** Up to 100 waybills in one call. */
  issueWaybills(
    request: WaybillsBatchRequest,
    options?: CallOptions,
  ): Promise<Answer<WaybillBatch>> {
    return this.call<WaybillBatch>(WAYBILLS_BATCH, request, options);
  }

  /** Orders by their numbers. */
  ordersByNumber(
    request: OrdersByNumberRequest,
    options?: CallOptions,
  ): Promise<Answer<OrdersByNumber>> {
    return this.call<OrdersByNumber>(ORDERS_BY_NUMBER, request, options);
  }

  /** Orders changed since a cursor. */
  ordersChanged(
    request: OrdersChangedRequest,
    options?: CallOptions,
  ): Promise<Answer<OrdersChanged>> {
    return this.call<OrdersChanged>(ORDERS_CHANGED, request, options);
  }

  /** Export of orders. */
  ordersExport(
    request: OrdersExportRequest,
    options?: CallOptions,
  ): Promise<Answer<Export>> {
    return this.call<Export>(ORDERS_EXPORT, request, options);
  }

  /** Coupon-claim query: all records, each once, also while others arrive. */
  iterCouponClaims(
    filter: CouponClaimsFilter,
    options?: LoopOptions,
  ): AsyncGenerator<CouponRecord, void, undefined> {
    const ask = this.pages<CouponClaims>(
      COUPON_CLAIMS,
      "iterCouponClaims",
      filter,
      options,
    );
    return this.each(claimPages(ask, filter));
  }

  /** Affiliate promotion material: all records, each once, also while others arrive. */
  iterPromotionMaterial(
    filter: PromotionMaterialFilter,
    options?: LoopOptions,
  ): AsyncGenerator<Material, void, undefined> {
    const ask = this.pages<PromotionMaterial>(
      PROMOTION_MATERIAL,
      "iterPromotionMaterial",
      filter,
      options,
    );
    return this.each(materialPages(ask, filter));
  }

  /** Paged order query: all records, each once, also while others arrive. */
  iterOrders(
    filter: OrdersFilter,
    options?: LoopOptions,
  ): AsyncGenerator<OrderEntry, void, undefined> {
    const ask = this.pages<OrderPage>(
      ORDERS,
      "iterOrders",
      filter,
      options,
    );
    return this.each(orderPages(ask, filter));
  }

  /**
   * The file of an export of coupon claims: all its records. A file that breaks off is read on
   * after the last record that arrived.
   */
  iterCouponClaimsExport(
    request: CouponClaimsExportFileRequest,
    options?: CallOptions,
  ): AsyncGenerator<CouponRecord, void, undefined> {
    const pages = this.file<CouponRecord>(
      COUPON_CLAIMS_EXPORT_FILE,
      request,
      "couponCode",
      options,
    );
    return this.each(pages);
  }

  /**
   * The file of an export of orders: all its records. A file that breaks off is read on after
   * the last record that arrived.
   */
  iterOrdersExport(
    request: OrdersExportFileRequest,
    options?: CallOptions,
  ): AsyncGenerator<OrderEntry, void, undefined> {
    const pages = this.file<OrderEntry>(
      ORDERS_EXPORT_FILE,
      request,
      "order_sn",
      options,
    );
    return this.each(pages);
  }
}
