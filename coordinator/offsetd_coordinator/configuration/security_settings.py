"""Settings of TLS, identities, access rules and quotas."""

from __future__ import annotations

import attrs
from offsetd_storage.configuration.setting_kinds import INT32_MAX
from offsetd_storage.configuration.settings import flag, listed, milliseconds, text, whole
from offsetd_storage.errors import InvalidSetting

from offsetd_coordinator.configuration.tracing_settings import TracingSettings


@attrs.frozen(kw_only=True)
class SecuritySettings(TracingSettings):
    """The values for TLS, identities and rules."""

    # TLS.
    ssl_certificate_file: str = text(
        "",
        "ssl.certificate.file",
        is_ours=True,
        reason="PEM file of the server's certificate, followed by its chain. With ssl.key.file, the"
        " server speaks TLS only. Both files are read again when they change. Empty: no TLS.",
    )
    ssl_key_file: str = text(
        "",
        "ssl.key.file",
        is_ours=True,
        reason="PEM file of the certificate's private key, without a password.",
    )
    ssl_truststore_file: str = text(
        "",
        "ssl.truststore.file",
        is_ours=True,
        reason="PEM file of the authorities whose certificates clients may have. Read again when"
        " it changes.",
    )
    ssl_client_auth: str = listed(
        "none",
        "ssl.client.auth",
        ("none", "required"),
        reason="Whether clients need a certificate. Kafka's third word, requested, is not there:"
        " gRPC for Python cannot ask for a certificate and go on without one.",
    )
    ssl_principal_mapping_rules: str = text(
        "DEFAULT",
        "ssl.principal.mapping.rules",
        reason="Rules that make a name of the subject of a client's certificate, as in Kafka.",
    )
    security_allow_insecure: bool = flag(
        False,
        "security.allow.insecure",
        is_ours=True,
        reason="Allows an address that other machines can reach, without TLS and rules.",
    )

    # Tokens.
    security_tokens_file: str = text(
        "",
        "security.tokens.file",
        is_ours=True,
        reason="File of salted hashes of tokens, which `offsetd admin tokens` writes. Read again"
        " when it changes.",
    )
    sasl_oauthbearer_jwks_endpoint_url: str = text(
        "",
        "sasl.oauthbearer.jwks.endpoint.url",
        reason="https:// or file:// address of the keys (JWKS) that sign JSON web tokens. Empty:"
        " none are accepted.",
    )
    sasl_oauthbearer_jwks_endpoint_refresh_ms: int = milliseconds(
        3_600_000,
        "sasl.oauthbearer.jwks.endpoint.refresh.ms",
        least=1000,
        most=INT32_MAX,
        reason="How often the keys are read again. A token with an unknown key asks at once.",
    )
    sasl_oauthbearer_expected_issuer: str = text(
        "",
        "sasl.oauthbearer.expected.issuer",
        reason="The issuer (claim iss) that a JSON web token must have.",
    )
    sasl_oauthbearer_expected_audience: str = text(
        "",
        "sasl.oauthbearer.expected.audience",
        reason="Audiences with commas between them: a JSON web token must have one of them (aud).",
    )
    sasl_oauthbearer_sub_claim_name: str = text(
        "sub",
        "sasl.oauthbearer.sub.claim.name",
        reason="The claim of a JSON web token that has the caller's name.",
    )
    sasl_oauthbearer_clock_skew_seconds: int = whole(
        30,
        "sasl.oauthbearer.clock.skew.seconds",
        unit="seconds",
        least=0,
        most=3600,
        reason="How far the clocks of the issuer and of this server may differ.",
    )

    # Rules.
    security_acl_enable: bool = flag(
        False,
        "security.acl.enable",
        is_ours=True,
        reason="Whether rules say what a caller may do. Without a rule, a caller may do nothing.",
    )
    security_acl_file: str = text(
        "",
        "security.acl.file",
        is_ours=True,
        reason="TOML file of the rules, read again when it changes. Then `offsetd acls` does not"
        " change rules. Empty: the rules are those of `offsetd acls`.",
    )
    super_users: str = text(
        "",
        "super.users",
        reason="Principals that may do everything, with semicolons between them: User:a;User:b.",
    )
    security_quotas_file: str = text(
        "",
        "security.quotas.file",
        is_ours=True,
        reason="TOML file of quotas of principals and client ids, read again when it changes."
        " Empty: no quotas.",
    )
    metrics_quota_principals_max: int = whole(
        100,
        "metrics.quota.principals.max",
        unit="principals",
        least=0,
        most=10_000,
        is_ours=True,
        reason="How many principals that exceeded a quota have metrics of their own, the first"
        " ones since the start. Further ones are counted together.",
    )
    security_health_open: bool = flag(
        True,
        "security.health.open",
        is_ours=True,
        reason="Whether callers without an identity may ask for the server's health.",
    )
    metrics_ssl_enable: bool = flag(
        False,
        "metrics.ssl.enable",
        is_ours=True,
        reason="Whether the metrics port speaks TLS, with the server's certificate.",
    )
    metrics_token_file: str = text(
        "",
        "metrics.token.file",
        is_ours=True,
        reason="File of the token that a reader of the metrics must send (authorization: Bearer).",
    )

    @property
    def has_tls(self) -> bool:
        """Whether the server's port speaks TLS."""
        return bool(self.ssl_certificate_file)

    @property
    def has_rules(self) -> bool:
        """Whether rules say what a caller may do."""
        return self.security_acl_enable or bool(self.security_acl_file)

    @property
    def has_rules_by_command(self) -> bool:
        """Whether the rules in force are those of `offsetd acls`."""
        return self.security_acl_enable and not self.security_acl_file

    @property
    def takes_tokens(self) -> bool:
        """Whether a token can be an identity."""
        return bool(self.security_tokens_file or self.sasl_oauthbearer_jwks_endpoint_url)

    def check_security(self) -> None:
        """Raises InvalidSetting if some values do not fit each other."""
        for name, value, needs, needed in (
            ("ssl.certificate.file", self.ssl_certificate_file, "ssl.key.file", self.ssl_key_file),
            ("ssl.key.file", self.ssl_key_file, "ssl.certificate.file", self.ssl_certificate_file),
            (
                "ssl.client.auth",
                self.ssl_client_auth != "none",
                "ssl.truststore.file",
                self.ssl_truststore_file,
            ),
            (
                "ssl.truststore.file",
                self.ssl_truststore_file,
                "ssl.certificate.file",
                self.ssl_certificate_file,
            ),
            (
                "ssl.truststore.file",
                self.ssl_truststore_file,
                "ssl.client.auth",
                self.ssl_client_auth != "none",
            ),
            (
                "metrics.ssl.enable",
                self.metrics_ssl_enable,
                "ssl.certificate.file",
                self.ssl_certificate_file,
            ),
            (
                "sasl.oauthbearer.jwks.endpoint.url",
                self.sasl_oauthbearer_jwks_endpoint_url,
                "sasl.oauthbearer.expected.audience",
                self.sasl_oauthbearer_expected_audience,
            ),
            (
                "sasl.oauthbearer.jwks.endpoint.url",
                self.sasl_oauthbearer_jwks_endpoint_url,
                "sasl.oauthbearer.expected.issuer",
                self.sasl_oauthbearer_expected_issuer,
            ),
        ):
            if value and not needed:
                raise InvalidSetting(name, f"it needs {needs}, too")
