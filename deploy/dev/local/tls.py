# SPDX-License-Identifier: Apache-2.0
"""A throw-away CA and one server certificate for 127.0.0.1, by openssl."""

import pathlib
import subprocess

from .process import ClusterError

SERVER_EXTENSIONS = """\
basicConstraints=critical,CA:FALSE
keyUsage=critical,digitalSignature,keyEncipherment
extendedKeyUsage=serverAuth
subjectAltName=IP:127.0.0.1,DNS:localhost
"""


def _openssl(*args):
    done = subprocess.run(["openssl", *map(str, args)], capture_output=True,
                          text=True, check=False)
    if done.returncode != 0:
        raise ClusterError(f"openssl {args[0]}: {done.stderr.strip()}")


def make(folder):
    """Writes ca.pem, server.pem, server.key (PKCS 8) and their CA's key."""
    folder = pathlib.Path(folder)
    folder.mkdir(mode=0o755)
    request = folder / "server.csr"
    extensions = folder / "server.ext"
    extensions.write_text(SERVER_EXTENSIONS)
    _openssl("req", "-x509", "-newkey", "ec", "-pkeyopt",
             "ec_paramgen_curve:P-256", "-nodes", "-days", "30",
             "-subj", "/CN=actionist local CA",
             "-addext", "keyUsage=critical,keyCertSign,cRLSign",
             "-keyout", folder / "ca.key", "-out", folder / "ca.pem")
    _openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
             "-nodes", "-subj", "/CN=localhost",
             "-keyout", folder / "server.key", "-out", request)
    _openssl("x509", "-req", "-in", request, "-days", "30",
             "-CA", folder / "ca.pem", "-CAkey", folder / "ca.key",
             "-CAcreateserial", "-extfile", extensions,
             "-out", folder / "server.pem")
    request.unlink()
    extensions.unlink()
    for name in ("ca.key", "server.key"):
        (folder / name).chmod(0o600)
    return folder
