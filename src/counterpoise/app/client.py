"""Options for connecting to a cluster that verbs share, under pulsar-admin's names."""

from __future__ import annotations

import argparse
from dataclasses import replace

from counterpoise.app.conf import given_conf, settings_from
from counterpoise.security.client import ClientSecurity, Names
from counterpoise.security.options import ClientOptions

_NAMES = Names(plugin="--auth-plugin", parameters="--auth-params", trust="--tls-trust-cert-path")


def add_admin_url_argument(parser: argparse.ArgumentParser, *, required: bool = True) -> None:
    """Add ``--admin-url``."""
    parser.add_argument(
        "--admin-url",
        required=required,
        metavar="URL",
        help="admin address of any broker; several, separated by commas, are tried in turn",
    )


def add_client_arguments(parser: argparse.ArgumentParser) -> None:
    """Add pulsar-admin's options for TLS and authentication."""
    group = parser.add_argument_group("a cluster that asks who you are (as for pulsar-admin)")
    group.add_argument(
        "--auth-plugin",
        metavar="CLASS",
        help="token, tls or basic, or the class of Pulsar's client for it, such as "
        "org.apache.pulsar.client.impl.auth.AuthenticationToken",
    )
    group.add_argument(
        "--auth-params",
        metavar="TEXT",
        help="file:///path of a token (others may read token:… off the process list), "
        'tlsCertFile:…,tlsKeyFile:… or {"userId":…,"password":…}',
    )
    group.add_argument(
        "--tls-trust-cert-path",
        "--tls-trust-certs",
        metavar="FILE",
        help="the authorities to trust for https:// (default: this machine's)",
    )
    group.add_argument(
        "--tls-allow-insecure",
        action="store_true",
        help="accept any certificate: a machine in between can read and change everything",
    )
    group.add_argument(
        "--tls-enable-hostname-verification",
        action="store_true",
        help="insist that a certificate is for the host that was asked",
    )


def client_argv(args: argparse.Namespace) -> list[str]:
    """The same options as arguments for a child process that uses the same cluster."""
    given = {
        "--auth-plugin": args.auth_plugin,
        "--auth-params": args.auth_params,
        "--tls-trust-cert-path": args.tls_trust_cert_path,
    }
    argv = [text for name, value in given.items() if value is not None for text in (name, value)]
    argv += ["--tls-allow-insecure"] if args.tls_allow_insecure else []
    argv += ["--tls-enable-hostname-verification"] if args.tls_enable_hostname_verification else []
    return argv


def client_security(args: argparse.Namespace) -> ClientSecurity:
    """The credentials from a verb's options, or from ``brokerClient…`` of its ``--conf``.

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
