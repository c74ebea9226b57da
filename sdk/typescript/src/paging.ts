/**
 * Loops over all records of a list, each once, while others arrive.
 *
 * A list is sorted newest first, and a page is counted from its top: whenever a record arrives, the
 * rest moves down, and whenever one leaves, the rest moves up. A loop over page numbers would so
 * repeat records, or miss some.
 *
 * - Orders: not page numbers but times. Each request asks for what was confirmed before the last
 *   order that was read, so what happens above it moves nothing. The millisecond of that order is
 *   asked for again, because others may share it, and orders that were given are left out.
 * - Coupon claims: windows of at most 7 days that never change, oldest last. Arrivals move claims
 *   towards later pages only, where they are left out because their codes were given.
 *
 * Both compare the totals that the gateway sends. If there are fewer than there must be, a record
 * has moved to another time while the loop ran: the window is read once more, and what was not
 * given yet is given then. Of a record that arrives while the loop runs, it is open whether it is
 * given.
 */

import type { Moment } from "./json.js";
import type {
  CouponClaims,
  CouponRecord,
  Material,
  OrderEntry,
  OrderPage,
  PromotionMaterial,
} from "./types.js";

// How often a window is read again whose records moved.
const READ_AGAIN_MAX = 3;
const CLAIMS_WINDOW_S = 7 * 86_400;
const ORDERS_A_PAGE = 100;
const CLAIMS_A_PAGE = 1000;
const MATERIAL_A_PAGE = 10;

/** Records to give to the caller. */
export interface Page<T> {
  records: T[];
}

type Ask<P> = (values: Record<string, unknown>) => Promise<P>;

function unseen<T>(records: T[], key: (record: T) => string, seen: Set<string>): T[] {
  return records.filter((record) => {
    const name = key(record);
    return seen.has(name) ? false : seen.add(name);
  });
}

/** All orders of a window, newest first. `ask` makes the call of one page. */
export async function* orderPages(
  ask: Ask<OrderPage>,
  filters: { end_time?: Moment },
): AsyncGenerator<Page<OrderEntry>> {
  const seen = new Set<string>();
  for (let round = 0; round < READ_AGAIN_MAX; round += 1) {
    if (yield* ordersOnce(ask, filters, seen)) return;
  }
}

/** Reads the window once; whether no order left the part that was still to be read. */
async function* ordersOnce(
  ask: Ask<OrderPage>,
  filters: { end_time?: Moment },
  seen: Set<string>,
): AsyncGenerator<Page<OrderEntry>, boolean> {
  let isWhole = true;
  let end = filters.end_time;
  let page = 0;
  let least = 0;
  for (;;) {
    const answer = await ask({ ...filters, end_time: end, page, pageSize: ORDERS_A_PAGE });
    const { content: found, totalElements: total } = answer;
    isWhole &&= total >= least;
    const records = unseen(found, (order) => order.order_sn, seen);
    if (records.length > 0) yield { records };
    const newest = found[0]?.confirm_time;
    const oldest = found.at(-1)?.confirm_time;
    if (oldest === undefined || (page + 1) * ORDERS_A_PAGE >= total) return isWhole;
    if (newest === oldest) {
      // More orders of one millisecond than a page has: only there page numbers are used.
      page += 1;
      least = total;
    } else {
      const newer = found.filter((order) => order.confirm_time > oldest).length;
      least = total - page * ORDERS_A_PAGE - newer;
      page = 0;
      end = oldest + 1;
    }
  }
}

/** All claims of a time as long as you like, newest first. */
export async function* claimPages(
  ask: Ask<CouponClaims>,
  { startTime, endTime, ...filters }: { startTime: Moment; endTime: Moment },
): AsyncGenerator<Page<CouponRecord>> {
  const seen = new Set<string>();
  const first = counted("startTime", startTime);
  let end = counted("endTime", endTime);
  // Once also if there is nothing between them: the gateway says then what is wrong.
  do {
    const start = Math.max(first, end - CLAIMS_WINDOW_S);
    const window = { ...filters, startTime: start, endTime: end };
    const inWindow = new Set<string>();
    for (let round = 0; round < READ_AGAIN_MAX; round += 1) {
      const before = inWindow.size;
      const total = yield* claimsOnce(ask, window, seen, inWindow);
      if (inWindow.size >= total || inWindow.size === before) break;
    }
    end = start;
  } while (end > first);
}

/** A time in seconds. Of a text without a zone only the gateway knows which time it is. */
function counted(name: string, moment: Moment): number {
  if (typeof moment === "number") return moment;
  if (typeof moment === "string" && /^\s*\d+\s*$/.test(moment)) return Number(moment);
  const isKnown = moment instanceof Date || /(Z|[-+]\d\d:?\d\d)\s*$/.test(moment);
  const atMs = isKnown ? new Date(moment).getTime() : NaN;
  if (Number.isNaN(atMs)) {
    throw new RangeError(
      `${name}: send seconds, or a time with its zone as 2026-11-13T08:00:00+08:00, ` +
        "because the loop divides the time into windows.",
    );
  }
  return Math.floor(atMs / 1000);
}

/** Reads a window once; how many claims it has, by the last answer. */
async function* claimsOnce(
  ask: Ask<CouponClaims>,
  window: object,
  seen: Set<string>,
  inWindow: Set<string>,
): AsyncGenerator<Page<CouponRecord>, number> {
  for (let page = 1; ; page += 1) {
    const answer = await ask({ ...window, page, limit: CLAIMS_A_PAGE });
    for (const claim of answer.dataList) inWindow.add(claim.couponCode);
    const records = unseen(answer.dataList, (claim) => claim.couponCode, seen);
    if (records.length > 0) yield { records };
    if (answer.dataList.length === 0 || page * CLAIMS_A_PAGE >= answer.total) return answer.total;
  }
}

/** What stays the same of a material, which has no id, while some of it are claimed. */
function withoutWhatIsLeft(material: Material): string {
  return JSON.stringify({ ...material, remain_count: 0 });
}

/** All material of a promotion id that is on display. */
export async function* materialPages(
  ask: Ask<PromotionMaterial>,
  filters: object,
): AsyncGenerator<Page<Material>> {
  const seen = new Set<string>();
  for (let page = 1; ; page += 1) {
    const answer = await ask({ ...filters, page_num: page, page_size: MATERIAL_A_PAGE });
    const found = answer.affiliate_sc_optimus_promotion_response.result_list.map_data;
    const records = unseen(found, withoutWhatIsLeft, seen);
    if (records.length > 0) yield { records };
    if (found.length < MATERIAL_A_PAGE) return;
  }
}
