"""Options for connecting to a cluster that verbs share, under pulsar-admin's names."""

import argparse
from dataclasses import replace
from typing import TYPE_CHECKING

from counterpoise.app.conf import given_conf, settings_from
from counterpoise.security.client import ANSWER_WITHIN_S, ClientSecurity, Names, http_session
from counterpoise.security.options import ClientOptions

if TYPE_CHECKING:
    import aiohttp

_NAMES = Names(plugin="--auth-plugin", parameters="--auth-params", trust="--tls-trust-cert-path")


def client_argv(args: argparse.Namespace) -> list[str]:
    """Return a command's options for TLS and authentication as arguments for a child process."""
    given = {
        "--auth-plugin": args.auth_plugin,
        "--auth-params": args.auth_params,
        "--tls-trust-cert-path": args.tls_trust_cert_path,
    }
    argv = [text for name, value in given.items() if value is not None for text in (name, value)]
    argv += ["--tls-allow-insecure"] if args.tls_allow_insecure else []
    argv += ["--tls-enable-hostname-verification"] if args.tls_enable_hostname_verification else []
    return argv


def client_session(args: argparse.Namespace) -> "aiohttp.ClientSession":
    """Open a session for the admin API with a command's credentials; raises ``ConfigError``."""
    return http_session(client_security(args), args.timeout or ANSWER_WITHIN_S)


def client_security(args: argparse.Namespace) -> ClientSecurity:
    """Read the credentials from a command's options, or else from ``brokerClient…`` settings.

    These settings come from ``--conf`` and ``--set``, if the command has them.

    Raises ``ConfigError``.
    """
    options, names = ClientOptions(), _NAMES
    if "conf" in args:
        options = settings_from(ClientOptions, given_conf(args.conf, args.settings))
    if args.auth_plugin is None and options.plugin:
        names = Names()
    if args.auth_plugin is not None or args.auth_params is not None:
        plugin = args.auth_plugin or options.plugin
        options = replace(options, plugin=plugin, parameters=args.auth_params or "")
    options = replace(
        options,
        trust=args.tls_trust_cert_path or options.trust,
        allow_insecure=args.tls_allow_insecure or options.allow_insecure,
        verify_host=args.tls_enable_hostname_verification or options.verify_host,
    )
    return ClientSecurity(options, names)
