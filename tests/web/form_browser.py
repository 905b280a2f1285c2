"""What a browser does with the forms of the pages, without a browser: cookies, fields, posts."""

from __future__ import annotations

import re
from html import unescape
from html.parser import HTMLParser
from typing import TYPE_CHECKING
from urllib.parse import urlencode, urlsplit

if TYPE_CHECKING:
    from collections.abc import Mapping

    from web.web_process import Answer, WebProcess


class Forms(HTMLParser):
    """The forms of a page by their ids, each with its fields as they stand."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.fields: dict[str, dict[str, str]] = {}
        self._form = ""
        self.feed(text)
        command = re.search(r'<pre[^>]* id="command"[^>]*>(.*?)</pre>', text, re.DOTALL)
        self.command = unescape(command[1]) if command else ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        if tag == "form":
            self._form = values.get("id", "")
            self.fields[self._form] = {}
        is_hidden = tag == "input" and values.get("type") == "hidden"
        if is_hidden and self._form in self.fields:
            self.fields[self._form][values["name"]] = values.get("value", "")

    def handle_endtag(self, tag: str) -> None:
        if tag == "form":
            self._form = ""


class FormBrowser:
    """One browser: it keeps its cookies, and says where its forms come from."""

    def __init__(self, web: WebProcess) -> None:
        self.web = web
        self.cookies: dict[str, str] = {}
        self.origin = f"http://127.0.0.1:{web.port}"

    def get(self, path: str, headers: Mapping[str, str] | None = None) -> Answer:
        """A page, with the cookies."""
        return self._kept(self.web.get(path, headers={**self._cookie(), **(headers or {})}))

    def post(
        self, path: str, fields: Mapping[str, str], headers: Mapping[str, str] | None = None
    ) -> Answer:
        """Sends a form as a browser does, unless `headers` say otherwise; empty ones are left."""
        usual = {
            "Origin": self.origin,
            "Sec-Fetch-Site": "same-origin",
            "Content-Type": "application/x-www-form-urlencoded",
            **self._cookie(),
        }
        sent = {name: value for name, value in {**usual, **(headers or {})}.items() if value}
        return self._kept(self.web.get(path, method="POST", body=urlencode(fields), headers=sent))

    def look(self, group_path: str, **chosen: str) -> tuple[Answer, dict[str, str]]:
        """The dry run of a choice, and the fields of the form that confirms it."""
        path = f"{group_path}{'&' if '?' in group_path else '?'}{urlencode(chosen)}&look=yes"
        answer = self.get(path)
        return answer, Forms(answer.text).fields.get("confirm", {})

    def confirm(self, group_path: str, fields: Mapping[str, str], reason: str) -> Answer:
        """Sends the form of a dry run, and follows to its result."""
        sent = self.post(urlsplit(group_path).path, {**fields, "reason": reason})
        return self.get(sent.headers["location"]) if sent.status == 303 else sent

    def _cookie(self) -> dict[str, str]:
        told = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        return {"Cookie": told} if told else {}

    def _kept(self, answer: Answer) -> Answer:
        given = answer.headers.get("set-cookie", "").partition(";")[0]
        if given:
            name, _, value = given.partition("=")
            self.cookies[name] = value
        return answer
