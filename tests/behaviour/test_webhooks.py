# SPDX-License-Identifier: Apache-2.0
"""Webhooks: what is captured, what is refused, what is told from a repeat.

Signatures are made anew with the time of now; the edges of the clock and the
committed vectors are judged with a clock of their own in
tests/unit/test_signature.c."""

import datetime
import gzip
import json
import pathlib

import jsonschema
import pytest
import standardwebhooks
import stripe as stripe_library
import svix.webhooks

from lib import hooks as senders
from lib.api import check_problem
from lib.hooks import FORM, Ed25519, Hooks, make_master_key, now

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCHEMA = json.loads((ROOT / "schema/json/webhook.schema.json").read_text())
WHSEC = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3"
STRIPE = "whsec_testonly_stripe_0001"
GITHUB = "testonly-github-secret"
SLACK = "testonly_slack_signing_secret"


@pytest.fixture(scope="module")
def master_key(tmp_path_factory):
    return make_master_key(tmp_path_factory.mktemp("keys"))


@pytest.fixture(scope="module")
def house(fleets, master_key):
    """Two producers; captures are read from the topic, so no worker runs."""
    return fleets(producers=2, workers=0, schedulers=0, settings={
        "producer": {"webhooks.master_key_file": str(master_key)}})


@pytest.fixture
def hooks(house, master_key, tenant):
    made = Hooks(house, master_key, tenant)
    yield made
    made.close()


def is_taken(answer):
    return answer.status_code == 200 and answer.headers[
        "actionist-webhook-status"] == "captured"


def check_refused(answer):
    check_problem(answer, 401, "SIGNATURE_INVALID")


# -- bytes ----------------------------------------------------------------------


@pytest.mark.case("WHK-01")
def test_whk_01_raw_bytes(hooks):
    source = hooks.add("pay", "stripe", STRIPE)
    body = b'{"id": "evt_1"}\n'
    compact = senders.stripe(STRIPE, b'{"id":"evt_1"}')
    check_refused(hooks.post(source, body, compact))
    right = senders.stripe(STRIPE, body)
    answer = hooks.post(source, body, right)
    assert is_taken(answer) and answer.content == b""
    [document] = hooks.captured(source)
    jsonschema.Draft202012Validator(SCHEMA).validate(
        {k: v for k, v in document.items() if k != "raw"})
    assert document["raw"] == body
    assert document["id"] == answer.headers["actionist-webhook-id"]
    assert (document["tenant"], document["sender_id"], document["scheme"],
            document["verdict"], document["secret_no"], document["method"]) == (
        hooks.tenant, "evt_1", "stripe", "verified", 1, "POST")
    assert ["Stripe-Signature", right["Stripe-Signature"]] in document[
        "headers"]


@pytest.mark.case("WHK-02")
def test_whk_02_four_byte_characters(hooks):
    source = hooks.add("repo", "github", GITHUB)
    body = '{"t":"\U0001f680"}'.encode()
    for digest, is_right in (
            ("44f5ac82aaba8afa7add3a735a2324abe16caf41b9b82b0bd8dac73b513ce710",
             True),
            ("522cc59668db9c5d44790541e51a2103ac674d9774fa9446835e5a6e80f4954a",
             False),
            ("5a23b170ec815d8e606ffe51c45ecf86db74d617c6d8697bbdfdffaee4e5669b",
             False)):
        answer = hooks.post(source, body,
                            {"X-Hub-Signature-256": f"sha256={digest}"})
        assert answer.status_code == (200 if is_right else 401)
    assert [document["raw"] for document in hooks.captured(source)] == [body]


@pytest.mark.case("WHK-04")
def test_whk_04_body_that_is_not_utf_8(hooks):
    source = hooks.add("chat", "slack", SLACK)
    body = b"text=\xe9"
    assert is_taken(hooks.post(
        source, body, senders.slack(SLACK, body, content_type=FORM)))
    assert [document["raw"] for document in hooks.captured(source)] == [body]


@pytest.mark.case("WHK-23")
def test_whk_23_compressed_bytes_are_the_signed_ones(hooks):
    source = hooks.add("repo", "github", GITHUB)
    text = b'{"zipped": true}'
    body = gzip.compress(text)
    for signed, status in ((text, 401), (body, 200)):
        answer = hooks.post(source, body, {
            **senders.github(GITHUB, signed), "Content-Encoding": "gzip"})
        assert answer.status_code == status
    assert [document["raw"] for document in hooks.captured(source)] == [body]


def test_any_byte_and_the_largest_body_pass(hooks):
    source = hooks.add("repo", "github", GITHUB)
    body = bytes(range(256)) * 4096
    assert len(body) == 1 << 20
    assert is_taken(hooks.post(source, body, senders.github(GITHUB, body)))
    [document] = hooks.captured(source)
    assert document["raw"] == body
    too_large = body + b"x"
    answer = hooks.post(source, too_large, senders.github(GITHUB, too_large))
    assert answer.status_code == 413


# -- URLs and encodings ------------------------------------------------------------


@pytest.mark.case("WHK-06")
def test_whk_06_the_configured_url_counts(hooks):
    url = "https://hooks.example.com/in/twilio?b=1&a=x+y"
    secret = "testonly_twilio_token"
    source = hooks.add("sms", "twilio", secret, "--url", url)
    right = senders.mac64(secret, url.encode() + b"Digits1", "sha1")
    for forwarded in ({"X-Forwarded-Proto": "http"},
                      {"X-Forwarded-Host": "evil.example"}):
        for digest, is_right in ((right, True),
                                 ("zYzfhxDkvRUnNb+/Dthis+p5ZbQ=", False),
                                 ("GMA7rPWN8925PJ94YHUk3IemLDQ=", False)):
            answer = hooks.post(source, b"Digits=1", {
                "X-Twilio-Signature": digest, "Host": "inner:8080",
                "Content-Type": FORM, **forwarded})
            assert answer.status_code == (200 if is_right else 401), digest


@pytest.mark.case("WHK-07")
def test_whk_07_trailing_slash(hooks):
    source = hooks.add("till", "square", "testonly_square_key", "--url",
                       "https://hooks.example.com/in/square")
    for digest, status in (
            ("jxRz0+FknuSc+qtz4eoMNHB19iS9768gNZmZt1Jg3nk=", 200),
            ("98lUWM09HML5+MDONjESSean4BKb9PXXlo9mLRJ+Yg4=", 401)):
        answer = hooks.post(source, b'{"e":1}',
                            {"x-square-hmacsha256-signature": digest})
        assert answer.status_code == status


@pytest.mark.case("WHK-08")
def test_whk_08_base64_is_not_hex(hooks):
    source = hooks.add("shop", "shopify", "testonly_shopify_secret")
    right = "Qtdilc6OpZ77W5s8fwyuN1oaMpu3Oc1nH/j2hMPErYQ="
    wrong = ["42d76295ce8ea59efb5b9b3c7f0cae375a1a329bb739cd671ff8f684c3c4ad84",
             right.lower(), right.rstrip("="), right + "AAAA"]
    for digest in wrong:
        check_refused(hooks.post(source, b'{"id":1}',
                                 {"X-Shopify-Hmac-SHA256": digest}))
    assert is_taken(hooks.post(source, b'{"id":1}',
                               {"X-Shopify-Hmac-SHA256": right}))


@pytest.mark.case("WHK-10")
def test_whk_10_clock_window_both_sides(hooks):
    """Well inside and well outside; the edges are in the unit test."""
    source = hooks.add("pay", "stripe", STRIPE)
    for off, status in ((-400, 401), (-200, 200), (200, 200), (400, 401)):
        body = json.dumps({"id": f"evt_{off}"}).encode()
        answer = hooks.post(source, body,
                            senders.stripe(STRIPE, body, now() + off))
        assert answer.status_code == status, off


@pytest.mark.case("WHK-12")
def test_whk_12_odd_digests(hooks):
    source = hooks.add("repo", "github", GITHUB)
    right = senders.mac(GITHUB, b"{}").hexdigest()
    for text in ("sha256=", "sha256=ab", f"sha256={right[:62]}",
                 f"sha256={right[:63]}", f"sha256={right}00",
                 f"sha256={right * 2}", "sha256=" + "z" * 64, f"SHA256={right}",
                 right, f"sha1={right}"):
        check_refused(hooks.post(source, b"{}", {"X-Hub-Signature-256": text}))
    answer = hooks.post(source, b"{}",
                        {"X-Hub-Signature-256": "sha256=" + "a" * (1 << 18)})
    assert answer.status_code == 431
    assert hooks.captured(source) == []


def test_a_signature_header_sent_twice_is_refused(hooks):
    source = hooks.add("repo", "github", GITHUB)
    right = senders.github(GITHUB, b"{}")["X-Hub-Signature-256"]
    answer = hooks.client("producer-0").post(
        f"/hooks/{hooks.tenant}/{source}", content=b"{}", headers=[
            ("X-Hub-Signature-256", right), ("X-Hub-Signature-256", right)])
    check_refused(answer)


# -- repeats ------------------------------------------------------------------------


@pytest.mark.case("WHK-14")
def test_whk_14_replay_without_an_id(hooks):
    source = hooks.add("chat", "slack", SLACK)
    body = b"text=hello"
    headers = senders.slack(SLACK, body, content_type=FORM)
    answers = [hooks.post(source, body, headers) for _ in range(3)]
    assert [answer.status_code for answer in answers] == [200] * 3
    assert [answer.headers["actionist-webhook-status"] for answer in answers
            ] == ["captured", "duplicate", "duplicate"]
    assert len({answer.headers["actionist-webhook-id"]
                for answer in answers}) == 1
    check_refused(hooks.post(source, body, senders.slack(
        SLACK, body, now() - 400, content_type=FORM)))
    assert hooks.verdicts(source) == ["verified"]


@pytest.mark.case("WHK-15")
def test_whk_15_scope_of_ids(hooks, house, master_key):
    other = Hooks(house, master_key, hooks.tenant + "-b")
    for one in (hooks, other):
        one.add("repo", "github", GITHUB)

    def post(one, body, delivery=None):
        answer = one.post("repo", body, senders.github(GITHUB, body, delivery))
        assert answer.status_code == 200
        return answer.headers["actionist-webhook-status"]

    assert post(hooks, b'{"n":1}') == "captured"
    assert post(hooks, b'{"n":2}') == "captured"
    assert post(hooks, b'{"n":1}', "d-1") == "captured"
    assert post(other, b'{"n":1}', "d-1") == "captured"
    assert post(hooks, b'{"n":3}', "d-1") == "conflict"
    other.close()
    assert other.verdicts() == ["verified"]
    documents = hooks.captured()
    assert [(document["verdict"], document["sender_id"])
            for document in documents] == [
        ("verified", None), ("verified", None), ("verified", "d-1"),
        ("conflict", "d-1")]
    assert len({document["id"] for document in documents}) == 4


def test_a_body_under_another_unsigned_id_is_a_conflict(hooks):
    """Who captured one delivery cannot make two of it."""
    source = hooks.add("repo", "github", GITHUB)
    body = b'{"transfer": 1}'
    for delivery, status in (("d-1", "captured"), ("d-2", "conflict"),
                             ("d-1", "duplicate")):
        answer = hooks.post(source, body,
                            senders.github(GITHUB, body, delivery))
        assert answer.headers["actionist-webhook-status"] == status
    assert hooks.verdicts(source) == ["verified", "conflict"]


def test_every_producer_gives_a_delivery_the_same_id(hooks, house):
    """What another process took, or a killed one, is captured once more, under
    the same id: consumers keep one."""
    source = hooks.add("std", "standard-webhooks", WHSEC)
    body = b'{"type":"a"}'
    ids = set()
    for producer in ("producer-0", "producer-1"):
        answer = hooks.post(source, body, senders.standard(
            WHSEC, body, "msg_1"), producer)
        assert is_taken(answer)
        ids.add(answer.headers["actionist-webhook-id"])
    house["producer-1"].restart()
    hooks.clients.pop("producer-1").close()
    answer = hooks.post(source, body, senders.standard(WHSEC, body, "msg_1"),
                        "producer-1")
    assert is_taken(answer)
    ids.add(answer.headers["actionist-webhook-id"])
    assert len(ids) == 1
    assert {document["id"] for document in hooks.captured(source)} == ids


# -- challenges -----------------------------------------------------------------------


@pytest.mark.case("WHK-18")
def test_whk_18_challenges(hooks):
    source = hooks.add("chat", "slack", SLACK)
    for text in ("ch_0001", "<script>alert(1)</script>"):
        body = json.dumps({"type": "url_verification", "challenge": text,
                           "token": "x"}).encode()
        answer = hooks.post(source, body, senders.slack(SLACK, body))
        assert (answer.status_code, answer.text) == (200, text)
        assert answer.headers["content-type"] == "text/plain"
        assert answer.headers["x-content-type-options"] == "nosniff"
        wrong = {**senders.slack(SLACK, body),
                 "X-Slack-Signature": "v0=" + "0" * 64}
        check_refused(hooks.post(source, body, wrong))
    assert hooks.captured(source) == []


@pytest.mark.case("WHK-18")
def test_whk_18_metas_get(hooks, tmp_path):
    token = tmp_path / "token"
    token.touch(mode=0o600)
    token.write_text("testonly-verify-token\n")
    source = hooks.add("meta", "meta", "app-secret", "--verify-token-file",
                       token)
    query = {"hub.mode": "subscribe", "hub.challenge": "123",
             "hub.verify_token": "testonly-verify-token"}
    answer = hooks.get(source, query)
    assert (answer.status_code, answer.text) == (200, "123")
    assert answer.headers["content-type"] == "text/plain"
    for changed in ({"hub.verify_token": "wrong"}, {"hub.verify_token": ""},
                    {"hub.mode": "unsubscribe"}):
        check_problem(hooks.get(source, {**query, **changed}), 403,
                      "TOKEN_INVALID")
    assert hooks.get(source, {**query, "hub.challenge": ""}).status_code == 400
    body = b'{"object":"page"}'
    assert is_taken(hooks.post(source, body,
                               senders.github("app-secret", body)))
    without = hooks.add("bare", "meta", "app-secret")
    assert hooks.get(without, query).status_code == 403


@pytest.mark.case("WHK-19")
def test_whk_19_no_signing_oracle(hooks):
    secret = "testonly_zoom_token"
    source = hooks.add("zoom", "zoom", secret)
    body = (b'{"event":"endpoint.url_validation",'
            b'"payload":{"plainToken":"plain-0001-AbCd"}}')
    right = senders.zoom(secret, body)
    answer = hooks.post(source, body, right)
    assert answer.status_code == 200
    assert answer.json() == {
        "plainToken": "plain-0001-AbCd", "encryptedToken":
        "24b0df7714ccb9105f301b7fee1730a516f9133c94b4a02fec1fc568fe7ee648"}
    digit = "0" if right["x-zm-signature"][-1] != "0" else "1"
    answer = hooks.post(source, body, {
        **right, "x-zm-signature": right["x-zm-signature"][:-1] + digit})
    check_refused(answer)
    assert "encryptedToken" not in answer.text
    assert hooks.captured(source) == []


@pytest.mark.case("WHK-20")
def test_whk_20_exactly_401(hooks, tmp_path):
    pair = Ed25519(tmp_path)
    source = hooks.add("bot", "discord", pair.public.hex())
    ping = b'{"type":1}'
    right = pair.discord(ping)
    flipped = bytearray.fromhex(right["X-Signature-Ed25519"])
    flipped[0] ^= 1
    for headers in ({**right, "X-Signature-Ed25519": flipped.hex()},
                    {**right, "X-Signature-Ed25519": "nothex"}, {}):
        check_refused(hooks.post(source, ping, headers))
    check_refused(hooks.post(source, b"", right))
    answer = hooks.post(source, ping, right)
    assert (answer.status_code, answer.json()) == (200, {"type": 1})
    event = b'{"type":2,"id":"i-1"}'
    assert is_taken(hooks.post(source, event, pair.discord(event)))
    [document] = hooks.captured(source)
    assert (document["raw"], document["sender_id"]) == (event, "i-1")


def test_twitch_asks_and_then_brings_events(hooks):
    source = hooks.add("live", "twitch", "testonly_twitch_secret")
    body = b'{"subscription":{"id":"s1"},"challenge":"challenge-0001"}'
    answer = hooks.post(source, body, senders.twitch(
        "testonly_twitch_secret", body, "m-1",
        "webhook_callback_verification"))
    assert (answer.status_code, answer.text) == (200, "challenge-0001")
    assert answer.headers["content-type"] == "text/plain"
    assert is_taken(hooks.post(source, body, senders.twitch(
        "testonly_twitch_secret", body, "m-2")))
    assert [document["sender_id"]
            for document in hooks.captured(source)] == ["m-2"]


# -- the senders' own libraries --------------------------------------------------------


@pytest.mark.case("WHK-21")
def test_whk_21_forms_of_a_secret(hooks):
    """With and without prefix it is the same key; the text is none."""
    body = b'{"a":1}'
    text_as_key = {**senders.standard(WHSEC, body, "msg_1"),
                   "webhook-signature": "v1," + senders.mac64(
                       WHSEC, f"msg_1.{now()}.".encode() + body)}
    for name, secret in (("with", WHSEC), ("bare", WHSEC[6:])):
        source = hooks.add(name, "standard-webhooks", secret)
        check_refused(hooks.post(source, body, text_as_key))
        assert is_taken(hooks.post(
            source, body, senders.standard(WHSEC, body, "msg_1")))
    for weak in ("whsec_%%%", "whsec_MDEyMzQ1Njc=", "whsec_", ""):
        done = hooks.ctl("add", "weak", "--scheme", "standard-webhooks",
                         secret=weak, check=False)
        assert done.returncode == 4 and "secret must" in done.stderr
        assert weak in ("", "whsec_") or weak not in done.stderr


@pytest.mark.parametrize("scheme, library, prefix", [
    ("standard-webhooks", standardwebhooks.Webhook, "webhook"),
    ("svix", svix.webhooks.Webhook, "svix"),
])
def test_standard_webhooks_by_their_own_libraries(hooks, scheme, library,
                                                  prefix):
    source = hooks.add("std", scheme, WHSEC)
    body = '{"type":"contact.created","caf\u00e9":9007199254740993}'
    at = datetime.datetime.now(datetime.timezone.utc)
    headers = {f"{prefix}-id": "msg_lib", f"{prefix}-timestamp":
               str(int(at.timestamp())), f"{prefix}-signature":
               library(WHSEC).sign("msg_lib", at, body)}
    library(WHSEC).verify(body, headers)
    assert is_taken(hooks.post(source, body.encode(), headers))
    [document] = hooks.captured(source)
    assert document["sender_id"] == "msg_lib"
    library(WHSEC).verify(document["raw"].decode(), headers)


def test_stripe_by_its_own_library(hooks):
    source = hooks.add("pay", "stripe", STRIPE)
    body = json.dumps({"id": "evt_lib", "object": "event"}, indent=2)
    at = now()
    # pylint: disable=protected-access
    digest = stripe_library.WebhookSignature._compute_signature(
        f"{at}.{body}", STRIPE)
    header = f"t={at},v1={digest},v0=6ffbb59b2300aae63f272406069a9788598b792a"
    stripe_library.WebhookSignature.verify_header(body, header, STRIPE, 300)
    assert is_taken(hooks.post(source, body.encode(),
                               {"Stripe-Signature": header}))
    assert [document["sender_id"]
            for document in hooks.captured(source)] == ["evt_lib"]


def test_senders_that_sign_in_other_ways(hooks):
    url = "https://hooks.example.com/in/hubspot?portal=42"
    hooks.add("deals", "hubspot-v3", "hub", "--url", url)
    hooks.add("bills", "paddle", "pad")
    body = b'{"event_id":"evt_p1"}'
    assert is_taken(hooks.post("deals", body,
                               senders.hubspot("hub", body, url)))
    assert is_taken(hooks.post("bills", body, senders.paddle("pad", body)))
    assert [document["sender_id"]
            for document in hooks.captured("bills")] == ["evt_p1"]
