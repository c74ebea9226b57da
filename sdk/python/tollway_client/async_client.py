"""The client for asyncio.

Made by `make sdk` from the gateway's descriptors: do not edit."""

from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import date, datetime
from typing import Optional, Union

from tollway_client._core import Operation
from tollway_client._drivers import AsyncDriver
from tollway_client._json import Cost
from tollway_client._paging import claim_pages, file_pages, material_pages, order_pages
from tollway_client.async_account import AsyncAccount
from tollway_client.errors import CarrierRefusedError
from tollway_client.types import (
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
    WaybillsRequest,
)

_PRODUCT_ANALYSIS = Operation(
    "product_analysis", "GET", "/papi/tool/accounts/goods-analysis", "query"
)
_COUPON_CLAIMS = Operation("coupon_claims", "POST", "/papi/tool/waimai/partner_couponList", "form")
_PROMOTION_MATERIAL = Operation(
    "promotion_material", "POST", "/papi/tool/affiliate/promotion", "json"
)
_WAYBILLS = Operation("waybills", "POST", "/papi/tool/erps/getwaybillfreewn", "json")
_ORDERS = Operation("orders", "POST", "/papi/tool/erps/paging-orders", "form")
_COUPON_CLAIMS_EXPORT = Operation(
    "coupon_claims", "POST", "/papi/tool/waimai/partner_couponList/export", "json"
)
_WAYBILLS_BATCH = Operation("waybills", "POST", "/papi/tool/erps/getwaybillfreewn/batch", "json")
_ORDERS_BY_NUMBER = Operation("orders", "POST", "/papi/tool/erps/paging-orders/by-number", "json")
_ORDERS_CHANGED = Operation("orders", "POST", "/papi/tool/erps/paging-orders/changed", "json")
_ORDERS_EXPORT = Operation("orders", "POST", "/papi/tool/erps/paging-orders/export", "json")
_COUPON_CLAIMS_EXPORT_FILE = Operation(
    "coupon_claims", "GET", "/papi/tool/waimai/partner_couponList/export/file", "query"
)
_ORDERS_EXPORT_FILE = Operation(
    "orders", "GET", "/papi/tool/erps/paging-orders/export/file", "query"
)


class AsyncClient(AsyncDriver):
    """Calls the operations of a gateway."""

    @property
    def account(self) -> AsyncAccount:
        """The account API: free of charge, for live tokens."""
        return AsyncAccount(self)

    async def cost_of(self, method: str, **parameters: object) -> Cost:
        """What a call would cost now, without making it; raises what it would raise.

        method: the name of a method, such as `orders_export`.
        parameters: those of that method.
        """
        operations = {
            "product_analysis": _PRODUCT_ANALYSIS,
            "coupon_claims": _COUPON_CLAIMS,
            "promotion_material": _PROMOTION_MATERIAL,
            "issue_waybill": _WAYBILLS,
            "orders": _ORDERS,
            "coupon_claims_export": _COUPON_CLAIMS_EXPORT,
            "issue_waybills": _WAYBILLS_BATCH,
            "orders_by_number": _ORDERS_BY_NUMBER,
            "orders_changed": _ORDERS_CHANGED,
            "orders_export": _ORDERS_EXPORT,
        }
        if method not in operations:
            raise ValueError(
                f"There is no paid method {method!r}: name one of {', '.join(operations)}."
            )
        return await self._run(
            self._core.call(operations[method], Cost, parameters, None, {"X-Tollway-Dry-Run": "1"})
        )

    async def product_analysis(
        self,
        *,
        product_id: str,
        query_date: Union[date, str],
        idempotency_key: Optional[str] = None,
        headers: Optional[Mapping[str, str]] = None,
    ) -> ProductAnalysis:
        """Product analysis.

        product_id: Product id; the service finds the shop from it. Send a text of 1 to 64
            characters.
        query_date: Date to query; today or earlier. Send a date as YYYY-MM-DD.
        """
        return await self._run(
            self._core.call(
                _PRODUCT_ANALYSIS,
                ProductAnalysis,
                {"product_id": product_id, "query_date": query_date},
                idempotency_key,
                headers,
            )
        )

    async def coupon_claims(
        self,
        *,
        startTime: Union[int, str, datetime],
        endTime: Union[int, str, datetime],
        page: Union[int, str],
        limit: Union[int, str],
        sid: str,
        type: Union[int, str],
        idempotency_key: Optional[str] = None,
        headers: Optional[Mapping[str, str]] = None,
    ) -> CouponClaims:
        """Coupon-claim query.

        startTime: Start of the claim window, seconds timestamp; included. Send a timestamp in
            seconds, yyyy-MM-dd, yyyy-MM-dd HH:mm:ss, or ISO 8601 with an offset.
        endTime: End of the claim window, seconds timestamp; excluded. At most 7 days after
            startTime. Send a timestamp in seconds, yyyy-MM-dd, yyyy-MM-dd HH:mm:ss, or ISO 8601
            with an offset.
        page: Page number, starting at 1. Send a whole number from 1 to 2147483647.
        limit: Rows per page, maximum 1000. Send a whole number from 1 to 1000.
        sid: Channel user identifier. Send a text of 1 to 64 characters.
        type: 4 = food delivery; 6 = flash purchase. Send one of 4 (food delivery), 6 (flash
            purchase).
        """
        return await self._run(
            self._core.call(
                _COUPON_CLAIMS,
                CouponClaims,
                {
                    "startTime": startTime,
                    "endTime": endTime,
                    "page": page,
                    "limit": limit,
                    "sid": sid,
                    "type": type,
                },
                idempotency_key,
                headers,
            )
        )

    async def promotion_material(
        self,
        *,
        adzone_id: Union[int, str],
        promotion_id: Union[int, str],
        site_id: Union[int, str],
        platform_user_id: Union[int, str],
        page_size: Optional[Union[int, str]] = None,
        page_num: Optional[Union[int, str]] = None,
        idempotency_key: Optional[str] = None,
        headers: Optional[Mapping[str, str]] = None,
    ) -> PromotionMaterial:
        """Affiliate promotion material.

        adzone_id: Third segment of the promotion slot code, which has the form mm_x_x_x. Send a
            whole number from 1 to 999999999999999999.
        promotion_id: Official benefit material id: 37104 paid coupon, 37116 large shop coupon,
            62191 mall shop coupon, 61809 stacked coupon. Send a whole number from 1 to
            999999999999999999.
        site_id: Second segment of the promotion slot code. Send a whole number from 1 to
            999999999999999999.
        platform_user_id: Id of the authorizing user. Send a whole number from 1 to
            999999999999999999.
        page_size: Page size; default 10. Send a whole number from 1 to 10.
        page_num: Page number; the first page is 1, the default. Send a whole number from 1 to
            2147483647.
        """
        return await self._run(
            self._core.call(
                _PROMOTION_MATERIAL,
                PromotionMaterial,
                {
                    "adzone_id": adzone_id,
                    "promotion_id": promotion_id,
                    "site_id": site_id,
                    "platform_user_id": platform_user_id,
                    "page_size": page_size,
                    "page_num": page_num,
                },
                idempotency_key,
                headers,
            )
        )

    async def issue_waybill(
        self,
        *,
        owner_id: str,
        order_sn: str,
        sender_name: str,
        sender_mobile: str,
        sender_province: str,
        sender_city: str,
        sender_town: str,
        sender_detail: str,
        wp_code: str,
        waybill_type: Union[int, str],
        receiver_province: str,
        receiver_city: str,
        receiver_town: str,
        receiver_address: str,
        receiver_phone: str,
        receiver_name: str,
        shopCode: Optional[str] = None,
        vvtype: Optional[Union[int, str]] = None,
        parentWaybillCode: Optional[str] = None,
        goods_name: Optional[str] = None,
        weight_g: Optional[Union[int, str]] = None,
        idempotency_key: Optional[str] = None,
        headers: Optional[Mapping[str, str]] = None,
    ) -> WaybillResult:
        """Waybill issuing. Raises CarrierRefusedError if the carrier issues none; nothing is
        charged then.

        owner_id: Shop owner id. Send a text of 1 to 64 characters.
        order_sn: Order number, as the caller defines it. Send a text of 8 to 64 characters.
        sender_name: Sender name. Send a text of 1 to 39 characters.
        sender_mobile: Sender mobile. Send a mobile number, or a fixed line with its area code.
        sender_province: Sender province. Send a text of 1 to 64 characters.
        sender_city: Sender city. Send a text of 1 to 64 characters.
        sender_town: Sender district. Send a text of 1 to 64 characters.
        sender_detail: Sender street address, without province, city and district. Send a text
            of 1 to 255 characters.
        wp_code: Carrier short code. Send a text of 1 to 32 characters.
        waybill_type: Kind of label. Send one of 1 (single-part waybill, 76×130 mm), 2 (two-part
            waybill, 100×180 mm), 3 (other, 100×150 mm).
        receiver_province: Receiver province. Send a text of 1 to 64 characters.
        receiver_city: Receiver city. Send a text of 1 to 64 characters.
        receiver_town: Receiver district. Send a text of 1 to 64 characters.
        receiver_address: Receiver street address. Send a text of 1 to 255 characters.
        receiver_phone: Receiver phone. Send a mobile number, or a fixed line with its area
            code.
        receiver_name: Receiver name. Send a text of 1 to 39 characters.
        shopCode: Shop association code; required when vvtype is 2. Send a text of 1 to 64
            characters.
        vvtype: Edition; the enhanced one when left out. Send one of 1 (enhanced), 2 (normal).
        parentWaybillCode: For a further parcel of an order: the waybill number of its first
            one. Send a text of 1 to 64 characters.
        goods_name: What is in the parcel, for its label. Send a text of 1 to 100 characters.
        weight_g: The parcel's weight in grams, for its label. Send a whole number from 1 to
            1000000.
        """
        result = await self._run(
            self._core.call(
                _WAYBILLS,
                WaybillResult,
                {
                    "owner_id": owner_id,
                    "order_sn": order_sn,
                    "sender_name": sender_name,
                    "sender_mobile": sender_mobile,
                    "sender_province": sender_province,
                    "sender_city": sender_city,
                    "sender_town": sender_town,
                    "sender_detail": sender_detail,
                    "wp_code": wp_code,
                    "waybill_type": waybill_type,
                    "receiver_province": receiver_province,
                    "receiver_city": receiver_city,
                    "receiver_town": receiver_town,
                    "receiver_address": receiver_address,
                    "receiver_phone": receiver_phone,
                    "receiver_name": receiver_name,
                    "shopCode": shopCode,
                    "vvtype": vvtype,
                    "parentWaybillCode": parentWaybillCode,
                    "goods_name": goods_name,
                    "weight_g": weight_g,
                },
                idempotency_key,
                headers,
            )
        )
        if result.code != 1:
            raise CarrierRefusedError(result)
        return result

    async def orders(
        self,
        *,
        owner_id: str,
        vvtype: Optional[Union[int, str]] = None,
        page: Optional[Union[int, str]] = None,
        pageSize: Optional[Union[int, str]] = None,
        start_time: Optional[Union[int, str, datetime]] = None,
        end_time: Optional[Union[int, str, datetime]] = None,
        remark: Optional[str] = None,
        remarkTag: Optional[Union[int, str]] = None,
        remarkTagName: Optional[str] = None,
        idempotency_key: Optional[str] = None,
        headers: Optional[Mapping[str, str]] = None,
    ) -> OrderPage:
        """Paged order query.

        owner_id: Shop owner id. Send a text of 1 to 64 characters.
        vvtype: Edition; the enhanced one if left out. Filters are for the enhanced one only.
            Send one of 1 (enhanced), 2 (normal).
        page: Page number; the first page is 0, and the default. Send a whole number from 0 to
            2147483647.
        pageSize: Orders per page; 100 if left out. Send a whole number from 1 to 100.
        start_time: Only orders confirmed at this time or later; enhanced edition. Send seconds,
            milliseconds, yyyy-MM-dd, yyyy-MM-dd HH:mm:ss, or ISO 8601 with an offset.
        end_time: Only orders confirmed before this time; enhanced edition. Send seconds,
            milliseconds, yyyy-MM-dd, yyyy-MM-dd HH:mm:ss, or ISO 8601 with an offset.
        remark: Only orders whose remark contains this; enhanced edition. Send a text of 1 to
            200 characters.
        remarkTag: Only orders with this flag; enhanced edition. Send one of 1 (red), 2
            (yellow), 3 (green), 4 (blue), 5 (purple).
        remarkTagName: Only orders whose flag has this text; enhanced edition. Send a text of 1
            to 64 characters.
        """
        return await self._run(
            self._core.call(
                _ORDERS,
                OrderPage,
                {
                    "owner_id": owner_id,
                    "vvtype": vvtype,
                    "page": page,
                    "pageSize": pageSize,
                    "start_time": start_time,
                    "end_time": end_time,
                    "remark": remark,
                    "remarkTag": remarkTag,
                    "remarkTagName": remarkTagName,
                },
                idempotency_key,
                headers,
            )
        )

    async def coupon_claims_export(
        self,
        *,
        startTime: Union[int, str, datetime],
        endTime: Union[int, str, datetime],
        sid: str,
        type: Union[int, str],
        idempotency_key: Optional[str] = None,
        headers: Optional[Mapping[str, str]] = None,
    ) -> Export:
        """Export of coupon claims.

        startTime: Start of the claim window, seconds timestamp; included. Send a timestamp in
            seconds, yyyy-MM-dd, yyyy-MM-dd HH:mm:ss, or ISO 8601 with an offset.
        endTime: End of the claim window; excluded. Any length. Send a timestamp in seconds,
            yyyy-MM-dd, yyyy-MM-dd HH:mm:ss, or ISO 8601 with an offset.
        sid: Channel user identifier. Send a text of 1 to 64 characters.
        type: 4 = food delivery; 6 = flash purchase. Send one of 4 (food delivery), 6 (flash
            purchase).
        """
        return await self._run(
            self._core.call(
                _COUPON_CLAIMS_EXPORT,
                Export,
                {"startTime": startTime, "endTime": endTime, "sid": sid, "type": type},
                idempotency_key,
                headers,
            )
        )

    async def issue_waybills(
        self,
        *,
        waybills: Sequence[WaybillsRequest],
        idempotency_key: Optional[str] = None,
        headers: Optional[Mapping[str, str]] = None,
    ) -> WaybillBatch:
        """Up to 100 waybills in one call.

        waybills: The waybills, each with the parameters of waybill issuing. Send a list of 1 to
            100 objects.
        """
        return await self._run(
            self._core.call(
                _WAYBILLS_BATCH, WaybillBatch, {"waybills": waybills}, idempotency_key, headers
            )
        )

    async def orders_by_number(
        self,
        *,
        owner_id: str,
        order_sn: list[str],
        idempotency_key: Optional[str] = None,
        headers: Optional[Mapping[str, str]] = None,
    ) -> OrdersByNumber:
        """Orders by their numbers.

        owner_id: Shop owner id. Send a text of 1 to 64 characters.
        order_sn: The order numbers. Send a list of 1 to 100, each a text of 1 to 64 characters.
        """
        return await self._run(
            self._core.call(
                _ORDERS_BY_NUMBER,
                OrdersByNumber,
                {"owner_id": owner_id, "order_sn": order_sn},
                idempotency_key,
                headers,
            )
        )

    async def orders_changed(
        self,
        *,
        owner_id: str,
        cursor: Optional[str] = None,
        pageSize: Optional[Union[int, str]] = None,
        idempotency_key: Optional[str] = None,
        headers: Optional[Mapping[str, str]] = None,
    ) -> OrdersChanged:
        """Orders changed since a cursor.

        owner_id: Shop owner id. Send a text of 1 to 64 characters.
        cursor: The next_cursor of the answer before; all orders if left out. Send a text of 1
            to 64 characters.
        pageSize: Orders per page; 100 if left out. Send a whole number from 1 to 100.
        """
        return await self._run(
            self._core.call(
                _ORDERS_CHANGED,
                OrdersChanged,
                {"owner_id": owner_id, "cursor": cursor, "pageSize": pageSize},
                idempotency_key,
                headers,
            )
        )

    async def orders_export(
        self,
        *,
        owner_id: str,
        start_time: Union[int, str, datetime],
        end_time: Union[int, str, datetime],
        idempotency_key: Optional[str] = None,
        headers: Optional[Mapping[str, str]] = None,
    ) -> Export:
        """Export of orders.

        owner_id: Shop owner id. Send a text of 1 to 64 characters.
        start_time: Only orders confirmed at this time or later. Send seconds, milliseconds,
            yyyy-MM-dd, yyyy-MM-dd HH:mm:ss, or ISO 8601 with an offset.
        end_time: Only orders confirmed before this time. Send seconds, milliseconds,
            yyyy-MM-dd, yyyy-MM-dd HH:mm:ss, or ISO 8601 with an offset.
        """
        return await self._run(
            self._core.call(
                _ORDERS_EXPORT,
                Export,
                {"owner_id": owner_id, "start_time": start_time, "end_time": end_time},
                idempotency_key,
                headers,
            )
        )

    def iter_coupon_claims(
        self,
        *,
        startTime: Union[int, str, datetime],
        endTime: Union[int, str, datetime],
        sid: str,
        type: Union[int, str],
    ) -> AsyncIterator[CouponRecord]:
        """Coupon-claim query: all records, each once, also while others arrive. The time may be
        longer than 7 days.

        startTime: Start of the claim window, seconds timestamp; included. Send seconds, or a
            time with its zone, such as 2026-11-13T08:00:00+08:00.
        endTime: End of the claim window, seconds timestamp; excluded. Send seconds, or a time
            with its zone, such as 2026-11-13T08:00:00+08:00.
        sid: Channel user identifier. Send a text of 1 to 64 characters.
        type: 4 = food delivery; 6 = flash purchase. Send one of 4 (food delivery), 6 (flash
            purchase).
        """
        return self._each(
            claim_pages(
                self._core.asker(_COUPON_CLAIMS, CouponClaims),
                start=startTime,
                end=endTime,
                sid=sid,
                type=type,
            )
        )

    def iter_promotion_material(
        self,
        *,
        adzone_id: Union[int, str],
        promotion_id: Union[int, str],
        site_id: Union[int, str],
        platform_user_id: Union[int, str],
    ) -> AsyncIterator[Material]:
        """Affiliate promotion material: all records, each once, also while others arrive.

        adzone_id: Third segment of the promotion slot code, which has the form mm_x_x_x. Send a
            whole number from 1 to 999999999999999999.
        promotion_id: Official benefit material id: 37104 paid coupon, 37116 large shop coupon,
            62191 mall shop coupon, 61809 stacked coupon. Send a whole number from 1 to
            999999999999999999.
        site_id: Second segment of the promotion slot code. Send a whole number from 1 to
            999999999999999999.
        platform_user_id: Id of the authorizing user. Send a whole number from 1 to
            999999999999999999.
        """
        return self._each(
            material_pages(
                self._core.asker(_PROMOTION_MATERIAL, PromotionMaterial),
                adzone_id=adzone_id,
                promotion_id=promotion_id,
                site_id=site_id,
                platform_user_id=platform_user_id,
            )
        )

    def iter_orders(
        self,
        *,
        owner_id: str,
        start_time: Optional[Union[int, str, datetime]] = None,
        end_time: Optional[Union[int, str, datetime]] = None,
        remark: Optional[str] = None,
        remarkTag: Optional[Union[int, str]] = None,
        remarkTagName: Optional[str] = None,
    ) -> AsyncIterator[OrderEntry]:
        """Paged order query: all records, each once, also while others arrive.

        owner_id: Shop owner id. Send a text of 1 to 64 characters.
        start_time: Only orders confirmed at this time or later; enhanced edition. Send seconds,
            milliseconds, yyyy-MM-dd, yyyy-MM-dd HH:mm:ss, or ISO 8601 with an offset.
        end_time: Only orders confirmed before this time; enhanced edition. Send seconds,
            milliseconds, yyyy-MM-dd, yyyy-MM-dd HH:mm:ss, or ISO 8601 with an offset.
        remark: Only orders whose remark contains this; enhanced edition. Send a text of 1 to
            200 characters.
        remarkTag: Only orders with this flag; enhanced edition. Send one of 1 (red), 2
            (yellow), 3 (green), 4 (blue), 5 (purple).
        remarkTagName: Only orders whose flag has this text; enhanced edition. Send a text of 1
            to 64 characters.
        """
        return self._each(
            order_pages(
                self._core.asker(_ORDERS, OrderPage),
                owner_id=owner_id,
                start_time=start_time,
                end_time=end_time,
                remark=remark,
                remarkTag=remarkTag,
                remarkTagName=remarkTagName,
            )
        )

    def iter_coupon_claims_export(
        self, *, export_id: str, after: Optional[str] = None
    ) -> AsyncIterator[CouponRecord]:
        """The file of an export of coupon claims: all its records. A file that breaks off is read
        on after the last record that arrived.

        export_id: The export_id of the export. Send a text of 1 to 1000 characters.
        after: The couponCode of the last whole line that arrived; from the first if left out.
            Send a text of 1 to 128 characters.
        """
        return self._each(
            file_pages(
                self._core,
                _COUPON_CLAIMS_EXPORT_FILE,
                CouponRecord,
                "couponCode",
                export_id=export_id,
                after=after,
            )
        )

    def iter_orders_export(
        self, *, owner_id: str, export_id: str, after: Optional[str] = None
    ) -> AsyncIterator[OrderEntry]:
        """The file of an export of orders: all its records. A file that breaks off is read on
        after the last record that arrived.

        owner_id: Shop owner id. Send a text of 1 to 64 characters.
        export_id: The export_id of the export. Send a text of 1 to 1000 characters.
        after: The order_sn of the last whole line that arrived; from the first if left out.
            Send a text of 1 to 64 characters.
        """
        return self._each(
            file_pages(
                self._core,
                _ORDERS_EXPORT_FILE,
                OrderEntry,
                "order_sn",
                owner_id=owner_id,
                export_id=export_id,
                after=after,
            )
        )
