"""Planted bugs in the server's certificates, and in the names that certificates give."""

from __future__ import annotations

from mutants.planted import Mutant

_CERTIFICATES = "offsetd_coordinator.security.certificates"
_MAPPING = "offsetd_coordinator.security.principal_mapping"
_CERTIFICATE_TESTS = "tests/unit/coordinator/test_certificates.py"
_MAPPING_TESTS = "tests/unit/coordinator/test_principal_mapping.py"

CERTIFICATE_MUTANTS = (
    Mutant(
        name="a key that is not the certificate's is taken",
        where=f"{_CERTIFICATES}:_check_key",
        replace="key.public_key().public_bytes(*form) != expected",
        by="not key",
        caught_by=_CERTIFICATE_TESTS,
    ),
    Mutant(
        name="the server's certificate is never read again",
        where=f"{_CERTIFICATES}:ServerCertificates.refresh",
        replace="states == self._seen",
        by="states",
        caught_by=_CERTIFICATE_TESTS,
    ),
    Mutant(
        name="half replaced files of a certificate are not tried again",
        where=f"{_CERTIFICATES}:ServerCertificates.refresh",
        replace="self._take()",
        by="self._seen = states; self._take()",
        caught_by=_CERTIFICATE_TESTS,
    ),
    Mutant(
        name="only the first space of a name in a certificate is escaped",
        where=f"{_CERTIFICATES}:_escaped",
        replace="len(text) - len(text.lstrip(_ENDS))",
        by="int(text.startswith(' '))",
        caught_by=_CERTIFICATE_TESTS,
    ),
    Mutant(
        name="a mapping rule fits a part of a name",
        where=f"{_MAPPING}:_Rule.name_of",
        replace="self.pattern.fullmatch(distinguished_name)",
        by="self.pattern.search(distinguished_name)",
        caught_by=_MAPPING_TESTS,
    ),
    Mutant(
        name="a place is tried again after an empty match",
        where=f"{_MAPPING}:_Rule.name_of",
        replace="self._all_replaced(self.pattern, distinguished_name)",
        by="self.pattern.sub(self._replaced, distinguished_name)",
        caught_by=_MAPPING_TESTS,
    ),
    Mutant(
        name="mapping rules on two lines need no comma",
        where=_MAPPING,
        replace=r're.compile(r"\s*(?:,[\s,]*|\Z)", re.ASCII)',
        by=r're.compile(r"\s*(?:[,\n][\s,]*|\Z)", re.ASCII)',
        caught_by=_MAPPING_TESTS,
    ),
    Mutant(
        name="a mapping rule that does not fit ends the search",
        where=f"{_MAPPING}:PrincipalMapper.principal_of",
        replace="name is not None",
        by="True",
        caught_by=_MAPPING_TESTS,
    ),
)
