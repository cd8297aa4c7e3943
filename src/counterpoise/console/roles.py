"""Who uses a page of the console, and whether the cluster lets them move and split bundles."""

import base64
import binascii
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import aiohttp
import orjson

from counterpoise.names.options import ConfigError
from counterpoise.pipeline.collect.admin import UNREADABLE, Admin, AdminOptions, RefusedError
from counterpoise.pipeline.collect.words import error_text
from counterpoise.security.client import ANONYMOUS, ClientSecurity, http_session

ASKED = "/admin/v2/brokers/configuration/runtime"
"""The path that is requested to find out whether an operator may act.

A GET of it changes nothing. Only a superuser may read it, and only a superuser may unload and
split."""
PATIENCE_S = 5.0
"""Seconds that a broker may take to answer this request."""
SHOWN: Mapping[str, str] = MappingProxyType(
    {"token": "token", "basic": "password", "tls": "certificate"}
)
"""What a person calls the credential of each authentication method."""


@dataclass(frozen=True, slots=True)
class Operator:
    """The identity with which a page accesses the cluster."""

    security: ClientSecurity = ANONYMOUS
    """The credentials to present, and the certificate authorities to trust."""
    own: bool = False
    """Whether the operator entered the credential on the page; otherwise it is the console's."""

    @property
    def name(self) -> str:
        """The operator's name as pages and records show it, with the kind of credential."""
        method = self.security.method
        if method not in SHOWN:
            return "anonymous (no credential is presented to the cluster)"
        whose = f"your {SHOWN[method]}" if self.own else f"the console's own {SHOWN[method]}"
        try:
            text = self.security.shown()[1].decode(errors="replace")
        except ConfigError as error:
            return f"{whose}, which is out of reach: {error}"
        subject = {"token": subject_of(text), "basic": text.partition(":")[0]}.get(method, "")
        return f"{subject} ({whose})" if subject else whose

    def session(self) -> aiohttp.ClientSession:
        """Open a session for the admin API with the operator's credentials."""
        return http_session(self.security)


@dataclass(frozen=True, slots=True)
class Standing:
    """Whether a cluster lets an operator act."""

    may: bool | None
    """Whether the operator may act; None: the cluster did not answer."""
    sentence: str
    """The result as a sentence for the operator."""


async def standing(operator: Operator, addresses: Iterable[str]) -> Standing:
    """Ask the first broker that responds whether the operator may move and split bundles.

    `addresses` are admin URLs, tried in turn.
    """
    reason = ""
    async with operator.session() as session:
        admin = Admin(session, AdminOptions(timeout_s=PATIENCE_S))
        for address in addresses:
            try:
                await admin.get(address.rstrip("/") + ASKED)
            except RefusedError as error:
                if error.status in {401, 403}:
                    return Standing(False, f"the cluster refuses {operator.name}: {error}")
                reason = error_text(error)
            except UNREADABLE as error:
                reason = error_text(error)
            else:
                return Standing(True, f"{operator.name}: the cluster takes this for a superuser")
    return Standing(None, f"the cluster does not say whether {operator.name} may: {reason}")


def subject_of(token: str) -> str:
    """Return the subject of a JSON Web Token without verifying it; empty if there is none."""
    parts = token.split(".")
    if len(parts) != 3:
        return ""
    try:
        padded = parts[1] + "=" * (-len(parts[1]) % 4)
        claims = orjson.loads(base64.urlsafe_b64decode(padded))
    except (binascii.Error, ValueError):
        return ""
    return str(claims.get("sub", ""))[:100] if isinstance(claims, dict) else ""
