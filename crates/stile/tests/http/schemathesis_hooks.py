"""What the OpenAPI document cannot say, said to schemathesis; see schemathesis.rs."""

import os
import re

import schemathesis

ADDRESS = re.compile("0x[0-9a-fA-F]{40}")
SIGNERS = os.environ["STILE_TEST_SIGNERS"].split(",")


def known(address):
    """An account of this node for any that was made up, and always the same for the same one.

    Mixed case must be an address's checksum, which no pattern can tell; and what is asked of an
    account that is not served ends before it has begun.
    """
    return SIGNERS[int(address, 16) % len(SIGNERS)]


@schemathesis.hook
def map_body(context, body):
    if isinstance(body, dict):
        body = {name: map_body(context, part) for name, part in body.items()}
        payload = body.get("payload")
        # Whom it goes to, or code to deploy: one of them must be there.
        if isinstance(payload, dict) and payload.get("to", payload.get("data")) is None:
            payload["to"] = SIGNERS[0]
        # A word about another chain is a word about nothing: it ends before it has begun.
        if "verdict" in body and isinstance(body.get("chainId"), int):
            body["chainId"] = 31337
        return body
    if isinstance(body, list):
        return [map_body(context, part) for part in body]
    if isinstance(body, str) and ADDRESS.fullmatch(body):
        return known(body)
    # A schema counts characters. Reasons are counted in bytes, and any 256 characters fit.
    if isinstance(body, str) and len(body) <= 1024 < len(body.encode(errors="surrogatepass")):
        return body[:256]
    # To a JSON schema 1.0 is an integer. Stile takes integers that are written as such.
    if isinstance(body, float) and body.is_integer():
        return int(body)
    return body


# What the key of this run may do, and the one signer that it is for, if it is for one.
OPERATIONS = os.environ["STILE_TEST_OPERATIONS"].split(",")
ONLY_SIGNER = os.environ.get("STILE_TEST_ONLY_SIGNER", "").lower()


@schemathesis.check
def stays_in_scope(ctx, response, case):
    """No call succeeds that the key is not for. What a call needs is its role in the document."""
    security = case.operation.definition.raw.get("security", [])
    roles = [role for one in security for role in one.get("bearer", [])]
    is_allowed = "admin" in OPERATIONS or all(role in OPERATIONS for role in roles)
    if ONLY_SIGNER:
        signer = str((case.path_parameters or {}).get("signer", ONLY_SIGNER)).lower()
        # Metrics add up what all signers do.
        is_allowed = is_allowed and signer == ONLY_SIGNER and case.operation.path != "/metrics"
    if not is_allowed:
        said = f"{case.method} {case.path} with a key for {OPERATIONS}: {response.status_code}"
        assert 400 <= response.status_code < 500, said

@schemathesis.hook
def before_call(context, case, kwargs):
    """Every change says that it is JSON, even without a body, of which a document has no kind."""
    named = {name.lower() for name in case.headers or {}}
    changes = case.method.upper() not in ("GET", "HEAD", "OPTIONS", "TRACE")
    if changes and "content-type" not in named and case.media_type in (None, "application/json"):
        case.headers["Content-Type"] = "application/json"
