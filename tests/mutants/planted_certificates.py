"""Planted bugs in the server's certificates, the names in certificates, and the metrics port."""

from __future__ import annotations

from mutants.planted import Mutant

_CERTIFICATES = "offsetd_coordinator.security.certificates"
_MAPPING = "offsetd_coordinator.security.principal_mapping"
_CERTIFICATE_TESTS = "tests/unit/coordinator/security/test_certificates.py"
_NAME_TESTS = "tests/unit/coordinator/security/test_distinguished_names.py"
_MAPPING_TESTS = "tests/unit/coordinator/security/test_principal_mapping.py"
_SECURITY = "offsetd_coordinator.observability.endpoint_security:EndpointSecurity"
_ENDPOINT = "offsetd_coordinator.observability.metrics.endpoint"
_READERS = "offsetd_coordinator.observability.metrics.reader_connections:ReaderConnections"
_METRICS_TESTS = "tests/unit/coordinator/observability/test_metrics_tls.py"

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
        replace="self._read()",
        by="self._seen = states; self._read()",
        caught_by=_CERTIFICATE_TESTS,
    ),
    Mutant(
        name="an expired certificate replaces one that is valid",
        where=f"{_CERTIFICATES}:ServerCertificates._read",
        replace="if problem and not is_start and not",
        by="if False and not",
        caught_by=_CERTIFICATE_TESTS,
    ),
    Mutant(
        name="a new certificate that ends soon is not warned of after another one",
        where=f"{_CERTIFICATES}:ServerCertificates._read",
        replace="self._warned_seconds = -float(_WARNED_AGAIN_SECONDS)",
        by="pass",
        caught_by=_CERTIFICATE_TESTS,
    ),
    Mutant(
        name="a certificate that is not for servers is not warned of",
        where=f"{_CERTIFICATES}:_is_of_server",
        replace="any(each in usages for each in _USAGES_OF_SERVERS)",
        by="bool(usages)",
        caught_by=_CERTIFICATE_TESTS,
    ),
    Mutant(
        name="only the first space of a name in a certificate is escaped",
        where=f"{_CERTIFICATES}:_escaped",
        replace="len(text) - len(text.lstrip(_ENDS))",
        by="int(text.startswith(' '))",
        caught_by=_NAME_TESTS,
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

METRICS_PORT_MUTANTS = (
    Mutant(
        name="the beginning of the metrics token lets in",
        where=f"{_SECURITY}.lets_in",
        replace="hmac.compare_digest(sent.encode(), self._token.current)",
        by="self._token.current.startswith(sent.encode())",
        caught_by=_METRICS_TESTS,
    ),
    Mutant(
        name="the metrics port stays with its first certificate",
        where=f"{_SECURITY}.context",
        replace="self._made[0] is not current",
        by="self._made[0] is None",
        caught_by=_METRICS_TESTS,
    ),
    Mutant(
        name="the metrics port shakes hands where it accepts connections",
        where=f"{_ENDPOINT}:_Server",
        replace="def process_request_thread(",
        by="def process_request(",
        caught_by=_METRICS_TESTS,
    ),
    Mutant(
        name="silent readers of metrics are never closed for others",
        where=f"{_READERS}.enter",
        replace="len(self._waiting) >= self._waiting_max",
        by="False",
        caught_by=_METRICS_TESTS,
    ),
    Mutant(
        name="a reader of metrics that is served is closed for others",
        where=f"{_READERS}.admit",
        replace="self._waiting.pop(thread).close()",
        by="",
        caught_by=_METRICS_TESTS,
    ),
    Mutant(
        name="any number of readers of metrics is served",
        where=f"{_READERS}.admit",
        replace="len(self._served) >= self._served_max",
        by="False",
        caught_by=_METRICS_TESTS,
    ),
    Mutant(
        name="an answer with metrics has no end of TLS",
        where=f"{_ENDPOINT}:_Handler.do_GET",
        replace="self.connection.unwrap()",
        by="pass",
        caught_by=_METRICS_TESTS,
    ),
)
