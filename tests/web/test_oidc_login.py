"""A login by OpenID Connect, at a provider of Authlib's server parts, on a server that checks."""

from __future__ import annotations

import http.client
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

import pytest
from joserfc.jwk import RSAKey
from offsetd_clients import OffsetClient, TopicPartition
from offsetd_clients.web.names import group_link
from server_process import ServerProcess, poll
from web.form_browser import FormBrowser, Forms
from web.oidc_provider import AUDIENCE, CLIENT_ID, SECRET, Provider, User, provided
from web.test_rights import ACLS
from web.test_rights import SECRET as HIDDEN
from web.web_process import PATIENT, Answer, WebProcess

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.single_server

ORDERS = TopicPartition("orders", 0)
POLL_SECONDS_MAX = 60


class World:
    """A provider, and a server that takes its tokens."""

    def __init__(self, provider: Provider, server: ServerProcess) -> None:
        self.provider, self.address = provider, server.address

    def options(self, *further: str, **changed: str) -> tuple[str, ...]:
        given = {"login": "oidc", "oidc-issuer": self.provider.issuer, "oidc-client-id": CLIENT_ID}
        told = [f"--{name}={value}" for name, value in {**given, **changed}.items()]
        return (*told, *PATIENT, *further)


@pytest.fixture(scope="module")
def identities(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder: Path = tmp_path_factory.mktemp("oidc")
    (folder / "acls.toml").write_text(ACLS)
    with provided() as provider:
        settings = {
            "security.acl.file": folder / "acls.toml",
            "sasl.oauthbearer.jwks.endpoint.url": f"{provider.issuer}/jwks",
            "sasl.oauthbearer.expected.issuer": provider.issuer,
            "sasl.oauthbearer.expected.audience": AUDIENCE,
            "super.users": "User:root",
        }
        with ServerProcess(folder / "data", settings=settings).wait_until_serving() as server:
            yield World(provider, server)


@pytest.fixture(scope="module")
def pages(identities: World) -> Iterator[WebProcess]:
    with WebProcess(identities.address, *identities.options("--allow-changes")) as started:
        yield started


@pytest.fixture
def provider(identities: World) -> Iterator[Provider]:
    """The provider, with all that tests change as it was."""
    made = identities.provider
    yield made
    made.user, made.token_seconds, made.nonce, made.asks = User("owner"), 300, None, False
    made.signing_key, made.told_issuer = made.key, made.issuer
    made.odd_answer = {}
    made.asked.clear()
    made.grants.clear()


def _at_provider(address: str) -> str:
    """What the provider answers a browser with: the address to come back to."""
    parts = urlsplit(address)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=60)
    connection.request("GET", f"{parts.path}?{parts.query}")
    answer = connection.getresponse()
    location = answer.headers["Location"]
    connection.close()
    assert location is not None, answer.status
    return str(location)


def _begun(browser: FormBrowser, following: str = "/groups") -> str:
    """The address that the provider leads back to."""
    answer = browser.get(f"/login/start?next={following}")
    assert answer.status == 303, answer.text
    back = urlsplit(_at_provider(answer.headers["location"]))
    assert back.netloc == f"127.0.0.1:{browser.web.port}"
    return f"{back.path}?{back.query}"


def _logged_in(pages: WebProcess, following: str = "/groups") -> tuple[FormBrowser, Answer]:
    browser = FormBrowser(pages)
    return browser, browser.get(_begun(browser, following))


def test_viewers_see_and_change_what_the_provider_says_they_are(
    identities: World, pages: WebProcess, provider: Provider
) -> None:
    provider.user = User("owner")
    owner, answer = _logged_in(pages)
    assert answer.status == 200
    assert 'content="0;url=/groups"' in answer.text
    (asked,) = provider.asked
    assert asked["response_type"] == "code"
    assert asked["code_challenge_method"] == "S256"
    assert asked["nonce"]
    assert "client_secret" not in asked
    provider.user = User("reader")
    reader, _ = _logged_in(pages)
    with OffsetClient(identities.address, token=_token_of(provider, "owner")) as client:
        for group in (HIDDEN, "billing"):
            client.commit(group, {ORDERS: 271_828})
        assert HIDDEN in owner.get("/groups").text
        shown = reader.get("/groups").text
        assert "billing" in shown
        assert HIDDEN not in shown
        assert "logged in <bdi>with a token of reader</bdi>" in shown
        path = group_link("billing", "/change/reset")
        _, fields = owner.look(path, to="offset", value="3")
        assert owner.confirm(path, fields, "mine").status == 200
        (event,) = client.list_audit_events(group_id="billing")
    assert event.principal == "User:owner"


def _token_of(provider: Provider, name: str) -> str:
    tokens = provider.tokens
    made: str = tokens.access_token_generator(provider.client, "code", User(name), "openid")
    return made


def test_the_browser_never_gets_the_token(pages: WebProcess, provider: Provider) -> None:
    browser, answer = _logged_in(pages)
    for shown in (answer, browser.get("/"), browser.get("/groups")):
        assert "eyJ" not in shown.text + str(shown.headers)
    assert not any("eyJ" in value for value in browser.cookies.values())


def test_without_a_login_the_link_to_the_provider_is_shown(
    pages: WebProcess, provider: Provider
) -> None:
    browser = FormBrowser(pages)
    sent = browser.get("/groups?q=a")
    assert (sent.status, sent.headers["location"]) == (303, "/login?next=%2Fgroups%3Fq%3Da")
    text = browser.get(sent.headers["location"]).text
    assert 'href="/login/start?next=%2Fgroups%3Fq%3Da"' in text
    assert f"Log in at {urlsplit(provider.issuer).netloc}" in text
    assert "password" not in text
    assert browser.post("/login", {"token": "x"}).status == 405


def test_a_login_that_another_browser_began_is_refused(
    pages: WebProcess, provider: Provider
) -> None:
    back = _begun(FormBrowser(pages))
    stranger = FormBrowser(pages)
    answer = stranger.get(back)
    assert answer.status == 403
    assert "another browser" in answer.text
    assert stranger.get("/groups").status == 303
    # And with a login of their own: the state is that of the other one.
    _begun(stranger)
    assert stranger.get(back).status == 403
    assert stranger.get("/groups").status == 303
    assert provider.grants == [], "no code was shown to the provider"


def test_the_way_back_can_be_taken_once(pages: WebProcess, provider: Provider) -> None:
    browser = FormBrowser(pages)
    back = _begun(browser)
    assert browser.get(back).status == 200
    assert browser.get(back).status == 403


def _other_key(provider: Provider) -> None:
    provider.signing_key = RSAKey.generate_key(parameters={"kid": "one", "alg": "RS256"})


def _other_nonce(provider: Provider) -> None:
    provider.nonce = "of another login"


def _nobody(provider: Provider) -> None:
    provider.user = None


def _no_token(provider: Provider) -> None:
    provider.odd_answer = {"access_token": None}


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (_other_key, "signature"),
        (_other_nonce, "nonce"),
        (_nobody, "access_denied"),
        (_no_token, "no access token"),
    ],
)
def test_what_the_provider_refuses_or_forges_is_no_login(
    pages: WebProcess, provider: Provider, change: Any, told: str
) -> None:
    change(provider)
    browser, answer = _logged_in(pages)
    assert answer.status == 403
    assert "did not log you in" in answer.text
    assert told in answer.text.lower()
    assert browser.get("/groups").status == 303


def test_a_viewer_whom_the_server_does_not_know_is_told(
    identities: World, pages: WebProcess, provider: Provider
) -> None:
    provider.token_seconds = -3600  # It has ended before it began.
    browser, answer = _logged_in(pages)
    assert answer.status == 403
    assert "does not know this token" in answer.text
    assert browser.get("/groups").status == 303


def test_a_token_is_renewed_before_its_end(pages: WebProcess, provider: Provider) -> None:
    provider.token_seconds = 20  # Less than the time in which it is renewed.
    browser, _ = _logged_in(pages)
    assert browser.get("/groups").status == 200
    poll(lambda: "refresh_token" in provider.grants, POLL_SECONDS_MAX)
    assert browser.get("/groups").status == 200


def test_a_token_that_cannot_be_renewed_leads_to_the_login_at_its_end(
    pages: WebProcess, provider: Provider
) -> None:
    provider.token_seconds = -25  # The server allows 30 s for clocks that differ.
    browser, _ = _logged_in(pages)
    provider.refresh_tokens.clear()  # The provider has ended the login.
    poll(lambda: browser.get("/groups").status == 403, POLL_SECONDS_MAX)
    refused = browser.get("/groups")
    assert '<a href="/login?next=%2Fgroups">Log in again</a>' in refused.text


def test_a_login_ends_with_the_logout(pages: WebProcess, provider: Provider) -> None:
    browser, _ = _logged_in(pages)
    form = Forms(browser.get("/groups").text).fields["logout"]
    assert browser.post("/logout", form).status == 303
    assert browser.get("/groups").status == 303


def test_each_tab_of_a_browser_may_begin_a_login(pages: WebProcess, provider: Provider) -> None:
    assert not provider.asked
    browser = FormBrowser(pages)
    first, second = _begun(browser, "/log"), _begun(browser, "/audit")
    assert 'content="0;url=/log"' in browser.get(first).text
    assert 'content="0;url=/audit"' in browser.get(second).text


def test_a_way_back_that_another_site_forges_ends_no_login(
    pages: WebProcess, provider: Provider
) -> None:
    browser = FormBrowser(pages)
    back = _begun(browser)
    assert browser.get("/login/callback?code=x&state=y").status == 403
    assert browser.get(back).status == 200
    assert provider.grants == ["authorization_code"]


def test_a_link_of_another_site_leaves_the_session_as_it_is(
    pages: WebProcess, provider: Provider
) -> None:
    browser, _ = _logged_in(pages)
    session = dict(browser.cookies)
    browser.cookies.clear()  # Browsers send no strict cookie with such a link.
    sent = browser.get("/groups")
    browser.get(sent.headers["location"])
    browser.get("/login/callback")
    assert not browser.cookies, "nothing comes in its place"
    browser.cookies.update(session)
    assert browser.get("/groups").status == 200
    assert provider.grants


def test_a_login_that_is_begun_again_ends_the_one_before(
    pages: WebProcess, provider: Provider
) -> None:
    browser, _ = _logged_in(pages)
    before = dict(browser.cookies)
    assert browser.get(_begun(browser)).status == 200
    assert browser.get("/groups").status == 200
    browser.cookies = before
    assert browser.get("/groups").status == 303
    assert len(provider.grants) == 2


def test_the_last_login_of_two_tabs_ends_the_first(pages: WebProcess, provider: Provider) -> None:
    browser = FormBrowser(pages)
    first, second = _begun(browser), _begun(browser)
    assert browser.get(first).status == 200
    before = dict(browser.cookies)
    assert browser.get(second).status == 200
    assert browser.get("/groups").status == 200
    browser.cookies = before
    assert browser.get("/groups").status == 303
    assert len(provider.grants) == 2


def test_a_client_with_a_secret_shows_it_to_the_provider_only(tmp_path: Path) -> None:
    with provided(has_secret=True) as provider:
        settings = {
            "sasl.oauthbearer.jwks.endpoint.url": f"{provider.issuer}/jwks",
            "sasl.oauthbearer.expected.issuer": provider.issuer,
            "sasl.oauthbearer.expected.audience": AUDIENCE,
        }
        with ServerProcess(tmp_path / "data", settings=settings).wait_until_serving() as server:
            world = World(provider, server)
            with_it = {"OFFSETD_OIDC_CLIENT_SECRET": SECRET}
            for environment, status in ((with_it, 200), ({}, 403)):
                options = world.options()
                with WebProcess(server.address, *options, environment=environment) as pages:
                    _, answer = _logged_in(pages)
                    assert answer.status == status
                    assert SECRET not in str(provider.asked)


def test_a_provider_that_is_not_the_one_is_refused(identities: World, provider: Provider) -> None:
    provider.told_issuer = "https://another.example"
    with WebProcess(identities.address, *identities.options()) as pages:
        answer = FormBrowser(pages).get("/login/start")
        assert answer.status == 502
        assert "another issuer" in answer.text
        provider.told_issuer = provider.issuer
        assert FormBrowser(pages).get("/login/start").status == 303


def test_a_provider_that_does_not_answer_is_told(identities: World) -> None:
    options = identities.options(**{"oidc-issuer": "http://127.0.0.1:1"})
    with WebProcess(identities.address, *options) as pages:
        assert FormBrowser(pages).get("/login").status == 200
        answer = FormBrowser(pages).get("/login/start")
        assert answer.status == 503
        assert "does not answer" in answer.text


def test_wrong_options_are_told() -> None:
    def refused(*arguments: str, environment: dict[str, str] | None = None) -> str:
        with WebProcess("127.0.0.1:1", *arguments, environment=environment) as started:
            return started.refusal()

    issuer, client = "--oidc-issuer=https://id.example", "--oidc-client-id=web"
    assert "--oidc-issuer is needed" in refused("--login", "oidc", client)
    assert "--oidc-client-id is needed" in refused("--login", "oidc", issuer)
    assert "only with --login oidc" in refused(issuer)
    assert "only with --login oidc" in refused("--login", "token", client)
    for wrong in ("http://id.example", "id.example", "https://", "https://id.example?x=1"):
        told = refused("--login", "oidc", f"--oidc-issuer={wrong}", client)
        assert "https://NAME" in told
    assert "must contain openid" in refused("--login=oidc", issuer, client, "--oidc-scope=email")
    told = refused("--login=oidc", issuer, client, environment={"OFFSETD_TOKEN": "mine"})
    assert "unset OFFSETD_TOKEN" in told


def test_a_real_browser_comes_back_from_another_site_with_a_session(
    pages: WebProcess, provider: Provider, browser: Any
) -> None:
    provider.asks = True
    context = browser.new_context()
    page = context.new_page()
    page.goto(f"{pages.url}/groups?q=bill")
    page.get_by_text("Log in at localhost").click()
    page.get_by_text("Yes, it is me").click()  # What follows comes from another site.
    page.wait_for_url(f"{pages.url}/groups?q=bill")
    page.wait_for_selector("[data-state=serving]")
    kept = {each["name"]: each for each in context.cookies()}
    session = kept[f"offsetd-web-{pages.port}"]
    assert (session["sameSite"], session["httpOnly"]) == ("Strict", True)
    assert f"offsetd-web-login-{pages.port}" not in kept
    page.goto(f"{provider.issuer}/.well-known/openid-configuration")
    page.evaluate("address => location.assign(address)", f"{pages.url}/groups?q=bi")
    page.wait_for_url(f"{pages.url}/groups?q=bi")
    page.wait_for_selector("[data-state=serving]")
    page.click("#logout button")
    page.wait_for_url(f"{pages.url}/login")
    poll(lambda: "Log in at" in page.inner_text("main"), POLL_SECONDS_MAX)
    assert parse_qs(urlsplit(page.url).query) == {}
    context.close()
