"""How the signature of a webhook is checked, in five languages. The parts that a package has are
taken from it; the others are written out."""

_SHELL = r"""# The headers are webhook-id (ID), webhook-timestamp and webhook-signature.
KEY=$(printf %s "${SECRET#whsec_}" | base64 -d | od -An -vtx1 | tr -d ' \n')
EXPECTED=v1,$({ printf '%s.%s.' "$ID" "$TIMESTAMP"; cat body.json; } |
  openssl dgst -sha256 -mac HMAC -macopt "hexkey:$KEY" -binary | base64)
AGE=$(($(date +%s) - TIMESTAMP))
case " $SIGNATURE " in
  *" $EXPECTED "*) [ "${AGE#-}" -le 300 ] && echo genuine ;;
esac
"""
_PYTHON = """from tollway_client.webhooks import SignatureError, verify


def receive(body: bytes, headers: dict[str, str], secret: str) -> int:
    # The status to answer with; the body is what arrived, not yet parsed.
    try:
        event = verify(body, headers, secret)
    except SignatureError:
        return 401
    print(event.id, event.type, event.data)
    return 204
"""
_JAVASCRIPT = """import { SignatureError, verify } from "tollway-client";

// The status to answer with; the body is the text that arrived, not yet parsed.
export async function receive(body, headers, secret) {
  try {
    const event = await verify(body, headers, secret);
    console.log(event.id, event.type, event.data);
    return 204;
  } catch (error) {
    if (error instanceof SignatureError) return 401;
    throw error;
  }
}
"""
_PHP = """<?php
// $body = file_get_contents('php://input'); $headers = array_change_key_case(getallheaders());
function isGenuine(string $body, array $headers, string $secret): bool
{
    $id = $headers['webhook-id'] ?? '';
    $at = $headers['webhook-timestamp'] ?? '';
    if (!preg_match('/^[0-9]{1,15}$/D', $at) || abs(time() - (int) $at) > 300) {
        return false;
    }
    $key = base64_decode(substr($secret, strlen('whsec_')));
    $expected = 'v1,' . base64_encode(hash_hmac('sha256', "$id.$at.$body", $key, true));
    foreach (explode(' ', $headers['webhook-signature'] ?? '') as $given) {
        if (hash_equals($expected, $given)) {
            return true;
        }
    }
    return false;
}
"""
_JAVA = """import static java.nio.charset.StandardCharsets.UTF_8;

import java.security.MessageDigest;
import java.time.Instant;
import java.util.Base64;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;

class Webhooks {
    /** The texts are the headers webhook-id, webhook-timestamp and webhook-signature. */
    static boolean isGenuine(byte[] body, String id, String at, String signatures, String secret)
            throws Exception {
        if (!at.matches("[0-9]{1,15}")
                || Math.abs(Instant.now().getEpochSecond() - Long.parseLong(at)) > 300) {
            return false;
        }
        var key = Base64.getDecoder().decode(secret.substring("whsec_".length()));
        var mac = Mac.getInstance("HmacSHA256");
        mac.init(new SecretKeySpec(key, "HmacSHA256"));
        mac.update((id + "." + at + ".").getBytes(UTF_8));
        var expected = "v1," + Base64.getEncoder().encodeToString(mac.doFinal(body));
        for (var given : signatures.split(" ")) {
            if (MessageDigest.isEqual(expected.getBytes(UTF_8), given.getBytes(UTF_8))) {
                return true;
            }
        }
        return false;
    }
}
"""
SIGNATURE_SAMPLES = (
    ("Shell", _SHELL),
    ("Python", _PYTHON),
    ("JavaScript", _JAVASCRIPT),
    ("PHP", _PHP),
    ("Java", _JAVA),
)
