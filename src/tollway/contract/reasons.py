"""Every reason a call can be refused for, in one table: code, HTTP status, message.

    0   success
    100 the request is wrong: PARAMETER_*, SPELLINGS_CONFLICT, BODY_*, PRODUCT_*, DATE_IN_FUTURE,
        WINDOW_BACKWARDS, WINDOW_TOO_LONG, FILTER_NEEDS_ENHANCED, SHOP_CODE_WRONG, CARRIER_UNKNOWN,
        WAYBILL_DIFFERS, WAYBILL_FINAL, RECEIVER_ERASED, ANSWER_ERASED, NOTHING_FOUND,
        IDEMPOTENCY_KEY_*
    101 TIMED_OUT, CARRIER_UNREACHABLE, CARRIER_SILENT, WAYBILL_CHANGING, BODY_TIMED_OUT
    103 OWNER_UNKNOWN
    200 INTERNAL
    202 THROTTLED, BODIES_TOO_MANY, FILES_TOO_MANY, STORE_UNAVAILABLE, COMMIT_IN_DOUBT
    203 OPERATION_CLOSED
    204 ACCOUNT_SUSPENDED, PERMISSION_MISSING, CALLS_USED_UP, CREDITS_USED_UP, LIVE_TOKEN_NEEDED,
        TOKEN_NOT_FOR_THIS, TOKEN_NOT_FROM_HERE, TOKEN_DAY_USED_UP, TOKEN_CANNOT_MAKE,
        ACCOUNT_LIMIT_REACHED
    302 NOT_AUTHORIZED
    401 CREDENTIAL_INVALID
    404 PATH_UNKNOWN, METHOD_WRONG, RECEIPT_UNKNOWN, WAYBILL_UNKNOWN, ITEM_UNKNOWN

Code is raised by reason (`raise Refusal(Reason.CALLS_USED_UP, left=0, cost=1)`), never by number,
because one number has several causes: 204 alone has ten. When a call could be refused for several
reasons, the order of the stages in `tollway.pipeline.pipeline` decides which one is answered.
"""

from enum import Enum
from typing import NamedTuple

from tollway.contract.language import Phrase


class Cause(NamedTuple):
    """The answer to a call; `status` is sent when the setting http_status is "mapped"."""

    code: int
    status: int
    message: Phrase


SUCCESS = Cause(0, 200, Phrase("Success", "成功"))


def _wrong(en: str, zh: str) -> Cause:
    """The request itself is wrong."""
    return Cause(100, 400, Phrase(en, zh))


def _late(en: str, zh: str) -> Cause:
    """Something timed out."""
    return Cause(101, 504, Phrase(en, zh))


def _too_many(en: str, zh: str) -> Cause:
    """The account sends more at once than it may."""
    return Cause(202, 429, Phrase(en, zh))


def _failed(en: str, zh: str) -> Cause:
    """The gateway cannot answer at present."""
    return Cause(202, 503, Phrase(en, zh))


def _denied(en: str, zh: str) -> Cause:
    """The account or its token may not do this."""
    return Cause(204, 403, Phrase(en, zh))


def _used_up(en: str, zh: str) -> Cause:
    """The account or its token cannot pay for this."""
    return Cause(204, 402, Phrase(en, zh))


def _unknown(en: str, zh: str) -> Cause:
    """There is nothing at this address."""
    return Cause(404, 404, Phrase(en, zh))


class Reason(Enum):
    """The named reasons, in the order of their codes."""

    PARAMETER_MISSING = _wrong(
        "Parameter {field} is missing: send {expected}.", "缺少参数 {field}：请传入{expected}。"
    )
    PARAMETER_UNKNOWN = _wrong(
        "Parameter {field} is not known, but {known} is: send it under that name, or leave it out.",
        "参数 {field} 不存在，是否为 {known}？请改用该名称，或不要传入。",
    )
    PARAMETER_INVALID = _wrong(
        "Parameter {field} is not valid: {problem}. Send {expected}.",
        "参数 {field} 无效：{problem}。请传入{expected}。",
    )
    PARAMETER_REPEATED = _wrong(
        "Parameter {field} was sent more than once with different values: send it once.",
        "参数 {field} 重复且取值不同：请只传一次。",
    )
    SPELLINGS_CONFLICT = _wrong(
        "{field} and {other} are two spellings of one parameter and differ: send one of them.",
        "{field} 与 {other} 是同一参数的两种写法且取值不同：请只传其中一个。",
    )
    BODY_UNREADABLE = _wrong(
        "The {part} cannot be read: {problem}. Check how it is written and encoded.",
        "无法读取{part}：{problem}。请检查格式和编码。",
    )
    BODY_TOO_LARGE = _wrong(
        "The request body is larger than {limit} bytes: send a smaller one.",
        "请求体超过 {limit} 字节：请减小后重试。",
    )
    PRODUCT_UNKNOWN = _wrong(
        "Parameter product_id is not known here: check the product id.",
        "参数 product_id 对应的商品不存在：请检查商品编号。",
    )
    PRODUCT_WITHOUT_DATA = _wrong(
        "Parameter query_date has no data for this product: ask for another day.",
        "参数 query_date 当日没有该商品的数据：请查询其他日期。",
    )
    DATE_IN_FUTURE = _wrong(
        "Parameter query_date is later than today ({today}): ask for today or earlier.",
        "参数 query_date 晚于今天（{today}）：请查询今天或更早的日期。",
    )
    WINDOW_BACKWARDS = _wrong(
        "Parameter {end} is too early for {start}: send a later end or an earlier start.",
        "参数 {end} 相对 {start} 过早：请改用更晚的结束时间或更早的开始时间。",
    )
    WINDOW_TOO_LONG = _wrong(
        "From {start} to {end} are {span}: ask for at most {longest} at a time.",
        "{start} 到 {end} 为 {span}：每次最多查询 {longest}。",
    )
    SHOP_CODE_WRONG = _wrong(
        "Parameter shopCode does not match the shop: check the association code in the "
        "account settings of its software.",
        "参数 shopCode 与店铺不符：请检查订购软件账号设置中的店铺关联码。",
    )
    CARRIER_UNKNOWN = _wrong(
        "Parameter wp_code names no carrier known here: {carriers}.",
        "参数 wp_code 对应的快递公司不存在：{carriers}。",
    )
    WAYBILL_DIFFERS = _wrong(
        "Parameter order_sn already has a waybill of this carrier with another content "
        "(different: {fields}): send the same content, or another order_sn.",
        "参数 order_sn 在该快递公司已有内容不同的面单（不同字段：{fields}）："
        "请传入相同内容，或更换 order_sn。",
    )
    WAYBILL_FINAL = _wrong(
        "The receiver of this waybill can no longer be changed ({why}): cancel it if it is "
        "still valid, and have another one issued.",
        "该面单的收件人已不能更改（{why}）：请重新取号，仍有效的请先取消。",
    )
    RECEIVER_ERASED = _wrong(
        "The shop had the receiver of this waybill erased: it has no print data and no label any "
        "more. Its number stays {number}.",
        "该面单的收件人信息已应店铺要求清除：不再有打印数据，也不能再打印。运单号仍为 {number}。",
    )
    # For operations of installed packages, which bring no reasons of their own.
    NOTHING_FOUND = _wrong(
        "There is nothing here for the value of parameter {field}: check it.",
        "参数 {field} 的取值没有对应的数据：请检查。",
    )
    ANSWER_ERASED = _wrong(
        "The answer under this Idempotency-Key had receivers that the shop had erased since: send "
        "the request with another key, which is charged as a new call.",
        "该 Idempotency-Key 保存的结果含有已应店铺要求清除的收件人信息："
        "请更换一个新值重新请求，将按新的调用扣费。",
    )
    IDEMPOTENCY_KEY_INVALID = _wrong(
        "The header Idempotency-Key is not valid: send it once, as 1 to 255 printable ASCII "
        "characters.",
        "请求头 Idempotency-Key 无效：请只传一次，为 1 到 255 个可打印 ASCII 字符。",
    )
    IDEMPOTENCY_KEY_REUSED = _wrong(
        "The Idempotency-Key was used for another request: send a new key with a new request.",
        "Idempotency-Key 已用于另一个请求：新的请求请使用新的值。",
    )
    FILTER_NEEDS_ENHANCED = _wrong(
        "Parameter {field} is for the enhanced edition only: leave it out, or send vvtype 1.",
        "参数 {field} 仅支持增强版：请不要传入，或将 vvtype 设为 1。",
    )
    TIMED_OUT = _late(
        "The request timed out and nothing was charged: try again.", "请求超时，未扣费：请重试。"
    )
    CARRIER_UNREACHABLE = _late(
        "The carrier cannot be reached: nothing was issued and nothing charged. Try again "
        "later, or choose another carrier.",
        "快递公司暂时无法连接：未取号，未扣费。请稍后重试，或更换快递公司。",
    )
    CARRIER_SILENT = _late(
        "The carrier has not answered in time: credits are held until it does ({cost}), and "
        "nothing is issued twice. Send the same request again later.",
        "快递公司未及时响应：已冻结 {cost} 点，待其确认后结算，不会重复取号。"
        "请稍后用相同的请求重试。",
    )
    WAYBILL_CHANGING = _late(
        "The carrier has not confirmed the new receiver of this waybill, which has no label "
        "until it does: send the change again in {wait_s} s, or cancel the waybill.",
        "快递公司尚未确认该面单的新收件人，确认前无法打印：请 {wait_s} 秒后重新提交更改，"
        "或取消该面单。",
    )
    BODY_TIMED_OUT = _late(
        "The request body did not arrive in {limit_s} seconds: check the network, try again.",
        "请求体未在 {limit_s} 秒内到达：请检查网络后重试。",
    )
    OWNER_UNKNOWN = Cause(
        103,
        400,
        Phrase(
            "Account name does not exist: no shop or user with this {field} exists. Check it.",
            "账号不存在：参数 {field} 对应的店铺或用户未登记，请检查。",
        ),
    )
    INTERNAL = Cause(
        200,
        500,
        Phrase(
            "System error, nothing was charged. Contact support with the X-Request-Id.",
            "系统错误，未扣费。请携带 X-Request-Id 联系客服。",
        ),
    )
    THROTTLED = _too_many(
        "More calls a second to this operation than {limit}: retry after a second.",
        "该接口调用超过每秒 {limit} 次：请一秒后重试。",
    )
    BODIES_TOO_MANY = _too_many(
        "Too many request bodies of this account are under way at once: send each of them "
        "whole, then retry.",
        "该账户同时传输中的请求体过多：请将每个请求体发送完整后重试。",
    )
    FILES_TOO_MANY = _too_many(
        "{most} files are being sent to this account: read one to its end, then retry.",
        "正在向该账户发送 {most} 个文件：请先读完其中一个，再重试。",
    )
    STORE_UNAVAILABLE = _failed(
        "System error, nothing was charged: try again later.", "系统错误，未扣费：请稍后重试。"
    )
    # The connection was lost during the commit: the call may have been charged.
    COMMIT_IN_DOUBT = _failed(
        "System error while the call was being charged, and it is not known whether it was: "
        "look up its X-Request-Id, or repeat it with the Idempotency-Key it had.",
        "扣费时发生系统错误，是否扣费尚不确定：请用 X-Request-Id 查询，"
        "或用原 Idempotency-Key 重试。",
    )
    OPERATION_CLOSED = Cause(
        203,
        501,
        Phrase(
            "This operation is not supported at present: ask the operator when it reopens.",
            "暂不支持该操作：请向运营方确认恢复时间。",
        ),
    )
    ACCOUNT_SUSPENDED = _denied(
        "This account is suspended: ask the operator when its calls are answered again.",
        "该账户已暂停：请向运营方确认何时恢复。",
    )
    PERMISSION_MISSING = _denied(
        "No permission for this operation: have it enabled on the provider's site.",
        "没有该接口的权限：请在服务商网站开通正式接口。",
    )
    CALLS_USED_UP = _used_up(
        "Insufficient number of calls: {left} left, this call takes {cost}. Top up the calls.",
        "调用次数不足：剩余 {left} 次，本次需要 {cost} 次。请充值次数。",
    )
    CREDITS_USED_UP = _used_up(
        "Insufficient credits: {left} left, this call costs {cost}. Top up the credits.",
        "点数不足：剩余 {left} 点，本次需要 {cost} 点。请充值点数。",
    )
    TOKEN_NOT_FOR_THIS = _denied(
        "This token is limited to {operations}: use another token of the account for this.",
        "该令牌仅限用于 {operations}：请使用该账户的其他令牌。",
    )
    TOKEN_NOT_FROM_HERE = _denied(
        "This token is not for calls from the address {address}: call from an address that it "
        "is limited to, or use another token.",
        "该令牌不允许从地址 {address} 调用：请从限定的地址调用，或使用其他令牌。",
    )
    TOKEN_DAY_USED_UP = _used_up(
        "This token has reached its cap of {most} {unit} a day: {left} left, this call takes "
        "{cost}. Use another token, or this one again tomorrow.",
        "该令牌已达到每日{unit}上限 {most}：剩余 {left}，本次需要 {cost}。"
        "请使用其他令牌，或明天再用。",
    )
    TOKEN_CANNOT_MAKE = _denied(
        "This token is limited, and cannot change other tokens, webhooks or alerts, nor have "
        "events sent: use one without limits.",
        "该令牌受限，不能更改其他令牌、回调或余额提醒，也不能发送回调事件：请使用不受限的令牌。",
    )
    ACCOUNT_LIMIT_REACHED = _denied(
        "This account has reached its {which} of {most} {things}: {advice}.",
        "该账户{things}已达{which}（{most}）：{advice}。",
    )
    LIVE_TOKEN_NEEDED = _denied(
        "The account API takes live tokens only: a test token is for the sandbox.",
        "账户接口仅接受正式令牌：测试令牌仅用于沙箱。",
    )
    # The only reason with data: where the owner can approve, and until when.
    NOT_AUTHORIZED = Cause(
        302,
        403,
        Phrase(
            "Not authorized by the {owner} that {field} names: have its owner open "
            "data.authorize_url and approve, then call again.",
            "{field} 对应的{owner}未授权：请店主或用户本人打开 data.authorize_url 完成授权后重试。",
        ),
    )
    # One message for a token that is missing, malformed, unknown, expired or revoked, so that
    # guessing reveals nothing.
    CREDENTIAL_INVALID = Cause(
        401,
        401,
        Phrase(
            "Credential invalid: send the header Authorization: Bearer <access_token> with a "
            "valid token, or renew the token.",
            "凭证无效：请在请求头中携带 Authorization: Bearer <access_token>，或更换有效的令牌。",
        ),
    )
    PATH_UNKNOWN = _unknown(
        "No operation has this path: check the request path.", "请求路径错误：请检查接口地址。"
    )
    METHOD_WRONG = Cause(
        404,
        405,
        Phrase(
            "This path takes the method {allowed}: change the request method.",
            "请求方法错误：该路径只接受 {allowed}，请修改请求方法。",
        ),
    )
    # The same for an unknown id and for one of another account.
    RECEIPT_UNKNOWN = _unknown(
        "This account has no receipt with this id: check that it is the X-Request-Id of one "
        "of its calls, and ask again in a second if the call was just answered.",
        "该账户没有此编号的回执：请确认其为该账户某次调用的 X-Request-Id；"
        "若调用刚刚完成，请一秒后重试。",
    )
    WAYBILL_UNKNOWN = _unknown(
        "This account has no valid waybill with this object_id: check that it is the objectId that "
        "a call of this account was answered with, and that the waybill was not cancelled.",
        "该账户没有此 object_id 对应的有效面单：请确认其为该账户取号时返回的 objectId，"
        "且面单未取消。",
    )
    ITEM_UNKNOWN = _unknown(
        "This account has nothing valid with this {field}: list what it has, and check it.",
        "该账户没有此 {field} 对应的有效项目：请先列出并检查。",
    )


class Refusal(Exception):  # noqa: N818 - it is an answer, not a fault
    """Raised by a stage to end a call; becomes the envelope of its reason.

    `data` is the data of the envelope: none, except for one reason.
    """

    # Without slots, creating the exception takes four times as long.
    __slots__ = ("data", "reason", "values")

    def __init__(self, reason: Reason, *, data: object = None, **values: object) -> None:
        self.reason = reason
        self.data = data
        self.values = values

    def __str__(self) -> str:
        return self.reason.name

    def message(self, language: str) -> str:
        return self.reason.value.message.fill(language, self.values)
