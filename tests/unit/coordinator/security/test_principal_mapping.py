r"""Names of principals by mapping rules. What is expected is what Kafka 4.1.1 answers.

The answers were read from its `SslPrincipalMapper`, under Java 17.
"""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from offsetd_coordinator.security.principal_mapping import parse_mapping_rules

SERVICE = "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/"
ADMIN = "RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/L"
ANY_CASE = "RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/"
DOCUMENTED = f"{SERVICE},\n{ADMIN},\n{ANY_CASE}U,\nDEFAULT"
UNKNOWN = "O=Unknown,L=Unknown,ST=Unknown,C=Unknown"

MAPPED = (
    ("DEFAULT", "CN=kafka1,OU=SME,C=DE", "CN=kafka1,OU=SME,C=DE"),
    (SERVICE, f"CN=serviceuser,OU=ServiceUsers,{UNKNOWN}", "serviceuser"),
    (DOCUMENTED, f"CN=serviceuser,OU=ServiceUsers,{UNKNOWN}", "serviceuser"),
    (DOCUMENTED, f"CN=adminUser,OU=Admin,{UNKNOWN}", "adminuser@admin"),
    (DOCUMENTED, "O=x,cN=Abc.d,C=y", "ABC.D"),
    (DOCUMENTED, "OU=JavaUsers,O=x", "OU=JavaUsers,O=x"),
    (f"{SERVICE}, RULE:^cn=([^,]*)/$1/ , DEFAULT", "OU=a,O=x", "OU=a,O=x"),
    (SERVICE, "CN=other", None),
    # The whole name has to match.
    ("RULE:^CN=a/x/", "CN=ab", None),
    ("RULE:N=a/x/", "CN=a", None),
    ("RULE:CN=a$/x/", "CN=a\n", None),
    ("RULE:/x/", "a", None),
    # Then each match in it is replaced.
    ("RULE:^(.*)$/<$1>/", "CN=a", "<CN=a>"),
    ("RULE:(.*)/<$1>/", "CN=a", "<CN=a><>"),
    ("RULE:.*/x/", "CN=a", "xx"),
    ("RULE:(a|ab)/x/", "ab", "xb"),
    ("RULE:CN=(.*?)/<$1>/", "CN=abc", "<>abc"),
    ("RULE:(.*?)/<$1>/", "ab", "<>a<>b<>"),
    ("RULE:|ab/x/", "ab", "xaxbx"),
    ("RULE:b*a/x/", "bba", "x"),
    ("RULE:[ab]*?c?/x/", "abc", "xaxbxx"),
    # Groups.
    ("RULE:CN=(a)?(.*)/<$1$2>/", "CN=b", "<b>"),
    ("RULE:CN=(.*)/$0/", "CN=a", "CN=a"),
    ("RULE:CN=(.*)/$1@$2/", "CN=a", "a@$2"),
    ("RULE:CN=(.*)/$12/", "CN=a", "a2"),
    ("RULE:CN=(.*)/$01/", "CN=a", "a"),
    ("RULE:(a)(b)(c)(d)(e)(f)(g)(h)(i)(j)/$10$3/", "abcdefghij", "jc"),
    # Escapes.
    (r"RULE:CN=(.*)/\$1/", "CN=a", "$1"),
    (r"RULE:CN=.*/\$1/", "CN=a", "$1"),
    (r"RULE:CN=(.*)/\\$1/", "CN=a", r"\a"),
    (r"RULE:a\/b/c\/d/", "a/b", "c/d"),
    (r"RULE:a\\/c\\d/", "a\\", r"c\d"),
    (r"RULE:CN=(.*)/a\b\\c/", "CN=a", r"ab\c"),
    # Commas within a rule, spaces, and what stands between rules.
    ("RULE:^CN=([^,]*),OU=(a,b)$/$1/", "CN=x,OU=a,b", "x"),
    ("RULE:CN=(.*),DEFAULT/$1/", "CN=a,DEFAULT", "a"),
    ("RULE:CN=([^,]+),.*/$1/,DEFAULT", r"CN=a\,b,OU=x", "a\\"),
    ("RULE: CN=(.*)/$1 /", " CN=a", "a "),
    ("RULE:a/b/L,", "a", "b"),
    (",RULE:a/b/", "a", "b"),
    ("RULE:a/b/,,DEFAULT", "x", "x"),
    ("RULE:a/b/,\nDEFAULT", "x", "x"),
    # Characters.
    (r"RULE:CN=(\w+)/$1/", "CN=Ö", None),
    (r"RULE:CN=(\d+)/$1/", "CN=٣", None),
    ("RULE:(?i)cn=ö/x/", "CN=Ö", None),
    ("RULE:CN=(.*)/$1/", "CN=a\nb", None),
    ("RULE:(?s)CN=(.*)/$1/", "CN=a\nb", "a\nb"),
    ("RULE:CN=(.*)/$1/L", "CN=İSTANBUL", "i̇stanbul"),
    ("RULE:CN=(.*)/$1/U", "CN=straße", "STRASSE"),
)

REFUSED_BY_KAFKA = (
    "default",
    "DEFAUL",
    "DEFAULT/L",
    "DEFAULT/U",
    "DEFAULT DEFAULT",
    "rule:a/b/",
    "RULE:a/b/l",
    "RULE:a/b/Lx",
    "RULE:a/b/LU",
    "RULE:a/b/ DEFAULT",
    "RULE:[/x/",
    "RULE:CN=(.*?),OU=ServiceUsers.*/$1",
    "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1",
    "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L/U",
    "RULE:^CN=(.*?),OU=ServiceUsers.*$/L",
    "RULE:^CN=(.*?),OU=ServiceUsers.*$/U",
    "RULE:^CN=(.*?),OU=ServiceUsers.*$/LU",
)
# Kafka takes them, and then they fail or fit nobody, or Python reads them in another way.
REFUSED_HERE = (
    "",
    " \n",
    ",",
    "RULE:CN=.*/$1/",
    "RULE:CN=.*/$a/",
    "RULE:CN=(.*)/$/",
    "RULE:CN=(.*)/a$1$/",
    "RULE:CN=(.*)/$2$3/",
    r"RULE:CN=(.*)/\$2/",
    "DEFAULT\nRULE:a/b/",
    "RULE:a/b/L \n DEFAULT",
    "RULE:(?<n>.*)/${n}/",
    "RULE:[a&&b]/x/",
    "RULE:[[a]b]/x/",
    r"RULE:\p{L}/x/",
    "RULE:(?L)a/x/",
    "RULE:(?u)a/x/",
    "RULE:(?\n/x/",
)


@pytest.mark.parametrize(("rules", "distinguished_name", "name"), MAPPED)
def test_names_are_those_of_kafka(rules: str, distinguished_name: str, name: str | None) -> None:
    principal = parse_mapping_rules(rules).principal_of(distinguished_name)
    assert principal == (None if name is None else f"User:{name}")


@pytest.mark.parametrize("rules", ["DEFAULT", "RULE:CN=(.*)/$1/", "RULE:(CN=)?(.*)//,DEFAULT"])
def test_an_empty_name_is_nobody(rules: str) -> None:
    mapper = parse_mapping_rules(rules)
    assert mapper.principal_of("CN=" if rules.startswith("RULE") else "") is None


@pytest.mark.parametrize("rules", REFUSED_BY_KAFKA + REFUSED_HERE)
def test_wrong_rules_are_refused_with_one_line(rules: str) -> None:
    with pytest.raises(ValueError, match=r"\Assl\.principal\.mapping\.rules: ") as refused:
        parse_mapping_rules(rules)
    assert len(str(refused.value).splitlines()) == 1


def test_a_refusal_quotes_the_rule_that_is_wrong() -> None:
    with pytest.raises(ValueError, match=re.escape("'RULE:b/$1/': the pattern has no group $1")):
        parse_mapping_rules("RULE:a/x/,RULE:b/$1/,DEFAULT")


WORDS = r"RULE: DEFAULT / / \ $ $1 $0 ${n} , ( ) (? [ ] * + {9} | CN= a L U && -- ^ ."
PIECES = st.sampled_from([*WORDS.split(), "\n", "\x85", "\ud800", "9" * 5000])
TEXTS = st.one_of(st.lists(PIECES).map("".join), st.text())


def check_any(rules: str, distinguished_name: str) -> None:
    """Either the rules are refused with one line, or they map the name."""
    mapper, problem = None, ""
    try:
        mapper = parse_mapping_rules(rules)
    except ValueError as error:
        problem = str(error)
    assert len(problem.splitlines()) == (mapper is None)
    if mapper is not None:
        assert mapper.principal_of(distinguished_name) != "User:"


@given(TEXTS, TEXTS)
@example("RULE:(?<\x85/x/", "")
def test_any_text(rules: str, distinguished_name: str) -> None:
    check_any(rules, distinguished_name)


@given(PIECES, st.lists(PIECES).map("".join), TEXTS)
def test_any_pattern_and_replacement(pattern: str, replacement: str, name: str) -> None:
    check_any(f"RULE:({pattern})/{replacement}/,DEFAULT", name)
