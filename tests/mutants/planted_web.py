"""Planted bugs of the pages of `offsetd web`."""

from __future__ import annotations

from mutants.planted import Mutant

_HTTP = "tests/web/test_pages_over_http.py"
_HOSTILE = "tests/web/test_hostile_names.py"
_TOKENS = "tests/unit/clients/test_group_pages.py"
_WEB = "offsetd_clients.web"
_LISTS = "tests/web/test_group_lists.py"
_SEARCH = "offsetd_coordinator.state.group_search"
_SEARCHES = "tests/unit/coordinator/test_group_search.py"

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
        where=f"{_WEB}.names:bounded",
        replace="shown = printable(text[:characters_max])[:characters_max]",
        by="shown = text[:characters_max]",
        caught_by=f"{_HOSTILE}::test_no_name_makes_a_list_large_or_turns_its_direction",
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
        where=f"{_WEB}.web_command:is_loopback",
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
        caught_by="tests/unit/clients/test_web_rates.py",
    ),
    Mutant(
        name="a damaged partition is as cool as its size",
        where=f"{_WEB}.pages.heat_map:_cell",
        replace="if each.quarantine_reason:",
        by="if False:",
        caught_by="tests/unit/clients/test_web_heat_map.py",
    ),
)
