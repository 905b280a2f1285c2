"""Planted bugs of the metrics of callers and of the certificate, and of the metrics token."""

from __future__ import annotations

from mutants.planted import Mutant

_METRICS = "offsetd_coordinator.observability.metrics.access_metrics:access_families"
_METRICS_TESTS = "tests/unit/coordinator/observability/test_access_metrics.py"
_PORT_TESTS = "tests/security/test_metrics_port.py"

ACCESS_METRICS_MUTANTS = (
    Mutant(
        name="the end of the certificate is told in milliseconds",
        where=_METRICS,
        replace="seconds(figures.certificate_expire_ms)",
        by="figures.certificate_expire_ms",
        caught_by=_METRICS_TESTS,
    ),
    Mutant(
        name="the metrics take the beginning of the certificate for its end",
        where="offsetd_coordinator.security.certificates:ServerCertificates._read",
        replace="leaf.not_valid_after_utc.timestamp()",
        by="leaf.not_valid_before_utc.timestamp()",
        caught_by=f"{_PORT_TESTS}::test_a_reader_with_the_token_gets_the_metrics",
    ),
    Mutant(
        name="an operation that was never refused has no metric",
        where=_METRICS,
        replace="for each in Operation",
        by="for each in Operation if figures.refusals[each.value]",
        caught_by=_METRICS_TESTS,
    ),
    Mutant(
        name="any token lets in a reader of metrics",
        where="offsetd_coordinator.observability.endpoint_security:EndpointSecurity.lets_in",
        replace="hmac.compare_digest(sent.encode(), self._token.current)",
        by="bool(sent)",
        caught_by=f"{_PORT_TESTS}::test_without_the_token_there_is_nothing",
    ),
    Mutant(
        name="a key that TLS refuses is taken for a matter of the metrics port's address",
        where="offsetd_coordinator.server_security:ServerSecurity.endpoint_security",
        replace="_read(lambda: EndpointSecurity(certificates, _metrics_token(settings)))",
        by="EndpointSecurity(certificates, _read(lambda: _metrics_token(settings)))",
        caught_by=f"{_PORT_TESTS}::test_a_key_that_tls_refuses_is_no_matter_of_the_address",
    ),
)
