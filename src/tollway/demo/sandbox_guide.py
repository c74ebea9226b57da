"""What the sandbox has, for people and programs that test with it."""

from tollway.contract.language import Phrase
from tollway.demo.owners import SHOP, SHOP_UNAUTHORIZED, USER, USER_UNAUTHORIZED
from tollway.operations.coupon_claims.demo import SIDS
from tollway.operations.demo_data import SANDBOX_PRODUCTS, SandboxItem
from tollway.operations.product_analysis.demo import product_ids
from tollway.operations.waybills.demo import WP_CODE_OUT_OF_NUMBERS, carrier_names

_SHOP, _USER = Phrase("Shop", "店铺"), Phrase("User", "用户")
_AUTHORIZED = Phrase("has authorized every account", "已授权所有账户")
_NOT_AUTHORIZED = Phrase("has authorized no account: code 302", "未授权任何账户：代码 302")


def sandbox_contents() -> list[SandboxItem]:
    """The items in the order in which a reader needs them."""
    days = Phrase("figures for the last 60 days", "最近 60 天的数据")
    claims = Phrase("claims of both types", "两种类型的领券记录")
    none_left = Phrase("has no numbers left: inner code 0", "没有单号：内层代码 0")
    with_code = Phrase(
        f"shopCode {SHOP.shop_code}; {_AUTHORIZED.en}",
        f"shopCode {SHOP.shop_code}；{_AUTHORIZED.zh}",
    )
    return [
        SandboxItem(_SHOP, "owner_id", SHOP.id, with_code),
        SandboxItem(_SHOP, "owner_id", SHOP_UNAUTHORIZED.id, _NOT_AUTHORIZED),
        SandboxItem(_USER, "platform_user_id", USER.id, _AUTHORIZED),
        SandboxItem(_USER, "platform_user_id", USER_UNAUTHORIZED.id, _NOT_AUTHORIZED),
        *(
            SandboxItem(Phrase("Product", "商品"), "product_id", each, days)
            for each in product_ids(SANDBOX_PRODUCTS)
        ),
        SandboxItem(Phrase("Channel", "渠道"), "sid", SIDS[0], claims),
        *(
            SandboxItem(
                Phrase("Carrier", "快递公司"),
                "wp_code",
                code,
                none_left if code == WP_CODE_OUT_OF_NUMBERS else Phrase(name, name),
            )
            for code, name in carrier_names().items()
        ),
    ]
