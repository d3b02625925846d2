"""``flinknet certs``: a certificate authority of the cluster, its certificates and their renewal.

A directory has ``ca.pem`` and ``ca.key``, and NAME.pem and NAME.key for each certificate. A process
needs its own two files and ``ca.pem``; ``ca.key`` stays where it was made. The keys use the curve
P-256, which has the cheapest handshake.
"""

from __future__ import annotations

import hashlib
import ipaddress
import os
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated

import typer
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from rich import box
from rich.table import Table

from flinknet import machine
from flinknet.cli.console import table_console
from flinknet.errors import ConfigurationError
from flinknet.net.tls import check_private

__all__ = ["certs", "expired", "init", "issue", "renew"]

_AUTHORITY = "ca"
_CLOCK_DIFFERENCE = timedelta(minutes=5)
"""Backdating of a certificate, because the clocks of hosts differ."""

Directory = Annotated[
    Path, typer.Argument(metavar="DIR", help="Directory of the authority and its certificates.")
]
Days = Annotated[
    int, typer.Option(min=1, max=36_500, help="Days for which the certificate is valid.")
]

certs = typer.Typer(
    help="Make and renew the certificates of a cluster.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)


@certs.command("init")
def init(directory: Directory, *, days: Days = 3650) -> None:
    """Make a certificate authority in DIR.

    DIR must not have one yet.
    """
    place = directory / f"{_AUTHORITY}.pem"
    if place.exists():
        raise ConfigurationError(
            f"{directory} already has an authority, {place}: choose another directory"
        )
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    key = ec.generate_private_key(ec.SECP256R1())
    name = _name(f"flinknet authority {machine.token_hex(4)}")
    builder = (
        _builder(name, name, key, timedelta(days=days))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(signs_certificates=True), critical=True)
    )
    _write(directory, _AUTHORITY, builder.sign(key, hashes.SHA256()), key)
    print(place)


@certs.command("issue")
def issue(
    directory: Directory,
    name: Annotated[
        str,
        typer.Argument(
            help='Id of a worker ("worker-0"), pattern for several workers ("worker-*"), or any '
            "name for a coordinator or a client."
        ),
    ],
    *,
    host: Annotated[
        list[str] | None,
        typer.Option(help="Host name or IP address of a coordinator; may be repeated."),
    ] = None,
    days: Days = 90,
) -> None:
    """Make a certificate with the authority in DIR.

    It replaces a certificate of the same name.
    """
    names = [_alternative(one) for one in (name, *(host or ()))]
    _issue(directory, _file_of(name), name, names, timedelta(days=days))
    print(directory / f"{_file_of(name)}.pem")


@certs.command("renew")
def renew(
    directory: Directory,
    *,
    within: Annotated[
        int, typer.Option(min=0, help="Renew certificates that are valid for fewer days than this.")
    ] = 30,
    days: Days = 90,
) -> None:
    """Renew the certificates in DIR that expire soon.

    Running processes read the new files.
    """
    soon = datetime.now(UTC) + timedelta(days=within)
    for file, certificate in _certificates(directory):
        if file.stem == _AUTHORITY:
            if certificate.not_valid_after_utc < soon:
                raise ConfigurationError(
                    f"the authority {file} expires on {certificate.not_valid_after_utc:%Y-%m-%d}: "
                    "make a new one in another directory, and let every process trust both (an "
                    "authority file may have several certificates) before any process uses a "
                    "certificate of the new one"
                )
        elif certificate.not_valid_after_utc < soon:
            names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
            [subject] = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
            _issue(directory, file.stem, str(subject.value), names.value, timedelta(days=days))
            print(file)


@certs.command("show")
def show(directory: Directory) -> None:
    """Show the certificates in DIR.

    The columns are names, expiry, and the SHA-256 fingerprint for `cluster.tls.pinned`.
    """
    table = Table("file", "names", "valid until", "SHA-256", box=box.SIMPLE_HEAD)
    for file, certificate in _certificates(directory):
        names = ", ".join(str(one.value) for one in _names(certificate)) or "authority"
        until = f"{certificate.not_valid_after_utc:%Y-%m-%d %H:%M}"
        until += " EXPIRED" if expired(certificate) else ""
        raw = certificate.public_bytes(serialization.Encoding.DER)
        table.add_row(file.name, names, until, hashlib.sha256(raw).hexdigest())
    table_console().print(table)


def expired(certificate: x509.Certificate) -> bool:
    """Return whether a certificate has expired."""
    return certificate.not_valid_after_utc < datetime.now(UTC)


def _issue(
    directory: Path,
    file: str,
    name: str,
    names: Sequence[x509.GeneralName] | x509.SubjectAlternativeName,
    validity: timedelta,
) -> None:
    authority, authority_key = _authority_of(directory)
    key = ec.generate_private_key(ec.SECP256R1())
    builder = (
        _builder(_name(name), authority.subject, key, validity, authority.not_valid_after_utc)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(signs_certificates=False), critical=True)
        .add_extension(
            x509.ExtendedKeyUsage(
                [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
            ),
            critical=False,
        )
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key()),
            critical=False,
        )
    )
    _write(directory, file, builder.sign(authority_key, hashes.SHA256()), key)


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    validity: timedelta,
    at_most: datetime | None = None,
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    until = now + validity if at_most is None else min(now + validity, at_most)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCK_DIFFERENCE)
        .not_valid_after(until)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _name(common_name: str) -> x509.Name:
    try:
        return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
    except ValueError as error:
        raise ConfigurationError(
            f"{common_name[:80]!r} cannot be the name of a certificate: {error}"
        ) from error


def _alternative(name: str) -> x509.GeneralName:
    """Return the name in the form that a certificate has: an IP address or a DNS name."""
    with suppress(ValueError):
        return x509.IPAddress(ipaddress.ip_address(name))
    try:
        return x509.DNSName(name)
    except ValueError as error:
        raise ConfigurationError(
            f"{name[:80]!r} cannot be in a certificate: use ASCII letters"
        ) from error


def _file_of(name: str) -> str:
    """Return the base name of a certificate's files; ConfigurationError if it cannot be one."""
    file = name.replace("*", "any")
    if file in ("", ".", "..", _AUTHORITY) or "/" in file or "\0" in file:
        raise ConfigurationError(f"{name[:80]!r} cannot be the name of a certificate's files")
    return file


def _authority_of(directory: Path) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    certificate, key = (directory / f"{_AUTHORITY}.{kind}" for kind in ("pem", "key"))
    if not certificate.exists() or not key.exists():
        raise ConfigurationError(
            f"{directory} has no authority with its key: make one by `flinknet certs init "
            f"{directory}`"
        )
    check_private(key, "the key of the authority")
    loaded = serialization.load_pem_private_key(key.read_bytes(), password=None)
    if not isinstance(loaded, ec.EllipticCurvePrivateKey):
        raise ConfigurationError(f"{key} was not made by flinknet certs")
    return _load(certificate), loaded


def _certificates(directory: Path) -> list[tuple[Path, x509.Certificate]]:
    found = [(file, _load(file)) for file in sorted(directory.glob("*.pem"))]
    if not found:
        raise ConfigurationError(f"{directory} has no certificates")
    return found


def _load(file: Path) -> x509.Certificate:
    try:
        return x509.load_pem_x509_certificate(file.read_bytes())
    except ValueError as error:
        raise ConfigurationError(f"{file} is not a certificate") from error


def _names(certificate: x509.Certificate) -> Sequence[x509.GeneralName]:
    try:
        return list(
            certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        )
    except x509.ExtensionNotFound:
        return []


def _write(
    directory: Path, file: str, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey
) -> None:
    """Write both files, each atomically: a process reads either the old or the new content."""
    encoded = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    _replace(directory / f"{file}.key", encoded, 0o600)
    _replace(directory / f"{file}.pem", certificate.public_bytes(serialization.Encoding.PEM), 0o644)


def _replace(path: Path, content: bytes, mode: int) -> None:
    # The random name prevents another user from placing a file or link at a guessable name.
    half = path.with_name(f".{path.name}.{machine.token_hex(8)}")
    descriptor = os.open(half, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with os.fdopen(descriptor, "wb") as writing:
        writing.write(content)
    half.replace(path)
