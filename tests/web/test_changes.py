"""Every wizard over HTTP: the dry run, the command that does the same, the change, the audit."""

from __future__ import annotations

import shlex
import subprocess
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from offsetd_clients import OffsetClient, OffsetToCommit, TopicPartition
from offsetd_clients.web.changes.command_line import quoted
from offsetd_clients.web.names import digest_of, group_link
from web.form_browser import FormBrowser, Forms
from web.hostile_names import ODD, XSS
from web.test_pages_over_http import PAGE_BYTES_MAX, _Inline
from web.web_process import PATIENT, WebProcess

if TYPE_CHECKING:
    from collections.abc import Iterator

    from server_process import ServerProcess

ORDERS = [TopicPartition("orders", each) for each in range(3)]
KINDS = (
    *("reset", "restore", "clone", "retention", "remove-members", "delete-offsets"),
    "delete-group",
)


@pytest.fixture
def browser_of_forms(changing: WebProcess) -> FormBrowser:
    return FormBrowser(changing)


@pytest.fixture
def client(changed_world: ServerProcess) -> Iterator[OffsetClient]:
    with OffsetClient(changed_world.address) as made:
        yield made


def _commit(client: OffsetClient, group: str, offset: int = 40) -> str:
    client.commit(group, {each: OffsetToCommit(offset, end_offset=100) for each in ORDERS})
    return group


def _offsets(client: OffsetClient, group: str) -> list[int | None]:
    found = client.fetch(group)
    return [found[each].offset if each in found else None for each in ORDERS]


# What is chosen in a reset, the words of its command, and the offsets that it leads to.
RESETS = {
    "latest": ({"to": "latest"}, "--to-latest --all-topics", [100, 100, 100]),
    "offset": ({"to": "offset", "value": "7"}, "--to-offset 7 --all-topics", [7, 7, 7]),
    "back": ({"to": "shift", "value": "-5"}, "--shift-by -5 --all-topics", [35, 35, 35]),
    "current": ({"to": "current"}, "--to-current --all-topics", [40, 40, 40]),
    "some": (
        {"to": "offset", "value": "7", "topics": "orders:0,2\r\n"},
        "--to-offset 7 --topic orders:0,2",
        [7, 40, 7],
    ),
    "earliest": (
        {"to": "earliest", "topics": "orders:1", "bounds": "orders:1=3..100"},
        "--to-earliest --topic orders:1 --bounds orders:1=3..100",
        [40, 3, 40],
    ),
    "lines": ({"to": "csv", "csv": "orders,0,5\norders,1,6"}, "--from-file -", [5, 6, 40]),
    "ago": ({"to": "ago", "value": "0s"}, "--by-duration 0s --all-topics", [40, 40, 40]),
}


@pytest.mark.parametrize("name", RESETS)
def test_a_reset_is_shown_done_and_audited(
    client: OffsetClient, browser_of_forms: FormBrowser, name: str
) -> None:
    chosen, words, expected = RESETS[name]
    group = _commit(client, f"reset-{name}")
    path = group_link(group, "/change/reset")
    shown, fields = browser_of_forms.look(path, **chosen)
    assert shown.status == 200
    assert _offsets(client, group) == [40, 40, 40]  # A look changes nothing.
    command = Forms(shown.text).command
    assert f"offsetd groups reset {words} --execute --address" in command
    if name == "lines":
        assert command.startswith("printf '%s\\n' orders,0,5 orders,1,6 | offsetd")
    done = browser_of_forms.confirm(path, fields, f"test of {name}")
    assert done.status == 200, done.text
    assert _offsets(client, group) == expected
    (event,) = client.list_audit_events(group_id=group)
    assert (event.method, event.reason) == ("ResetOffsets", f"test of {name}")
    assert "Its entry in the audit" in done.text
    link = done.text.split('id="audit" href="')[1].split('"')[0].replace("&amp;", "&")
    assert f"test of {name}" in browser_of_forms.get(link).text


def test_a_restore_brings_back_a_moment_of_the_history(
    client: OffsetClient, browser_of_forms: FormBrowser
) -> None:
    group = _commit(client, "restored", 10)
    _commit(client, group, 20)
    _commit(client, group, 30)
    path = group_link(group, "/change/restore")
    moments = browser_of_forms.get(path).text.split("</select>")[0].split("<option ")[1:]
    assert len(moments) == 3
    assert "selected" in moments[1], "what undoes the last change is chosen"
    assert all("Z, 3 offsets changed then<" in each for each in moments)
    revision = moments[0].split('"')[1]
    shown, fields = browser_of_forms.look(path, revision=revision)
    assert "3 offsets: 3 back, by 60 in all" in shown.text
    assert f"groups restore --to-revision {revision} --execute" in shown.text
    assert browser_of_forms.confirm(path, fields, "back").status == 200
    assert _offsets(client, group) == [10, 10, 10]


def test_a_clone_a_retention_and_deletions(
    client: OffsetClient, browser_of_forms: FormBrowser
) -> None:
    group = _commit(client, "source of all")
    path = group_link(group, "/change/clone")
    shown, fields = browser_of_forms.look(path, target="-target")
    assert "-- &#39;source of all&#39; -target" in shown.text
    assert "3 new" in browser_of_forms.confirm(path, fields, "trial").text
    assert _offsets(client, "-target") == [40, 40, 40]

    path = group_link(group, "/change/retention")
    _, fields = browser_of_forms.look(path, retention="90d")
    assert browser_of_forms.confirm(path, fields, "law").status == 200
    assert client.get_group(group).retention == timedelta(days=90)

    path = group_link(group, "/change/delete-offsets")
    shown, fields = browser_of_forms.look(path, topics="orders:1")
    assert "1 offset<" in shown.text
    assert browser_of_forms.confirm(path, fields, "gone").status == 200
    assert _offsets(client, group) == [40, None, 40]

    path = group_link(group, "/change/delete-group")
    shown, fields = browser_of_forms.look(path)
    assert "The group with 2 offsets" in shown.text
    assert browser_of_forms.confirm(path, fields, "retired").status == 200
    assert group not in [each.group_id for each in client.list_groups(group_id_prefix=group)]


def test_members_are_removed_and_a_group_with_members_is_not_reset(
    client: OffsetClient, browser_of_forms: FormBrowser
) -> None:
    joined = client.join_group(
        "to be left", {"range": b""}, client_id="leaver", session_timeout_s=1800
    )
    path = group_link("to be left", "/change/reset")
    refused, fields = browser_of_forms.look(path, to="offset", value="1")
    assert (refused.status, fields) == (409, {})
    assert "The server refuses this" in refused.text
    assert "Tick “also while the group has members, or its lease is held”" in refused.text
    path = group_link("to be left", "/change/remove-members")
    member = joined.membership.member_id
    assert browser_of_forms.look(path)[0].status == 400
    shown, fields = browser_of_forms.look(path, member=digest_of(member))
    assert "1 member<" in shown.text
    assert browser_of_forms.confirm(path, fields, "host is gone").status == 200
    assert client.get_group("to be left").members == ()


def test_a_setting_is_changed_and_set_back(
    client: OffsetClient, browser_of_forms: FormBrowser
) -> None:
    path = "/change/setting?setting=log.cleaner.backoff.ms"
    shown, fields = browser_of_forms.look(path, value="16000")
    assert "admin config" in shown.text
    assert "log.cleaner.backoff.ms=16000" in shown.text
    assert browser_of_forms.confirm(path, fields, "trial").status == 200
    (setting,) = client.describe_config(names=["log.cleaner.backoff.ms"])
    assert setting.value == "16000"
    refused, fields = browser_of_forms.look(path, value="soon")
    assert (refused.status, fields) == (400, {})
    _, fields = browser_of_forms.look(path, unset="yes")
    assert browser_of_forms.confirm(path, fields, "trial is over").status == 200
    (setting,) = client.describe_config(names=["log.cleaner.backoff.ms"])
    assert setting.value == setting.default_value


def test_a_form_that_is_sent_twice_acts_once(
    client: OffsetClient, browser_of_forms: FormBrowser
) -> None:
    group = _commit(client, "twice")
    path = group_link(group, "/change/reset")
    _, fields = browser_of_forms.look(path, to="shift", value="-5")
    for _ in range(2):
        done = browser_of_forms.confirm(path, fields, "once")
        assert done.status == 200
        assert "3 back, by 15 in all" in done.text
    assert _offsets(client, group) == [35, 35, 35]
    assert len(list(client.list_audit_events(group_id=group))) == 1


def test_what_changed_since_the_look_is_shown_and_not_done(
    client: OffsetClient, browser_of_forms: FormBrowser
) -> None:
    group = _commit(client, "moving")
    path = group_link(group, "/change/reset")
    _, fields = browser_of_forms.look(path, to="offset", value="5")
    client.commit(group, {ORDERS[0]: 41})
    refused = browser_of_forms.confirm(path, fields, "slow")
    assert refused.status == 409
    assert "Nothing was done" in refused.text
    assert _offsets(client, group) == [41, 40, 40]
    again = Forms(refused.text).fields["confirm"]
    client.commit(group, {ORDERS[0]: 42})
    done = browser_of_forms.confirm(path, {**again, "anyway": "yes"}, "slow")
    assert done.status == 200
    assert _offsets(client, group) == [5, 5, 5]


@pytest.mark.parametrize(
    ("kind", "chosen", "told"),
    [
        ("reset", {}, "choose what the offsets are reset to"),
        ("reset", {"to": "offset", "value": "x"}, "not a whole number"),
        ("reset", {"to": "offset"}, "this needs a value"),
        ("reset", {"to": "time", "value": "soon"}, "is not a time like"),
        ("reset", {"to": "ago", "value": "ages"}, "is not a duration like"),
        ("reset", {"to": "csv", "csv": "a,b"}, "is not TOPIC,PARTITION,OFFSET"),
        ("reset", {"to": "csv", "csv": "a,1,1\na,1,2"}, "the partition is there twice"),
        ("reset", {"to": "latest", "topics": "a:1,b:2"}, "is not TOPIC or TOPIC:P,P"),
        ("restore", {}, "choose a moment"),
        ("restore", {"revision": "-1"}, "not a whole number"),
        ("clone", {}, "name the group that gets the offsets"),
        ("retention", {"retention": "long"}, "is not a time like"),
        ("delete-offsets", {}, "name at least one topic"),
        ("remove-members", {"member": "00"}, "not in the group any more"),
    ],
)
def test_a_wrong_choice_is_told(
    client: OffsetClient,
    browser_of_forms: FormBrowser,
    kind: str,
    chosen: dict[str, str],
    told: str,
) -> None:
    path = group_link(_commit(client, "wrong choices"), f"/change/{kind}")
    answer, fields = browser_of_forms.look(path, **chosen)
    assert (answer.status, fields) == (400, {})
    assert told in answer.text


def test_a_change_needs_a_reason(client: OffsetClient, browser_of_forms: FormBrowser) -> None:
    path = group_link(_commit(client, "no reason"), "/change/delete-group")
    _, fields = browser_of_forms.look(path)
    refused = browser_of_forms.confirm(path, fields, "  ")
    assert refused.status == 400
    assert "say why" in refused.text
    assert _offsets(client, "no reason") == [40, 40, 40]


def test_a_group_that_is_gone_is_told(browser_of_forms: FormBrowser) -> None:
    for kind in KINDS:
        answer, _ = browser_of_forms.look(f"/change/{kind}?name=nothing", to="current")
        assert answer.status in (400, 404), (kind, answer.status)
    assert browser_of_forms.get("/change/nothing?name=x").status == 404


def test_without_the_option_there_is_no_change(web: WebProcess) -> None:
    browser = FormBrowser(web)
    for kind in (*KINDS, "setting", "done"):
        assert browser.get(f"/change/{kind}?name=billing-invoices").status == 404
        assert browser.post(f"/change/{kind}", {}).status == 405
    assert "/change/" not in browser.get("/group?name=billing-invoices").text


def test_hostile_names_stay_names_in_every_wizard(hostile_web: WebProcess) -> None:
    address = hostile_web.first_line.split()[2]
    with WebProcess(address, "--allow-changes", *PATIENT) as pages:
        browser = FormBrowser(pages)
        for place, name in enumerate((*XSS, *ODD)):
            kind = KINDS[place % len(KINDS)]
            path = group_link(name, f"/change/{kind}")
            chosen = {
                "topics": name[:120].split("\n")[0],
                "target": name[:300],
                "to": "current",
                "retention": "never",
                "all": "yes",
            }
            answer, _ = browser.look(path, **chosen)
            assert len(answer.body) < PAGE_BYTES_MAX, name
            parser = _Inline()
            parser.feed(answer.text)
            assert parser.found == [], name


@pytest.mark.parametrize("name", ["line\nand line", " \u202eodd' \\ name", *ODD[4:6]])
def test_a_group_with_any_name_can_be_changed(
    changed_world: ServerProcess, changing: WebProcess, name: str
) -> None:
    with OffsetClient(changed_world.address) as client:
        client.commit(name, dict.fromkeys(ORDERS, 40))
        path = group_link(name, "/change/reset")
        browser = FormBrowser(changing)
        _, fields = browser.look(path, to="offset", value="3", topics="orders")
        as_a_browser = {key: value.replace("\n", "\r\n") for key, value in fields.items()}
        assert browser.confirm(path, as_a_browser, "any name").status == 200
        assert _offsets(client, name) == [3, 3, 3]


@pytest.mark.parametrize("place", range(0, len(XSS) + len(ODD), 9))
def test_a_command_is_quoted_for_the_shell(place: int) -> None:
    words = [word for word in (*XSS, *ODD)[place : place + 9] if len(word) < 4000]
    line = " ".join(map(quoted, words))
    assert line.isprintable()
    told = subprocess.run(
        ["bash", "-c", f"printf '%s\\0' {line}"], capture_output=True, check=True
    ).stdout
    assert told.decode().split("\0")[:-1] == words
    if all(map(str.isprintable, words)):
        assert shlex.split(line) == words
