"""Credentials of a client of brokers, under the names that Pulsar's clients use for them.

One `ClientSecurity` serves the admin API (`http_session`) and the binary protocol (`shown`,
`context`); brokers, the balancer and every verb that talks to a cluster have one.
"""

import base64
import json
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote, urlsplit

from counterpoise.names.options import ConfigError
from counterpoise.security.options import ClientOptions
from counterpoise.security.tls import load_certificate, trust

if TYPE_CHECKING:
    import aiohttp

PACKAGE: Final = "org.apache.pulsar.client.impl.auth."


@dataclass(frozen=True, slots=True)
class Names:
    """The names of the security settings where a person set them, for error messages."""

    plugin: str = "brokerClientAuthenticationPlugin"
    parameters: str = "brokerClientAuthenticationParameters"
    trust: str = "brokerClientTrustCertsFilePath"
    certificate: str = "brokerClientCertificateFilePath"
    key: str = "brokerClientKeyFilePath"


class ClientSecurity:
    """A client's security settings: its credentials, and the authorities that it trusts."""

    def __init__(self, options: ClientOptions | None = None, names: Names | None = None) -> None:
        """Reads what the settings name; raises `ConfigError`, which never quotes a secret."""
        self._options = options or ClientOptions()
        self._names = names or Names()
        self.method = "none"
        """The method's name in the binary protocol: ``token``, ``tls``, ``basic`` or ``none``."""
        self._data: Callable[[], str] = str
        self._files = (self._options.certificate, self._options.key)
        self._read_plugin()
        if any(self._files) and not all(self._files):
            missing = self._names.key if self._files[0] else self._names.certificate
            raise ConfigError(missing, "is needed too: a certificate and its key go together")
        # Read now, so that credentials and files that cannot be used are reported at the start.
        self.shown()
        if self._options.trust or any(self._files):
            self.context()

    def as_another(self, token: str = "") -> "ClientSecurity":
        """Settings with the same TLS trust and another token; with an empty token, no
        credentials.
        """
        options = replace(
            self._options,
            plugin="token" if token else "",
            parameters=f"token:{token}" if token else "",
            certificate="",
            key="",
        )
        return ClientSecurity(options, self._names)

    def shown(self) -> tuple[str, bytes]:
        """The authentication method and data for CONNECT; a token file is read again each time."""
        return self.method, self._data().encode()

    def headers(self) -> dict[str, str]:
        """The HTTP headers that authenticate a request to the admin API."""
        if self.method == "token":
            return {"Authorization": f"Bearer {self._data()}"}
        if self.method == "basic":
            coded = base64.b64encode(self._data().encode()).decode()
            return {"Authorization": f"Basic {coded}"}
        return {}

    @property
    def has_tls_settings(self) -> bool:
        """Whether any TLS setting differs from the default."""
        options = self._options
        return bool(options.trust or any(self._files) or options.allow_insecure or options.tls)

    def context(self) -> ssl.SSLContext:
        """The TLS context for connections to brokers; raises `ConfigError`."""
        options, names = self._options, self._names
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.check_hostname = options.verify_host and not options.allow_insecure
        if options.allow_insecure:
            context.verify_mode = ssl.CERT_NONE
        else:
            trust(context, names.trust, options.trust)
        if all(self._files):
            certificate, key = self._files
            load_certificate(context, (names.certificate, certificate), (names.key, key))
        return context

    def _read_plugin(self) -> None:
        match self._options.plugin.strip().removeprefix(PACKAGE):
            case "" | "AuthenticationDisabled":
                return
            case "AuthenticationToken" | "token":
                self.method, self._data = "token", self._token()
            case "AuthenticationBasic" | "basic":
                self.method, self._data = "basic", self._password()
            case "AuthenticationTls" | "tls":
                self.method = "tls"
                found = self._pairs()
                self._files = (found.get("tlsCertFile", ""), found.get("tlsKeyFile", ""))
                if not any(self._files):
                    raise ConfigError(
                        self._names.parameters, "expected tlsCertFile:/path,tlsKeyFile:/path"
                    )
            case other:
                raise ConfigError(
                    self._names.plugin,
                    f"{other} is not supported; {PACKAGE}AuthenticationToken, …Tls and …Basic are",
                )

    def _token(self) -> Callable[[], str]:
        text = self._options.parameters.strip()
        if text.startswith("file:"):
            path, setting = Path(unquote(urlsplit(text).path)), self._names.parameters
            return lambda: _read(path, setting)
        if text.startswith("{"):
            text = str(self._json().get("token", ""))
        token = text.removeprefix("token:").strip()
        if not token:
            raise ConfigError(self._names.parameters, "expected token:… or file:///path of a token")
        return lambda: token

    def _password(self) -> Callable[[], str]:
        found = self._json() if self._options.parameters.strip().startswith("{") else self._pairs()
        user = found.get("userId") or found.get("username")
        if not user or "password" not in found:
            raise ConfigError(self._names.parameters, 'expected {"userId":"…","password":"…"}')
        both = f"{user}:{found['password']}"
        return lambda: both

    def _json(self) -> Mapping[str, Any]:
        try:
            found = json.loads(self._options.parameters)
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise ConfigError(self._names.parameters, "is no JSON object")
        return found

    def _pairs(self) -> Mapping[str, str]:
        if self._options.parameters.strip().startswith("{"):
            return self._json()
        pairs = (each.partition(":") for each in self._options.parameters.split(","))
        return {name.strip(): value.strip() for name, _, value in pairs}


ANSWER_WITHIN_S: Final = 60.0
"""How many seconds a broker may take to answer: an unload or a split is answered at its end."""
ANONYMOUS: Final = ClientSecurity()
"""A client without credentials, which trusts the certificate authorities of the machine."""


def http_session(
    security: ClientSecurity, timeout_s: float = ANSWER_WITHIN_S
) -> "aiohttp.ClientSession":
    """A session for a cluster's admin API.

    ``timeout_s`` is how long an answer may take, from its request to its last byte.

    Brokers redirect to each other, and aiohttp drops credentials when the host changes. So they
    are added to each request, but never to one without TLS once a request of the session used it.
    """
    # Imported here: brokers without an admin API use the rest of this file.
    import aiohttp

    by_tls = False

    async def add_credentials(
        request: "aiohttp.ClientRequest", handler: "aiohttp.ClientHandlerType"
    ) -> "aiohttp.ClientResponse":
        nonlocal by_tls
        by_tls = by_tls or request.url.scheme == "https"
        if request.url.scheme == "https" or not by_tls:
            request.headers.update(security.headers())
        return await handler(request)

    # Only with TLS settings a context of its own: loading the machine's authorities takes long.
    ours = security.context() if security.has_tls_settings else True
    connector = aiohttp.TCPConnector(ssl=ours)
    return aiohttp.ClientSession(
        connector=connector,
        middlewares=(add_credentials,),
        timeout=aiohttp.ClientTimeout(total=timeout_s),
    )


def _read(path: Path, setting: str) -> str:
    try:
        return path.read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not text"
        raise ConfigError(setting, f"cannot read {path}: {why}") from None
