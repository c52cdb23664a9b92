# SPDX-License-Identifier: Apache-2.0
"""OUT-12: certificates of providers, good ones and all kinds of bad ones."""

import datetime
import http.server
import ssl
import subprocess
import threading

import pytest

from lib import flow
from lib.api import add_connector

# Python says that TLS 1.0 is old; so it is.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

TENANT = "certificates"
LEAF = "basicConstraints=critical,CA:FALSE\nextendedKeyUsage=serverAuth\n"
CA = ("basicConstraints=critical,CA:TRUE\nkeyUsage=critical,keyCertSign\n"
      "subjectKeyIdentifier=hash\n")

# name: (subject alternative name, first and last day from today, signed by)
BAD = {
    "expired": ("DNS:localhost", -9, -1, "root"),
    "not-yet-valid": ("DNS:localhost", 1, 9, "root"),
    "wrong-name": ("DNS:example.com", -1, 9, "root"),
    "name-only-in-cn": (None, -1, 9, "root"),
    "deep-wildcard": ("DNS:*.b.localhost", -1, 9, "root"),
    "address-without-san": ("DNS:localhost", -1, 9, "root"),
    "self-signed": ("DNS:localhost", -1, 9, None),
    "unknown-authority": ("DNS:localhost", -1, 9, "stranger"),
    "missing-intermediate": ("DNS:localhost", -1, 9, "middle"),
    "old-protocol": ("DNS:localhost", -1, 9, "root"),
}
GOOD = {
    "good": ("DNS:localhost", -1, 9, "root"),
    "good-address": ("IP:127.0.0.1", -1, 9, "root"),
    "good-chain": ("DNS:localhost", -1, 9, "middle"),
    # The old root has expired; the new one, in the store, has its key.
    "good-beside-an-expired-root": ("DNS:localhost", -1, 9, "root"),
}


class Authority:
    """Keys and certificates in one folder, made by openssl."""

    def __init__(self, folder):
        self.folder = folder
        (folder / "index").touch()
        (folder / "index.attr").write_text("unique_subject = no\n")
        (folder / "ca.conf").write_text(
            f"[ca]\ndefault_ca=d\n[d]\nnew_certs_dir={folder}\n"
            f"database={folder}/index\nrand_serial=yes\ndefault_md=sha256\n"
            "policy=p\nemail_in_dn=no\n[p]\ncommonName=supplied\n"
            "[req]\ndistinguished_name=n\n[n]\n")

    def run(self, *words):
        subprocess.run(["openssl", *map(str, words)], cwd=self.folder,
                       check=True, capture_output=True)

    def key(self, name, common_name):
        """A key and a request to sign it."""
        self.run("req", "-new", "-newkey", "ec", "-pkeyopt",
                 "ec_paramgen_curve:P-256", "-nodes", "-config", "ca.conf",
                 "-subj", f"/CN={common_name}", "-keyout", f"{name}.key",
                 "-out", f"{name}.csr")

    def sign(self, name, by, days, extensions, out=None):
        """A certificate of `name`'s key; by None: by its own."""
        (self.folder / "ext").write_text(extensions)
        signer = (("-selfsign", "-keyfile", f"{name}.key") if by is None else
                  ("-cert", f"{by}.pem", "-keyfile", f"{by}.key"))
        self.run("ca", "-batch", "-notext", "-config", "ca.conf", *signer,
                 "-startdate", day(days[0]), "-enddate", day(days[1]),
                 "-extfile", "ext", "-in", f"{name}.csr",
                 "-out", f"{out or name}.pem")

    def text(self, name):
        return (self.folder / f"{name}.pem").read_text()


def day(number):
    now = datetime.datetime.now(datetime.timezone.utc)
    return (now + datetime.timedelta(number)).strftime("%Y%m%d%H%M%SZ")


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    made = Authority(tmp_path_factory.mktemp("authority"))
    for name, by in (("root", None), ("stranger", None), ("middle", "root")):
        made.key(name, name)
        made.sign(name, by, (-1, 9), CA)
    made.sign("root", None, (-9, -1), CA, "old-root")
    for name, (names, first, last, by) in {**BAD, **GOOD}.items():
        made.key(name, "localhost")
        alternative = f"subjectAltName={names}\n" if names else ""
        made.sign(name, by, (first, last), LEAF + alternative)
    return made


class Provider(http.server.ThreadingHTTPServer):
    """Speaks TLS with one certificate; counts the requests it can read."""
    daemon_threads = True

    def __init__(self, context):
        super().__init__(("127.0.0.1", 0), Handler)
        self.context = context
        self.seen = 0
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def finish_request(self, request, client_address):
        """The handshake is the thread's, not the accepting loop's."""
        try:
            request = self.context.wrap_socket(request, server_side=True)
        except OSError:
            return
        super().finish_request(request, client_address)


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers anything with true."""

    def do_POST(self):
        self.server.seen += 1
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Length", "4")
        self.end_headers()
        self.wfile.write(b"true")

    def log_message(self, *_):
        """The test says what matters."""


def context_of(authority, name):
    chain = authority.folder / f"{name}.chain"
    more = {"good-chain": "middle", "good-beside-an-expired-root": "old-root"}
    chain.write_text(authority.text(name) + (
        authority.text(more[name]) if name in more else ""))
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.load_cert_chain(chain, authority.folder / f"{name}.key")
    if name == "old-protocol":
        made.set_ciphers("ALL:@SECLEVEL=0")
        made.minimum_version = ssl.TLSVersion.TLSv1
        made.maximum_version = ssl.TLSVersion.TLSv1
    return made


@pytest.fixture(scope="module")
def providers(authority):
    made = {name: Provider(context_of(authority, name))
            for name in (*BAD, *GOOD)}
    yield made
    for one in made.values():
        one.shutdown()
        one.server_close()


@pytest.fixture(scope="module")
def ended(fleets, authority, providers, work_dir):
    """{name: outcome} of one call to each provider."""
    # pytest's own folders are root's; runners are other users.
    store = work_dir / "providers-ca.pem"
    store.write_text(authority.text("old-root") + authority.text("root"))
    store.chmod(0o644)
    house = fleets(producers=0, settings={"worker": {
        "run.ca_file": store, "egress.private_allow": "127.0.0.1, ::1"}})
    for name, one in providers.items():
        host = "127.0.0.1" if "address" in name else "localhost"
        add_connector(house, name, {"post": flow.action("unsafe")},
                      f"https://{host}:{one.server_address[1]}",
                      retry={"max_attempts": 2, "base_ms": 20, "max_ms": 40})
    flow.publish(house, [flow.request(TENANT, name, "post", name)
                         for name in providers])
    return flow.wait_ended(house, TENANT, len(providers), 90)


@pytest.mark.parametrize("name", BAD)
def test_out_12_bad_certificates(ended, providers, name):
    """Nothing is sent, so even an unsafe action is tried again; then ends."""
    out = ended[name]
    assert (out["status"], out["attempts"]) == ("exhausted", 2), out
    assert out["error"]["code"] == "TLS_FAILED"
    assert providers[name].seen == 0


@pytest.mark.parametrize("name", GOOD)
def test_out_12_good_certificates(ended, providers, name):
    assert (ended[name]["status"], ended[name]["result"]) == (
        "succeeded", True), ended[name]
    assert providers[name].seen == 1
