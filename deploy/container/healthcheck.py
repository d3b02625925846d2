"""Ask the coordinator of this container for /livez: exit status 0 if it answers."""

from __future__ import annotations

import os
import ssl
import sys
import urllib.request


def main() -> int:
    """Ask at the port, and over TLS, as the environment configures the coordinator."""
    port = os.environ.get("FLINKNET_CLUSTER_COORDINATOR_PORT", "8081")
    certificate = os.environ.get("FLINKNET_CLUSTER_TLS_CERTIFICATE")
    scheme, context = "http", None
    if certificate:
        scheme, context = "https", ssl.create_default_context()
        # It asks its own container, and sends no secret. A certificate has other names than this.
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        context.load_cert_chain(certificate, os.environ["FLINKNET_CLUSTER_TLS_PRIVATE_KEY"])
    url = f"{scheme}://127.0.0.1:{port}/livez"
    try:
        with urllib.request.urlopen(url, timeout=4, context=context):
            return 0
    except OSError as error:
        print(f"{url}: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
