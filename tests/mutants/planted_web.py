"""Planted bugs of the pages of `offsetd web`."""

from __future__ import annotations

from mutants.planted import Mutant

_HTTP = "tests/web/test_pages_over_http.py"
_HOSTILE = "tests/web/test_hostile_names.py"
_CHANGES = "tests/web/test_changes.py"
_FOREIGN = "tests/web/test_foreign_forms.py"
_LOGIN = "tests/web/test_login.py"
_OIDC = "tests/web/test_oidc_login.py"
_FLOWS = "tests/unit/clients/web/test_login_flows.py"
_PROVIDER_TOKEN = "tests/unit/clients/web/test_provider_token.py"
_SERVE_WEB = "tests/web/test_serve_web.py"
_TOKENS = "tests/unit/clients/test_group_pages.py"
_WEB = "offsetd_clients.web"
_RIGHTS = "tests/web/test_rights.py"
_LISTS = "tests/web/test_group_lists.py"
_SEARCH = "offsetd_coordinator.state.group_search"
_SEARCHES = "tests/unit/coordinator/state/test_group_search.py"

WEB_MUTANTS = (
    Mutant(
        name="any host may ask",
        where=f"{_WEB}.protection:Protection._refusal",
        replace="len(hosts) != 1 or host_name(hosts[0]) not in self._host_names",
        by="len(hosts) != 1",
        caught_by=f"{_HTTP}::test_another_host_is_refused_before_anything_is_said",
    ),
    Mutant(
        name="a host that begins with a name of this machine may ask",
        where=f"{_WEB}.protection:host_name",
        replace="_HOST.fullmatch(host)",
        by="_HOST.match(host)",
        caught_by=f"{_HTTP}::test_another_host_is_refused_before_anything_is_said",
    ),
    Mutant(
        name="templates do not escape",
        where=f"{_WEB}.rendering:environment",
        replace="autoescape=select_autoescape(default=True, default_for_string=True)",
        by="autoescape=False",
        caught_by=f"{_HOSTILE}::test_the_page_of_every_hostile_group_has_only_our_elements",
    ),
    Mutant(
        name="marks of direction reach the page",
        where=f"{_WEB}.names:_pieces",
        replace="shown = printable(character)",
        by="shown = character",
        caught_by=f"{_HOSTILE}::test_no_name_makes_a_list_large_or_turns_its_direction",
    ),
    Mutant(
        name="an escape looks like the backslash of a name",
        where=f"{_WEB}.names:marked",
        replace="(_ESCAPED if is_escaped else _PLAIN)",
        by="_PLAIN",
        caught_by=f"{_HOSTILE}::test_an_escape_does_not_look_like_the_backslash_of_a_name",
    ),
    Mutant(
        name="everyone gets the counts of groups and offsets",
        where="offsetd_coordinator.services.server_admin:AdminService.get_server_info",
        replace="if not _may_see_counts():",
        by="if False:",
        caught_by=f"{_RIGHTS}::test_counts_need_the_right_to_describe_the_cluster",
    ),
    Mutant(
        name="rates reach back further than ten minutes",
        where=f"{_WEB}.pages.rates:Rates.noted",
        replace="at_s - self._samples[0].at_s > AGE_S_MAX",
        by="False",
        caught_by="tests/unit/clients/web/test_web_rates.py",
    ),
    Mutant(
        name="the answer after a defect has no protection",
        where=f"{_WEB}.application:application",
        replace="return Protection(pages, options=options)",
        by="pages.add_middleware(Protection, options=options)\nreturn pages",
        caught_by="tests/unit/clients/web/test_web_protection.py",
    ),
    Mutant(
        name="a long name stands whole in each link",
        where=f"{_WEB}.names:name_parameters",
        replace="if is_short(group_id):",
        by="if group_id:",
        caught_by=f"{_HOSTILE}::test_no_name_makes_a_list_large_or_turns_its_direction",
    ),
    Mutant(
        name="a cell of the CSV may be a formula",
        where=f"{_WEB}.csv_download:harmless",
        replace='return f"\'{cell}" if cell.startswith(_FORMULA_STARTS) else cell',
        by="return cell",
        caught_by=f"{_HTTP}::test_no_cell_of_the_csv_is_a_formula",
    ),
    Mutant(
        name="it listens anywhere",
        where="offsetd_clients.calling.security:is_loopback_host",
        replace='return host == "localhost"',
        by="return True",
        caught_by=f"{_HTTP}::test_it_does_not_listen_elsewhere_unless_told",
    ),
    Mutant(
        name="a page that renews itself is replaced while the server is lost",
        where=f"{_WEB}.application:Pages.page",
        replace='if "hx-request" in request.headers:\n    return Response(status_code=204)',
        by="",
        caught_by=f"{_HTTP}::test_without_a_server_each_page_says_so",
    ),
    Mutant(
        name="a page of groups is forgotten between two pages",
        where="offsetd_clients.cluster_parts:token_of",
        replace="for each in parts",
        by="for each in list(parts)[1:]",
        caught_by=f"{_TOKENS}::test_a_token_holds_what_remains_of_a_list",
    ),
    Mutant(
        name="a form of another site is taken",
        where=f"{_WEB}.protection:Protection._refusal",
        replace='headers.getlist("origin") != [self._options.origin(hosts[0])]',
        by='"evil" in hosts[0]',
        caught_by=f"{_FOREIGN}::test_a_form_from_elsewhere_is_refused",
    ),
    Mutant(
        name="a form of any content type is taken",
        where=f"{_WEB}.forms:is_form",
        replace=".lower() == CONTENT_TYPE",
        by='.lower() != "x"',
        caught_by=f"{_FOREIGN}::test_a_form_from_elsewhere_is_refused",
    ),
    Mutant(
        name="a form needs no token",
        where=f"{_WEB}.sessions:SessionCookie.is_form_token",
        replace="hmac.compare_digest(self.form_token(session).encode(), token.encode())",
        by="True",
        caught_by=f"{_FOREIGN}::test_a_form_without_the_token_of_its_session_is_refused",
    ),
    Mutant(
        name="a form that is sent twice acts twice",
        where=f"{_WEB}.changes.done_changes:DoneChanges.once",
        replace="task = self._tasks.get(key)",
        by="task = None",
        caught_by=f"{_CHANGES}::test_a_form_that_is_sent_twice_acts_once",
    ),
    Mutant(
        name="what changed since the look is done all the same",
        where=f"{_WEB}.changes.pages:ChangePages._made",
        replace='looked.digest != form.get("seen")',
        by="not looked.digest",
        caught_by=f"{_CHANGES}::test_what_changed_since_the_look_is_shown_and_not_done",
    ),
    Mutant(
        name="what cannot be seen stands in the command as it is",
        where=f"{_WEB}.changes.command_line:quoted",
        replace="if word.isprintable():",
        by="if word:",
        caught_by=f"{_CHANGES}::test_a_command_is_quoted_for_the_shell",
    ),
    Mutant(
        name="a look changes",
        where=f"{_WEB}.changes.pages:ChangePages._look",
        replace="change.carry_out(self._patient(), Terms())",
        by="change.carry_out(self._patient(), Terms(validate_only=False))",
        caught_by=f"{_CHANGES}::test_a_reset_is_shown_done_and_audited",
    ),
    Mutant(
        name="a session that was there before the login is kept",
        where=f"{_WEB}.login_pages:LoginPages.begin",
        replace="self.cookie.set_on(answer, session)",
        by="self.cookie.set_on(answer, before or session)",
        caught_by=f"{_LOGIN}::test_a_session_is_new_after_the_login_and_gone_after_the_logout",
    ),
    Mutant(
        name="a logout leaves the session",
        where=f"{_WEB}.login_pages:LoginPages.end",
        replace="self.logins.end(session)",
        by="",
        caught_by=f"{_LOGIN}::test_a_session_is_new_after_the_login_and_gone_after_the_logout",
    ),
    Mutant(
        name="an idle session stays",
        where=f"{_WEB}.logins:Logins.end_what_is_over",
        replace="now_s - viewer.used_s >= self._idle_s or",
        by="",
        caught_by=f"{_LOGIN}::test_a_session_ends_when_it_is_idle_and_some_day",
    ),
    Mutant(
        name="a session that is used never ends",
        where=f"{_WEB}.logins:Logins.end_what_is_over",
        replace="or now_s - viewer.began_s >= self._life_s",
        by="",
        caught_by=f"{_LOGIN}::test_a_session_ends_when_it_is_idle_and_some_day",
    ),
    Mutant(
        name="a login at a server that checks no tokens",
        where=f"{_WEB}.logins:Logins.begin",
        replace="if await self._is_known(secrets.token_urlsafe(32)):",
        by="if not token:",
        caught_by=f"{_LOGIN}::test_a_server_that_checks_no_tokens_takes_no_login",
    ),
    Mutant(
        name="a login leads to another site",
        where=f"{_WEB}.login_pages:own_path",
        replace="""and not text.startswith(("//", "/\\\\"))""",
        by="",
        caught_by=f"{_LOGIN}::test_a_login_leads_to_these_pages_only",
    ),
    Mutant(
        name="tokens go through the network in plain text",
        where=f"{_WEB}.access:Access.check",
        replace="if not self.has_tls:",
        by="if not self.host:",
        caught_by=f"{_LOGIN}::test_it_listens_elsewhere_only_with_a_login_and_tls",
    ),
    Mutant(
        name="all viewers call with the identity of the pages",
        where=f"{_WEB}.application:Site._viewed",
        replace="if not self._options.has_login:",
        by="if self._only:",
        caught_by=f"{_LOGIN}::test_without_a_login_nothing_is_shown",
    ),
    Mutant(
        name="a lease that has ended still has its holder",
        where=f"{_SEARCH}:_is_held_by",
        replace="status is not None and status.is_held and",
        by="status is not None and",
        caught_by=f"{_SEARCHES}::test_a_lease_holder_narrows_while_the_lease_is_held",
    ),
    Mutant(
        name="a group is found by any topic",
        where=f"{_SEARCH}:_spans_of_topics",
        replace="blocks[is_asked_for] >> 32",
        by="blocks >> 32",
        caught_by=f"{_SEARCHES}::test_a_topic_narrows_and_several_widen",
    ),
    Mutant(
        name="a page goes on with groups that it does not need",
        where=f"{_SEARCH}:GroupSearch.wants",
        replace="group_id < self.below",
        by="True",
        caught_by=f"{_SEARCHES}::test_what_is_not_needed_any_more_is_left_out",
    ),
    Mutant(
        name="more groups than are sorted are not told",
        where=f"{_WEB}.pages.groups:_sorted",
        replace="is_cut=bool(token)",
        by="is_cut=False",
        caught_by=f"{_LISTS}::test_more_groups_than_are_sorted_are_told",
    ),
    Mutant(
        name="the CSV leaves out the filter by holder",
        where=f"{_WEB}.pages.groups:Choice.of",
        replace='parameters.get("owner", "")',
        by='""',
        caught_by=f"{_LISTS}::test_the_csv_honours_the_filters",
    ),
    Mutant(
        name="a log that was restored has a rate below zero",
        where=f"{_WEB}.pages.rates:_rates_between",
        replace="max(0, counters[each] - before[each])",
        by="counters[each] - before[each]",
        caught_by="tests/unit/clients/web/test_web_rates.py",
    ),
    Mutant(
        name="a damaged partition is as cool as its size",
        where=f"{_WEB}.pages.heat_map:_cell",
        replace="if each.quarantine_reason:",
        by="if False:",
        caught_by="tests/unit/clients/web/test_web_heat_map.py",
    ),
    Mutant(
        name="the pages outlive their server",
        where=f"{_WEB}.serving:Serving.run",
        replace="if self.ends_with_stdin:",
        by="if not self.url:",
        caught_by=f"{_SERVE_WEB}::test_the_pages_show_the_server_and_end_with_it",
    ),
    Mutant(
        name="a server ends with its pages",
        where="offsetd_coordinator.commands.serve:_show",
        replace="await serve_pages(pages, settings.listen_address if is_fixed else"
        " server.node.address)",
        by="await serve_pages(pages, server.node.address)\nserver.stop()",
        caught_by=f"{_SERVE_WEB}::test_the_server_goes_on_without_its_pages",
    ),
    Mutant(
        name="a login may end in a browser that did not begin it",
        where=f"{_WEB}.oidc_pages:OidcPages.finish",
        replace='self._flows.take(browser, request.query_params.get("state", ""))',
        by="self._flows._flows.popitem()[1] if self._flows._flows else None",
        caught_by=f"{_OIDC}::test_a_login_that_another_browser_began_is_refused",
    ),
    Mutant(
        name="a provider may say that it is another issuer",
        where=f"{_WEB}.openid:Provider._metadata",
        replace='if found.get("issuer") != self.settings.issuer:',
        by='if not found.get("issuer"):',
        caught_by=f"{_OIDC}::test_a_provider_that_is_not_the_one_is_refused",
    ),
    Mutant(
        name="the way back from the provider is a redirect, without the session",
        where=f"{_WEB}.oidc_pages:OidcPages.finish",
        replace='answer = pages.lead_on(request, flow.following, "You are logged in.")',
        by="answer: Response = RedirectResponse(flow.following, 303)",
        caught_by=f"{_OIDC}::test_each_tab_of_a_browser_may_begin_a_login",
    ),
    Mutant(
        name="a call that ends takes the renewal of its token with it",
        where=f"{_WEB}.openid:ProviderToken.__call__",
        replace="await asyncio.wait({self._renewal}, timeout=_WAIT_S)",
        by="await self._renewal",
        caught_by=_PROVIDER_TOKEN,
    ),
    Mutant(
        name="any error of a renewal ends the login",
        where=f"{_WEB}.openid:ProviderToken._renew",
        replace="if error.error in _LOGIN_IS_OVER:",
        by="if True:",
        caught_by=_PROVIDER_TOKEN,
    ),
    Mutant(
        name="a login that is begun again leaves the one before",
        where=f"{_WEB}.oidc_pages:OidcPages.finish",
        replace="if flow.before is not None:",
        by="if False:",
        caught_by=f"{_OIDC}::test_a_login_that_is_begun_again_ends_the_one_before",
    ),
    Mutant(
        name="a login that ends leaves the session of another tab's login",
        where=f"{_WEB}.login_flows:LoginFlows.replace_session",
        replace="attrs.evolve(self._flows[each], before=session)",
        by="self._flows[each]",
        caught_by=f"{_OIDC}::test_the_last_login_of_two_tabs_ends_the_first",
    ),
    Mutant(
        name="logins that many begin end those of others",
        where=f"{_WEB}.login_flows:LoginFlows.keep",
        replace="len(self._flows) >= self._flows_max",
        by="len(self._flows) >= self._flows_max and not self._flows.popitem(last=False)",
        caught_by=_FLOWS,
    ),
    Mutant(
        name="a renewal may bring what is no token",
        where=f"{_WEB}.openid:ProviderToken.of",
        replace='if not is_token(answer["access_token"]):',
        by="if False:",
        caught_by=_PROVIDER_TOKEN,
    ),
    Mutant(
        name="an odd answer of the provider is no refusal",
        where=f"{_WEB}.openid:Provider.finish",
        replace='raise ProviderRefused("the provider sent no access token") from error',
        by="raise",
        caught_by=f"{_OIDC}::test_what_the_provider_refuses_or_forges_is_no_login",
    ),
    Mutant(
        name="a link of another site replaces the session",
        where=f"{_WEB}.login_pages:LoginPages.ask_again",
        replace="self.form_cookie.set_on(answer, shown_to)",
        by="self.cookie.set_on(answer, shown_to)",
        caught_by=f"{_LOGIN}::test_a_link_of_another_site_leads_on_with_the_session",
    ),
    Mutant(
        name="a link of another site leads a viewer with a session to the login",
        where=f"{_WEB}.login_pages:LoginPages.ask",
        replace='request.headers.get("sec-fetch-site") == "cross-site"',
        by="False",
        caught_by=f"{_LOGIN}::test_a_link_of_another_site_leads_on_with_the_session",
    ),
    Mutant(
        name="a token is not renewed",
        where=f"{_WEB}.oidc_pages:OidcPages.finish",
        replace="pages.logins.begin(token.text, token)",
        by="pages.logins.begin(token.text)",
        caught_by=f"{_OIDC}::test_a_token_is_renewed_before_its_end",
    ),
)
