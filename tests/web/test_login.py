"""A login with a token: sessions, their end, what a viewer may do, and where it may listen."""

from __future__ import annotations

import asyncio
import ssl
import urllib.request
from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest
from certificates import Authority
from offsetd_clients import AsyncOffsetClient, OffsetClient, TopicPartition
from offsetd_clients.web.login_pages import own_path
from offsetd_clients.web.logins import Logins, TokenRefused
from offsetd_clients.web.names import group_link
from promised import promised_by
from web.form_browser import FormBrowser, Forms
from web.test_rights import SECRET, Secured
from web.test_rights import secured as secured  # noqa: PLC0414  # A fixture.
from web.web_process import WebProcess

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.single_server

promised = promised_by("docs/guides/web.md")
ORDERS = TopicPartition("orders", 0)
PATHS = ("/", "/groups", "/group?name=billing", "/log", "/audit", "/settings", "/acls")


@pytest.fixture(scope="module")
def pages(secured: Secured) -> Iterator[WebProcess]:
    with WebProcess(secured.address, "--login", "token", "--allow-changes") as started:
        yield started


def _logged_in(pages: WebProcess, token: str, path: str = "/") -> FormBrowser:
    browser = FormBrowser(pages)
    form = Forms(browser.get(f"/login?next={quote(path)}").text).fields["login"]
    answer = browser.post("/login", {**form, "token": token})
    assert answer.status == 303, answer.text
    assert answer.headers["location"] == path
    return browser


def test_without_a_login_nothing_is_shown(pages: WebProcess) -> None:
    for path in (*PATHS, "/groups.csv", "/group/history?name=billing", "/status", "/change/reset"):
        answer = pages.get(path)
        assert answer.status == 303
        assert answer.headers["location"] == f"/login?next={quote(path, safe='')}"
        assert answer.body == b""
    assert pages.get("/status", headers={"HX-Request": "true"}).headers["hx-refresh"] == "true"
    assert pages.get("/static/web.css").status == 200


def test_each_viewer_sees_what_their_token_may_see(secured: Secured, pages: WebProcess) -> None:
    owner, reader = (_logged_in(pages, secured.token(name)) for name in ("owner", "reader"))
    assert SECRET in owner.get("/groups").text
    shown = reader.get("/groups").text
    assert "billing" in shown
    assert SECRET not in shown
    for browser in (owner, reader):
        assert secured.token("owner") not in browser.get("/").text
        assert secured.token("owner") not in str(browser.cookies)


@promised("Beside *Log out* stands the id of this token")
def test_each_viewer_sees_with_which_token_they_have_logged_in(
    secured: Secured, pages: WebProcess
) -> None:
    for name in ("owner", "reader"):
        text = _logged_in(pages, secured.token(name)).get("/groups").text
        token_id = secured.token(name).split("_")[1]
        assert f"logged in <bdi>with token {token_id}</bdi></span> <button>Log out" in text
        assert secured.token(name) not in text


def test_a_viewer_who_may_only_read_is_refused_plainly(secured: Secured, pages: WebProcess) -> None:
    owner, reader = (_logged_in(pages, secured.token(name)) for name in ("owner", "reader"))
    path = group_link("billing", "/change/reset")
    shown, fields = reader.look(path, to="offset", value="3")
    assert (shown.status, fields) == (403, {})
    assert "You may not do this" in shown.text
    # Even with the form of one who may.
    _, fields = owner.look(path, to="offset", value="3")
    own = Forms(reader.get("/groups").text).fields["logout"]["csrf"]
    refused = reader.confirm(path, {**fields, "csrf": own}, "mine")
    assert refused.status == 403
    assert "You may not do this" in refused.text
    with OffsetClient(secured.address, token=secured.token("owner")) as client:
        assert client.fetch("billing")[ORDERS].offset == 271_828
        assert owner.confirm(path, fields, "mine").status == 200
        assert client.fetch("billing")[ORDERS].offset == 3
        (event,) = client.list_audit_events(group_id="billing")
        assert event.principal == "User:owner"
        client.commit("billing", {ORDERS: 271_828})


@pytest.mark.parametrize("token", ["", "wrong", "é", "two words\n", "x" * 9000])
def test_a_wrong_token_is_told(pages: WebProcess, token: str) -> None:
    browser = FormBrowser(pages)
    form = Forms(browser.get("/login").text).fields["login"]
    answer = browser.post("/login", {**form, "token": token})
    assert answer.status == 403
    assert "token" in answer.text
    assert browser.get("/groups").status == 303


def test_a_session_is_new_after_the_login_and_gone_after_the_logout(
    secured: Secured, pages: WebProcess
) -> None:
    browser = FormBrowser(pages)
    form = Forms(browser.get("/login").text).fields["login"]
    name, before = f"offsetd-web-{pages.port}", "A" * 43
    browser.cookies[name] = before
    assert browser.post("/login", {**form, "token": secured.token("owner")}).status == 303
    after = browser.cookies[name]
    assert after not in {before, browser.cookies[f"offsetd-web-form-{pages.port}"]}
    planted = FormBrowser(pages)
    planted.cookies = {name: before}
    assert planted.get("/groups").status == 303, "a session that another put there is nobody's"

    token = Forms(browser.get("/groups").text).fields["logout"]["csrf"]
    assert browser.post("/logout", {"csrf": "0"}).status == 403
    assert browser.post("/logout", {"csrf": token}, {"Origin": "http://evil.example"}).status == 403
    assert browser.get("/logout").status == 405
    assert browser.get("/groups").status == 200
    assert browser.post("/logout", {"csrf": token}).status == 303
    browser.cookies[name] = after
    assert browser.get("/groups").status == 303
    assert browser.post("/change/reset", {}).status == 401


@promised("A link of another site shows a viewer who has logged in what it leads to.")
def test_a_link_of_another_site_leads_on_with_the_session(
    secured: Secured, pages: WebProcess
) -> None:
    browser = _logged_in(pages, secured.token("owner"))
    kept = dict(browser.cookies)
    browser.cookies.clear()  # Browsers send no strict cookie with such a link.
    led = browser.get("/groups?q=bill&topic=orders", {"Sec-Fetch-Site": "cross-site"})
    assert 'content="0;url=/groups?q=bill&amp;topic=orders"' in led.text
    browser.get("/login", {"Sec-Fetch-Site": "cross-site"})
    assert f"offsetd-web-{pages.port}" not in browser.cookies, "nothing comes in its place"
    browser.cookies.update(kept)
    assert browser.get("/groups?q=bill&topic=orders").status == 200
    elsewhere = FormBrowser(pages).get("//evil.example/x", {"Sec-Fetch-Site": "cross-site"})
    assert "url=//" not in elsewhere.text


def test_a_login_form_of_another_site_is_refused(secured: Secured, pages: WebProcess) -> None:
    browser = FormBrowser(pages)
    form = Forms(browser.get("/login").text).fields["login"]
    sent = {**form, "token": secured.token("owner")}
    assert browser.post("/login", sent, {"Origin": "http://evil.example"}).status == 403
    assert browser.post("/login", {**sent, "csrf": "0"}).status == 403
    assert FormBrowser(pages).post("/login", sent).status == 403


@pytest.mark.parametrize(
    "path", ["//evil.example", "https://evil.example", "/\\evil.example", "javascript:hit()", "/\n"]
)
def test_a_login_leads_to_these_pages_only(secured: Secured, pages: WebProcess, path: str) -> None:
    assert own_path(path) == "/"
    browser = FormBrowser(pages)
    form = Forms(browser.get("/login").text).fields["login"]
    answer = browser.post("/login", {**form, "next": path, "token": secured.token("owner")})
    assert answer.headers["location"] == "/"


def test_a_session_ends_when_it_is_idle_and_some_day(secured: Secured) -> None:
    async def run() -> None:
        now_s = 0.0
        logins = Logins(
            lambda token: AsyncOffsetClient(secured.address, token=token),
            monotonic_s=lambda: now_s,
            idle_s=100,
            life_s=1000,
        )
        token = secured.token("owner")
        session = await logins.begin(token)
        now_s = 99
        assert logins.of(session, is_use=False)  # A page that renews itself is no use.
        now_s = 101
        assert logins.of(session) is None
        session = await logins.begin(token)
        while now_s < 1090:
            now_s += 90
            assert logins.of(session)
        now_s = 1101
        assert logins.of(session) is None
        assert logins.of(None) is None
        await logins.close()

    asyncio.run(run())


def test_a_server_that_checks_no_tokens_takes_no_login(web: WebProcess) -> None:
    address = web.first_line.split()[2]

    async def run() -> None:
        logins = Logins(
            lambda token: AsyncOffsetClient(address, token=token), monotonic_s=lambda: 0.0
        )
        with pytest.raises(TokenRefused, match="does not check tokens"):
            await logins.begin("anything")

    asyncio.run(run())


def _refused(*arguments: str, environment: dict[str, str] | None = None) -> str:
    with WebProcess("127.0.0.1:1", *arguments, environment=environment) as pages:
        return pages.refusal()


def test_it_listens_elsewhere_only_with_a_login_and_tls(tmp_path: Path) -> None:
    elsewhere = ("--listen", "0.0.0.0:0")
    assert "have no login" in _refused(*elsewhere)
    absent = str(tmp_path / "absent.pem")
    assert "in plain text" in _refused(*elsewhere, "--login", "token")
    told = _refused(*elsewhere, "--login", "token", "--let-anyone-in-without-login")
    assert "there is a login" in told
    assert "unset OFFSETD_TOKEN" in _refused(
        "--login", "token", environment={"OFFSETD_TOKEN": "mine"}
    )
    assert "go together" in _refused("--tls-cert", absent)
    assert "No such file" in _refused("--tls-cert", absent, "--tls-key", absent)
    for address in ("http://a.example", "https://", "https://a.example/x", "https://u@a", "x"):
        assert "https://NAME" in _refused("--behind-proxy", address)


@promised("Behind a proxy it stays on 127.0.0.1")
@pytest.mark.parametrize("further", [(), ("--login", "token"), ("--let-anyone-in-without-login",)])
def test_behind_a_proxy_it_listens_on_this_machine_only(further: tuple[str, ...]) -> None:
    proxied = ("--behind-proxy", "https://offsets.example")
    told = _refused("--listen", "0.0.0.0:0", *proxied, *further)
    assert "behind a proxy, the pages stay on 127.0.0.1" in told


def test_with_tls_the_cookie_is_for_https_only(secured: Secured, tmp_path: Path) -> None:
    authority = Authority("an authority")
    issued = authority.issue("pages")
    certificate, key = tmp_path / "pages.pem", tmp_path / "pages.key"
    certificate.write_bytes(issued.certificate_pem)
    key.write_bytes(issued.key_pem)
    files = ("--tls-cert", str(certificate), "--tls-key", str(key))
    arguments = ("--login", "token", "--listen", "0.0.0.0:0", *files)
    with WebProcess(secured.address, *arguments) as pages:
        assert pages.url.startswith("https://0.0.0.0:")
        trusting = ssl.create_default_context(cadata=authority.pem.decode())
        address = f"https://127.0.0.1:{pages.port}/login"
        with urllib.request.urlopen(address, context=trusting) as answer:
            cookie = answer.headers["set-cookie"]
    assert cookie.startswith(f"__Host-offsetd-web-form-{pages.port}=")
    assert "Secure" in cookie
    assert "HttpOnly" in cookie


def test_behind_a_proxy_forms_come_from_its_address(secured: Secured) -> None:
    proxy = "https://offsets.example:8443"
    host = {"Host": "offsets.example:8443"}
    with WebProcess(secured.address, "--login", "token", "--behind-proxy", proxy) as pages:
        assert proxy in pages.first_line
        answer = pages.get("/login", headers=host)
        assert answer.status == 200
        assert "Secure" in answer.headers["set-cookie"]
        form = Forms(answer.text).fields["login"]
        browser = FormBrowser(pages)
        browser.cookies = dict([answer.headers["set-cookie"].partition(";")[0].split("=", 1)])
        sent = {**form, "token": secured.token("owner")}
        assert browser.post("/login", sent, host).status == 403  # From the inner address.
        assert browser.post("/login", sent, {**host, "Origin": proxy}).status == 303
