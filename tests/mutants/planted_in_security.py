"""Faults of security: credentials that let in, are shown, or are believed where they must not be."""

from tests.mutants.fault import Fault

_CLIENT = "tests/security/test_client.py"
_HANDSHAKE = "tests/broker/connection/test_authentication.py"

IN_SECURITY: tuple[Fault, ...] = (
    Fault(
        "a client of brokers checks no host name",
        "security/client.py",
        "context.check_hostname = options.verify_host and not options.allow_insecure",
        "context.check_hostname = False",
        f"{_CLIENT}::test_which_brokers_a_client_trusts",
    ),
    Fault(
        "another identity shows the broker's own certificate",
        "security/client.py",
        '            certificate="",\n            key="",\n        )\n',
        "        )\n",
        f"{_CLIENT}::test_another_identity_keeps_the_trust_and_nothing_else",
    ),
    Fault(
        "wrong credentials make a client anonymous",
        "security/authentication.py",
        "        if provider is not None:\n            return await provider.authenticate(shown)\n",
        "        if provider is not None and self._anonymous is None:\n"
        "            return await provider.authenticate(shown)\n",
        "tests/security/test_providers.py"
        "::test_a_connection_without_a_known_method_is_anonymous_or_refused",
    ),
    Fault(
        "a password that cannot be hashed is right",
        "security/passwords.py",
        "    except ValueError:\n        return False\n",
        "    except ValueError:\n        return True\n",
        "tests/security/test_passwords.py::test_the_right_password_is_accepted_and_no_other",
    ),
    Fault(
        "a bug in a provider admits the client",
        "broker/connection/handshake.py",
        '            self._end(ServerError.AuthenticationError, "Failed to authenticate", "see above")\n'
        "            return\n",
        "            caller = Caller(None)\n",
        f"{_HANDSHAKE}::test_no_client_is_admitted_whose_credentials_cannot_be_checked",
    ),
    Fault(
        "newer credentials are asked for once",
        "broker/connection/handshake.py",
        "        self._principal = principal\n        self._watch()\n",
        "        self._principal = principal\n",
        f"{_HANDSHAKE}::test_newer_credentials_are_asked_for_whenever_the_last_have_expired",
    ),
    Fault(
        "a bundle is awaited no longer than until it has any owner",
        "app/cluster_admin.py",
        "                while (owner := await self.owner(bundle, destination)) != destination:\n",
        "                while not (owner := await self.owner(bundle, destination)):\n",
        "tests/app/test_cluster_admin.py::test_a_bundle_is_awaited_at_its_destination_for_so_long",
    ),
)
