/**
 * The answers of the operations, in the spellings of the wire.
 *
 * Made by `make sdk` from the gateway's descriptors: do not edit.
 */

/** One traffic source. */
export interface TrafficEntry {
  pageName: string;
  payByrCntIndex: number;
  crtByrCntIndex: number;
  uvIndex: number;
  payRateIndex: number;
}

/** One keyword that brought visitors. */
export interface KeywordEntry {
  pageName: string;
  payByrCntIndex: number;
  crtByrCntIndex: number;
  uvIndex: number;
  payRateIndex: number;
  pv: number;
}

/** One search term. */
export interface SearchEntry {
  pageName: string;
  uvIndex: number;
  payRateIndex: number;
  payByrCntIndex: number;
}

/** Five parallel lists, oldest day first. */
export interface DailySeries {
  paymentConversionRate: number[];
  date: string[];
  paymentAmount: number[];
  paidNum: number[];
  visitorNum: number[];
}

export interface DateData {
  data: DailySeries;
}

/** The payload. The last three are sent for today only. */
export interface ProductAnalysis {
  trafficSource: TrafficEntry[];
  keywords: KeywordEntry[];
  searchKeywords: SearchEntry[];
  dateData: DateData;
  itemId: string;
  itemName: string;
  pic: string;
  shopName: string;
  shop_name: string;
  itemCltByrCnt?: number | null;
  payItmCnt?: number | null;
  itemCartCnt?: number | null;
}

/** One claimed coupon; every field is a string. */
export interface CouponRecord {
  couponTime: string;
  money: string;
  minUseMoney: string;
  couponName: string;
  couponType: string;
  couponCode: string;
  beginTime: string;
  endTime: string;
  appKey: string;
  sid: string;
}

/** The payload. */
export interface CouponClaims {
  total: number;
  dataList: CouponRecord[];
  withholding_money: number;
}

/** One benefit. Times are milliseconds; amounts are cents, all as strings. */
export interface Benefit {
  entry_used_start_time: string;
  entry_used_end_time: string;
  entry_condition: string;
  entry_discount: string;
}

export interface Benefits {
  promotion_list: Benefit[];
}

export interface RecommendedItem {
  item_id: number | string;
  url: string;
}

export interface RecommendedItems {
  recommend_item_list: RecommendedItem[];
}

/** Both are empty where the benefit is not a paid coupon. */
export interface PaidCoupon {
  item_id: string;
  url: string;
}

export interface Extension {
  recommend_item_list: RecommendedItems;
  youjia_coupon_info: PaidCoupon;
  promotion_url: string;
}

/** One material record. */
export interface Material {
  promotion_type: string;
  condition_type: string;
  discount_type: string;
  total_count: number;
  remain_count: number;
  display_start_time: string;
  display_end_time: string;
  promotion_list: Benefits;
  promotion_extend: Extension;
  seller_id: string;
  nick: string;
  shop_title: string;
  shop_picture_url: string;
}

export interface Materials {
  map_data: Material[];
}

export interface Result {
  result_list: Materials;
}

/** The payload. */
export interface PromotionMaterial {
  withholding_money: number;
  affiliate_sc_optimus_promotion_response: Result;
}

/** The payload. `code` is the carrier's verdict: 1 issued, 0 refused, for which see errorMsg. */
export interface WaybillResult {
  orderSn: string | null;
  objectId: string;
  printData: string;
  waybillCode: string;
  parentWaybillCode: string | null;
  code: number;
  errorMsg: string | null;
  withholding_money: number;
}

/**
 * One order. Times are in milliseconds. `order_status` is 1 to be shipped, 2 shipped or 3
 * received; `remark_tag` 1 red, 2 yellow, 3 green, 4 blue or 5 purple.
 */
export interface OrderEntry {
  receiver_name: string;
  receiver_phone: string;
  province: string;
  city: string;
  town: string;
  receiver_address: string;
  address: string;
  order_sn: string;
  goods_name: string;
  goods_img: string;
  goods_spec: string;
  is_pre_sale: boolean;
  last_ship_time: number;
  confirm_time: number;
  remark: string;
  goods_count: number;
  pay_amount: number;
  order_status: number;
  remark_tag: string | null;
  remark_tag_name: string | null;
  withholding_money: number;
}

/** The payload. */
export interface OrderPage {
  content: OrderEntry[];
  page: number;
  pageSize: number;
  page_size: number;
  totalElements: number;
  total_elements: number;
  withholding_money: number;
}

/** An export that is paid. `cursor` is where orders_changed goes on from; null for claims. */
export interface Export {
  export_id: string;
  records: number;
  download_url: string;
  expires_at: number;
  cursor: string | null;
  withholding_money: number;
}

/**
 * What became of one waybill: code, reason and msg as a call of its own would have them.
 * `waybill` is null unless the code is 0; `authorize_url` is there if the code is 302.
 */
export interface WaybillBatchItem {
  order_sn: string | null;
  request_id: string;
  code: number;
  reason: string;
  msg: string;
  waybill: WaybillResult | null;
  authorize_url: string | null;
}

/** The results in the order of the request, and what all of them took together. */
export interface WaybillBatch {
  results: WaybillBatchItem[];
  withholding_money: number;
}

/** The orders in the order of the numbers asked for; `missing` are the numbers without one. */
export interface OrdersByNumber {
  content: OrderEntry[];
  missing: string[];
  withholding_money: number;
}

/** The orders changed after the cursor, in the order of their changes. */
export interface OrdersChanged {
  content: OrderEntry[];
  next_cursor: string;
  has_more: boolean;
  withholding_money: number;
}
