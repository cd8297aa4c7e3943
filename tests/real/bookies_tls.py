"""Bookies that take TLS and ask for a client's certificate; clients with one and without."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

from counterpoise.app.clusters.throwaway import KeyPair, ThrowAwayAuthority
from counterpoise.bookkeeper.client import BookieLedgerClient
from counterpoise.bookkeeper.client_port import LedgerClient
from counterpoise.metadata import MetadataStore
from counterpoise.names.options import options_of
from counterpoise.storage.bookie_client_options import BookieClientOptions
from counterpoise.storage.managed.connect import client_options
from counterpoise.storage.managed_options import ManagedLedgerOptions
from tests.real.parts import counterpoise, environment

ROLE = "broker"


class BookiesTls:
    """Certificates for bookies and their clients."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.authority = ThrowAwayAuthority(folder)
        self.bookie = self.authority.server("bookie")
        self.options = self._options(self.authority.client("broker"))
        self.with_role = self._options(self.authority.client("operator", unit=f"0:{ROLE}"))
        (folder / "other").mkdir(exist_ok=True)
        other = str(ThrowAwayAuthority(folder / "other").certificate)
        self.refused = {
            "a client without a certificate": replace(self.options, certificate="", key=""),
            "a client that trusts another authority": replace(self.options, trust=other),
        }

    def _options(self, client: KeyPair) -> BookieClientOptions:
        return BookieClientOptions(
            tls=True,
            certificate=str(client.certificate),
            key=str(client.key),
            trust=str(self.authority.certificate),
        )

    def of_refusing_bookie(self) -> dict[str, object]:
        """More settings: it serves nobody but clients by TLS whose certificate names the role."""
        return {
            "bookieAuthProviderFactoryClass": "org.apache.bookkeeper.tls.BookieAuthZFactory",
            "authorizedRoles": ROLE,
        }

    def of_bookie(self) -> dict[str, object]:
        """A bookie's settings; it serves clients that do not start TLS as well."""
        return {
            "tlsProviderFactoryClass": "org.apache.bookkeeper.tls.TLSContextFactory",
            "tlsProvider": "JDK",
            "tlsKeyStoreType": "PEM",
            "tlsKeyStore": self.bookie.key,
            "tlsCertificatePath": self.bookie.certificate,
            "tlsTrustStoreType": "PEM",
            "tlsTrustStore": self.authority.certificate,
            "tlsClientAuthentication": "true",
        }


def broker_settings(options: BookieClientOptions) -> dict[str, str]:
    """These options as broker.conf has them."""
    given = {each.conf: str(getattr(options, name)) for name, each in options_of(type(options))}
    return {**given, "bookkeeperTLSClientAuthentication": str(options.tls).lower()}


async def by_storage_verb(
    metadata_url: str, ledger: int, options: BookieClientOptions
) -> tuple[int, list[dict[str, Any]]]:
    """Status and rows of `counterpoise storage entries` on a ledger, with these settings."""
    command = counterpoise(
        "storage",
        "entries",
        "--metadata",
        metadata_url,
        "--ledger",
        str(ledger),
        "--json",
        *(f"--set={name}={value}" for name, value in broker_settings(options).items()),
    )
    child = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.PIPE, env=environment()
    )
    out, _ = await asyncio.wait_for(child.communicate(), 300)
    return child.returncode or 0, json.loads(out or b"[]")


@contextlib.asynccontextmanager
async def tls_client(
    store: MetadataStore, options: BookieClientOptions
) -> AsyncIterator[LedgerClient]:
    chosen = client_options(ManagedLedgerOptions(), options)
    # A bookie's first handshake loads Java's classes for it.
    chosen = replace(chosen, bookies=replace(chosen.bookies, connect_s=60.0))
    client = await BookieLedgerClient.open(store, chosen, Random(1))
    try:
        yield client
    finally:
        await client.close()
