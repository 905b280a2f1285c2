"""Forms that another site sends, or that are not of the session: none of them changes anything."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlencode

import pytest
from offsetd_clients import OffsetClient, TopicPartition
from offsetd_clients.web.names import group_link
from web.form_browser import FormBrowser
from web.web_process import WebProcess

if TYPE_CHECKING:
    from collections.abc import Iterator

    from server_process import ServerProcess

ORDERS = TopicPartition("orders", 0)
GROUP = "guarded"
PATH = group_link(GROUP, "/change/reset")


@pytest.fixture
def client(changed_world: ServerProcess) -> Iterator[OffsetClient]:
    with OffsetClient(changed_world.address) as made:
        made.commit(GROUP, {ORDERS: 40})
        yield made


def _form(browser: FormBrowser) -> dict[str, str]:
    _, fields = browser.look(PATH, to="offset", value="3")
    return {**fields, "reason": "a test"}


FOREIGN = {
    "another site": ({"Origin": "https://evil.example"}, 403),
    "a name of another site that points here": ({"Origin": "http://evil.example:7172"}, 403),
    "another port": ({"Origin": "http://127.0.0.1:1"}, 403),
    "https": ({"Origin": "https://127.0.0.1:{port}"}, 403),
    "an opaque origin": ({"Origin": "null"}, 403),
    "no origin": ({"Origin": ""}, 403),
    "a cross-site fetch": ({"Sec-Fetch-Site": "cross-site"}, 403),
    "a sibling's fetch": ({"Sec-Fetch-Site": "same-site"}, 403),
    "a link": ({"Sec-Fetch-Site": "none"}, 403),
    "plain text": ({"Content-Type": "text/plain"}, 415),
    "a multipart form": ({"Content-Type": "multipart/form-data; boundary=x"}, 415),
    "JSON": ({"Content-Type": "application/json"}, 415),
    "no type": ({"Content-Type": ""}, 415),
    "another host": ({"Host": "evil.example"}, 421),
}


@pytest.mark.parametrize("kind", FOREIGN)
def test_a_form_from_elsewhere_is_refused(
    client: OffsetClient, changing: WebProcess, kind: str
) -> None:
    browser = FormBrowser(changing)
    headers, status = FOREIGN[kind]
    told = {name: value.format(port=changing.port) for name, value in headers.items()}
    answer = browser.post("/change/reset", _form(browser), told)
    assert answer.status == status, answer.text
    assert client.fetch(GROUP)[ORDERS].offset == 40


def test_without_the_new_header_the_origin_is_enough(
    client: OffsetClient, changing: WebProcess
) -> None:
    browser = FormBrowser(changing)
    answer = browser.post("/change/reset", _form(browser), {"Sec-Fetch-Site": ""})
    assert answer.status == 303
    assert client.fetch(GROUP)[ORDERS].offset == 3


@pytest.mark.parametrize("token", ["", "0" * 64, "é", "of another session"])
def test_a_form_without_the_token_of_its_session_is_refused(
    client: OffsetClient, changing: WebProcess, token: str
) -> None:
    browser, other = FormBrowser(changing), FormBrowser(changing)
    form, foreign = _form(browser), _form(other)
    form["csrf"] = foreign["csrf"] if token == "of another session" else token
    answer = browser.post("/change/reset", form)
    assert answer.status == 403
    assert "This form is not of your session" in answer.text
    assert client.fetch(GROUP)[ORDERS].offset == 40


def test_a_form_without_the_cookie_is_refused(client: OffsetClient, changing: WebProcess) -> None:
    browser = FormBrowser(changing)
    form = _form(browser)
    for cookies in ({}, dict.fromkeys(browser.cookies, "x" * 43), dict.fromkeys(browser.cookies)):
        browser.cookies = {name: value or "" for name, value in cookies.items()}
        assert browser.post("/change/reset", form).status == 403
    assert client.fetch(GROUP)[ORDERS].offset == 40


def test_the_cookie_is_of_no_use_to_scripts_and_other_sites(changing: WebProcess) -> None:
    given = changing.get(PATH).headers["set-cookie"]
    assert "HttpOnly" in given
    assert "SameSite=strict" in given
    assert "Path=/" in given
    assert "Domain" not in given
    assert str(changing.port) in given.partition("=")[0]


def test_a_get_changes_nothing(client: OffsetClient, changing: WebProcess) -> None:
    browser = FormBrowser(changing)
    form = {**_form(browser), "look": "yes", "anyway": "yes"}
    assert browser.get(f"/change/reset?{urlencode(form)}").status == 200
    assert client.fetch(GROUP)[ORDERS].offset == 40


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])
def test_no_other_method_is_answered(changing: WebProcess, method: str) -> None:
    assert changing.get(PATH, method=method).status == 405


@pytest.mark.parametrize("path", ["/", "/group?name=guarded", "/groups.csv", "/static/web.js"])
def test_a_page_that_shows_takes_no_form(changing: WebProcess, path: str) -> None:
    assert FormBrowser(changing).post(path, {}).status == 405


@pytest.mark.parametrize("body", ["a=%ff&csrf=x", "nothing", "a" * 300_000, "&" * 3000, "a=é"])
def test_a_form_that_cannot_be_read_is_refused(changing: WebProcess, body: str) -> None:
    headers = {
        "Origin": f"http://127.0.0.1:{changing.port}",
        "Content-Type": "application/x-www-form-urlencoded",
    }
    answer = changing.get("/change/reset", method="POST", headers=headers, body=body)
    assert answer.status in (400, 403)
    assert "Traceback" not in answer.text


def test_a_result_is_of_the_session_that_made_it(
    client: OffsetClient, changing: WebProcess
) -> None:
    browser = FormBrowser(changing)
    sent = browser.post("/change/reset", _form(browser))
    assert browser.get(sent.headers["location"]).status == 200
    assert FormBrowser(changing).get(sent.headers["location"]).status == 404
    assert client.fetch(GROUP)[ORDERS].offset == 3


def test_changes_and_anyone_do_not_go_together(changed_world: ServerProcess) -> None:
    with WebProcess(
        changed_world.address,
        *("--allow-changes", "--let-anyone-in-without-login", "--listen", "0.0.0.0:0"),
    ) as pages:
        assert "anyone could change anything" in pages.refusal()
