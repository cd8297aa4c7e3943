"""Signing in: a page uses the console's own credentials, or a token for this page alone."""

from nicegui import ui

from counterpoise.console.elements import Text, attributes, button
from counterpoise.console.page_session import PageSession
from counterpoise.console.roles import Operator


class SignIn:
    """A button that names the page's operator, and a dialog to sign in with another token."""

    def __init__(self, session: PageSession) -> None:
        self._session = session
        self._button = button("", self._open)
        with ui.dialog() as self._dialog, ui.element("div").classes("card plan") as card:
            attributes(self._dialog, aria_labelledby="sign-in-title")
            attributes(card, role="document")
            attributes(Text("h2", "Who acts"), id="sign-in-title")
            self._now = Text("p")
            Text(
                "p",
                "A token of your own is shown to the brokers with everything that you ask for. It "
                "is kept for this page alone, and forgotten when the page is closed.",
                "quiet",
            )
            self._token = (
                ui.input("Your token", password=True)
                .props('outlined dense autocomplete="off"')
                .classes("measure")
            )
            with ui.element("div").classes("bar end"):
                button("Cancel", self._dialog.close)
                button("Act without it", self._leave)
                button("Act with it", self._enter, "strong")
        self._show()

    def _open(self) -> None:
        self._now.text = f"You act as {self._session.operator.name}."
        self._token.value = ""
        self._dialog.open()

    def _enter(self) -> None:
        token = (self._token.value or "").strip()
        if not token or not token.isascii() or any(each.isspace() for each in token):
            self._session.announce("that is no token: it is one word, such as eyJhbGciOi…")
            return
        watch = self._session.sources.options.watch
        self._become(Operator(watch.security.as_another(token), own=True))

    def _leave(self) -> None:
        self._become(default_operator(self._session))

    def _become(self, operator: Operator) -> None:
        self._token.value = ""
        self._session.operator = operator
        self._dialog.close()
        self._show()
        self._session.announce(f"You act as {operator.name}.")

    def _show(self) -> None:
        self._button.text = "Sign in" if not self._session.operator.own else "Signed in"
        attributes(self._button, aria_label=f"Who acts: {self._session.operator.name}")


def default_operator(session: PageSession) -> Operator:
    """Return a page's operator before sign-in: with the console's credentials, or with none."""
    options = session.sources.options
    console = options.watch.security
    return Operator(console if options.acts else console.as_another())
