/**
 * The answers of the operations, in the spellings of the wire.
 *
 * Made by `make sdk` from the gateway's descriptors: do not edit.
 */

/** One traffic source. */
export interface TrafficEntry {
  /** The source, keyword or search term. */
  pageName: string;
  /** Buyers who paid. */
  payByrCntIndex: number;
  /** Pieces ordered. */
  crtByrCntIndex: number;
  /** Visitors. */
  uvIndex: number;
  /** Payment conversion rate in percent, two decimals; at least 0.01. */
  payRateIndex: number;
}

/** One keyword that brought visitors. */
export interface KeywordEntry {
  /** The source, keyword or search term. */
  pageName: string;
  /** Buyers who paid. */
  payByrCntIndex: number;
  /** Pieces ordered. */
  crtByrCntIndex: number;
  /** Visitors. */
  uvIndex: number;
  /** Payment conversion rate in percent, two decimals; at least 0.01. */
  payRateIndex: number;
  /** Page views. */
  pv: number;
}

/** One search term. */
export interface SearchEntry {
  /** The source, keyword or search term. */
  pageName: string;
  /** Visitors. */
  uvIndex: number;
  /** Payment conversion rate in percent, two decimals; at least 0.01. */
  payRateIndex: number;
  /** Buyers who paid. */
  payByrCntIndex: number;
}

/** Five parallel lists, oldest day first. */
export interface DailySeries {
  /** Payment conversion rate of the day in percent; 0 without data. */
  paymentConversionRate: number[];
  /** The day, as MM-DD. */
  date: string[];
  /** Amount paid on the day, in yuan. */
  paymentAmount: number[];
  /** Buyers who paid on the day. */
  paidNum: number[];
  /** Visitors of the day. */
  visitorNum: number[];
}

export interface DateData {
  /** Five lists of 30 entries each, the oldest day first; the last is the queried date. */
  data: DailySeries;
}

/** The payload. The last three are sent for today only. */
export interface ProductAnalysis {
  /** Where the visitors came from. */
  trafficSource: TrafficEntry[];
  /** The keywords that brought visitors. */
  keywords: KeywordEntry[];
  /** The search terms. */
  searchKeywords: SearchEntry[];
  /** The figures by day. */
  dateData: DateData;
  /** Product id. */
  itemId: string;
  /** Product name. */
  itemName: string;
  /** Address of its picture. */
  pic: string;
  /** Name of the shop. The same as shop_name. */
  shopName: string;
  /** Name of the shop. The same as shopName. */
  shop_name: string;
  /** Collections; sent for today only. */
  itemCltByrCnt?: number | null;
  /** Pieces purchased; sent for today only. */
  payItmCnt?: number | null;
  /** Pieces added to cart; sent for today only. */
  itemCartCnt?: number | null;
}

/** One claimed coupon; every field is a string. */
export interface CouponRecord {
  /** When it was claimed, as yyyy-MM-dd HH:mm:ss. */
  couponTime: string;
  /** Its discount, in yuan. */
  money: string;
  /** The least amount that it can be used for, in yuan. */
  minUseMoney: string;
  /** Its name. */
  couponName: string;
  /** Its type; WAIMAI_COUPON for food delivery. */
  couponType: string;
  /** Its id; no two are alike. */
  couponCode: string;
  /** From when it is valid, in seconds since 1970. */
  beginTime: string;
  /** Until when it is valid, in seconds since 1970. */
  endTime: string;
  /** Key of the medium that the channel belongs to. */
  appKey: string;
  /** Channel user identifier. */
  sid: string;
}

/** The payload. */
export interface CouponClaims {
  /** How many coupons were claimed in the window, on all pages. */
  total: number;
  /** The claims of this page, the newest first. */
  dataList: CouponRecord[];
  /** Credits that this call took; 0 for a repetition. */
  withholding_money: number;
}

/** One benefit. Times are milliseconds; amounts are cents, all as strings. */
export interface Benefit {
  /** From when it can be used, in milliseconds since 1970. */
  entry_used_start_time: string;
  /** Until when it can be used, in milliseconds since 1970. */
  entry_used_end_time: string;
  /** The threshold, in fen; in pieces if condition_type is 2. */
  entry_condition: string;
  /** The amount off, in fen; a percentage if discount_type is 2. */
  entry_discount: string;
}

export interface Benefits {
  /** The benefits. */
  promotion_list: Benefit[];
}

export interface RecommendedItem {
  /** Id of the item. */
  item_id: number | string;
  /** Link of the item, with your promotion slot. */
  url: string;
}

export interface RecommendedItems {
  /** The recommended items. */
  recommend_item_list: RecommendedItem[];
}

/** Both are empty where the benefit is not a paid coupon. */
export interface PaidCoupon {
  /** Id of the item to buy. */
  item_id: string;
  /** Link of the item to buy. */
  url: string;
}

export interface Extension {
  /** A wrapper of the recommended items. */
  recommend_item_list: RecommendedItems;
  /** The paid coupon; its fields are empty if it is none. */
  youjia_coupon_info: PaidCoupon;
  /** Link of the benefit, with your promotion slot. */
  promotion_url: string;
}

/** One material record. */
export interface Material {
  /** 1 paid coupon, 2 public coupon, 3 affiliate-channel coupon, 4 category coupon. */
  promotion_type: string;
  /** The threshold: 1 an amount, 2 a number of pieces. */
  condition_type: string;
  /** The discount: 1 an amount off, 2 a percentage. */
  discount_type: string;
  /** Its stock at first. */
  total_count: number;
  /** What is left of the stock. */
  remain_count: number;
  /** From when it is displayed, in milliseconds since 1970. */
  display_start_time: string;
  /** Until when it is displayed, in milliseconds since 1970. */
  display_end_time: string;
  /** A wrapper of the benefits. */
  promotion_list: Benefits;
  /** Items and links. */
  promotion_extend: Extension;
  /** Seller id of the shop. */
  seller_id: string;
  /** Nickname of the seller. */
  nick: string;
  /** Name of the shop. */
  shop_title: string;
  /** Address of the shop's logo. */
  shop_picture_url: string;
}

export interface Materials {
  /** The material of this page; [] if there is none. */
  map_data: Material[];
}

export interface Result {
  /** A wrapper of the list. */
  result_list: Materials;
}

/** The payload. */
export interface PromotionMaterial {
  /** Credits that this call took; 0 for a repetition. */
  withholding_money: number;
  /** The result. */
  affiliate_sc_optimus_promotion_response: Result;
}

/** The payload. `code` is the carrier's verdict: 1 issued, 0 refused, for which see errorMsg. */
export interface WaybillResult {
  /** Order number of the request. */
  orderSn: string | null;
  /** Task id, unique: the other calls for a waybill take it as object_id. */
  objectId: string;
  /**
   * What the label says, as a JSON text with its template and signature, or as the carrier
   * writes it.
   */
  printData: string;
  /** Waybill number; empty if the carrier refused. */
  waybillCode: string;
  /** Waybill number of the order's first parcel; null for a single parcel. */
  parentWaybillCode: string | null;
  /** The carrier's answer: 1 issued, 0 refused. */
  code: number;
  /** Why the carrier refused; null if it issued. */
  errorMsg: string | null;
  /** Credits that this call took; 0 if refused or repeated. */
  withholding_money: number;
}

/**
 * One order. Times are in milliseconds. `order_status` is 1 to be shipped, 2 shipped or 3
 * received; `remark_tag` 1 red, 2 yellow, 3 green, 4 blue or 5 purple.
 */
export interface OrderEntry {
  /** Receiver name, masked. */
  receiver_name: string;
  /** Receiver phone, masked. */
  receiver_phone: string;
  /** Receiver province. */
  province: string;
  /** Receiver city. */
  city: string;
  /** Receiver district. */
  town: string;
  /** Receiver street address, its numbers masked. The same as address. */
  receiver_address: string;
  /** Receiver street address, its numbers masked. The same as receiver_address. */
  address: string;
  /** Order number. */
  order_sn: string;
  /** Name of the goods. */
  goods_name: string;
  /** Address of their picture. */
  goods_img: string;
  /** Which variant of the goods. */
  goods_spec: string;
  /** Whether the goods are sold before they are in stock. */
  is_pre_sale: boolean;
  /** Until when to ship, in milliseconds since 1970; 0 if it is not known. */
  last_ship_time: number;
  /** When the order was confirmed, in milliseconds since 1970. */
  confirm_time: number;
  /** Remark, its phone numbers masked; may be empty. */
  remark: string;
  /** How many pieces. */
  goods_count: number;
  /** Amount paid, in yuan. */
  pay_amount: number;
  /** 1 to be shipped, 2 shipped, 3 received. */
  order_status: number;
  /** Flag: 1 red, 2 yellow, 3 green, 4 blue, 5 purple; null without one. */
  remark_tag: string | null;
  /** Text of the flag; null without one. */
  remark_tag_name: string | null;
  /** Credits of the whole call, the same in each order; 0 in the file of an export. */
  withholding_money: number;
}

/** The payload. */
export interface OrderPage {
  /** The orders of this page, the newest first. */
  content: OrderEntry[];
  /** Page number; the first page is 0. */
  page: number;
  /** Orders per page, 1 to 100. The same as page_size. */
  pageSize: number;
  /** Orders per page, 1 to 100. The same as pageSize. */
  page_size: number;
  /** How many orders there are on all pages; exact. The same as total_elements. */
  totalElements: number;
  /** How many orders there are on all pages; exact. The same as totalElements. */
  total_elements: number;
  /** Credits that this call took; 0 for a repetition. */
  withholding_money: number;
}

/** An export that is paid. `cursor` is where orders_changed goes on from; null for claims. */
export interface Export {
  /** Its id, for the call that reads the file. */
  export_id: string;
  /** How many records the file has; the price is taken for each started 100. */
  records: number;
  /** Address of the file; send the same Authorization header. */
  download_url: string;
  /** Until when the file can be read, in seconds since 1970: a day. */
  expires_at: number;
  /** The cursor from which orders_changed goes on after this export; null for claims. */
  cursor: string | null;
  /** Credits that this call took; 0 for a repetition. */
  withholding_money: number;
}

/**
 * What became of one waybill: code, reason and msg as a call of its own would have them.
 * `waybill` is null unless the code is 0; `authorize_url` and `expires_at` are there if it is
 * 302.
 */
export interface WaybillBatchItem {
  /** Order number of the request; null if it has none. */
  order_sn: string | null;
  /** Id of this waybill's own call, and of its receipt. */
  request_id: string;
  /** Code of the answer; 0 means success. */
  code: number;
  /** Name of the reason; SUCCESS with code 0. */
  reason: string;
  /** What happened, in a sentence. */
  msg: string;
  /** As of waybill issuing; null unless the code is 0. */
  waybill: WaybillResult | null;
  /** With code 302: where the owner can approve; null otherwise. */
  authorize_url: string | null;
  /** With code 302: until when the link works, in seconds since 1970; null otherwise. */
  expires_at: number | null;
}

/** The results in the order of the request, and what all of them took together. */
export interface WaybillBatch {
  /** A result for each waybill, in the order of the request. */
  results: WaybillBatchItem[];
  /** Credits that all of them took together. */
  withholding_money: number;
}

/** The orders in the order of the numbers asked for; `missing` are the numbers without one. */
export interface OrdersByNumber {
  /** The orders, in the order of the numbers. */
  content: OrderEntry[];
  /** The numbers that no order of the shop has. */
  missing: string[];
  /** Credits that this call took; 0 for a repetition. */
  withholding_money: number;
}

/** The orders changed after the cursor, in the order of their changes. */
export interface OrdersChanged {
  /** The orders that changed, in the order of their changes. */
  content: OrderEntry[];
  /** The cursor of the next call; it does not expire. */
  next_cursor: string;
  /** Whether more orders have changed by now. */
  has_more: boolean;
  /** Credits that this call took; 0 for a repetition. */
  withholding_money: number;
}
