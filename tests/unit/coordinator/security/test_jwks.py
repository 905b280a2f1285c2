"""The keys that sign JSON web tokens: which are taken, from where, and when they are fetched."""

from __future__ import annotations

import asyncio
import json
from http.client import HTTPException
from typing import TYPE_CHECKING, Any

import pytest
from certificates import Authority
from jwt.algorithms import HMACAlgorithm
from offsetd_coordinator.security.jwks import (
    ALGORITHMS,
    ASK_AGAIN_MS,
    DOCUMENT_BYTES_MAX,
    KeySet,
    check_address,
    fetch_document,
    parse_keys,
)
from oidc_issuer import NOW_MS, Publication, Response, jwks, served, signing_key
from patience import PATIENCE_SECONDS
from structlog.testing import capture_logs

if TYPE_CHECKING:
    from pathlib import Path

ADDRESS = "https://issuer.example/jwks.json"
REFRESH_MS = 3_600_000
OF_RSA = {"RS256", "RS384", "RS512", "PS256", "PS384", "PS512"}


def key_set(publication: Publication) -> KeySet:
    return KeySet(ADDRESS, refresh_ms=REFRESH_MS, fetch=publication)


def jwk_of(algorithm: str, **members: object) -> dict[str, Any]:
    return signing_key("one", algorithm).jwk(**members)


def assert_left_out(jwk: Any, reason: str) -> None:
    """The next key counts all the same."""
    parsed = parse_keys(json.dumps({"keys": [jwk, jwk_of("ES384")]}).encode())
    assert [key.algorithms for key in parsed.keys] == [{"ES384"}]
    assert len(parsed.left_out) == 1
    assert "keys[0]" in parsed.left_out[0]
    assert reason in parsed.left_out[0]


class TestParsing:
    @pytest.mark.parametrize(
        ("algorithm", "bits", "fitting"),
        [
            ("RS256", 2048, OF_RSA),
            ("PS512", 2048, OF_RSA),
            ("ES256", 0, {"ES256"}),
            ("ES384", 0, {"ES384"}),
            ("ES512", 0, {"ES512"}),
            ("EdDSA", 255, {"EdDSA"}),
            ("EdDSA", 4096, {"EdDSA"}),
        ],
    )
    def test_a_key_fits_the_algorithms_of_its_type(
        self, algorithm: str, bits: int, fitting: set[str]
    ) -> None:
        key = signing_key("one", algorithm, bits)
        open_key, fixed_key = parse_keys(jwks(key.jwk(alg=None, use=None), key)).keys
        assert open_key.algorithms == fitting
        assert fixed_key.algorithms == {algorithm}
        assert (open_key.kid, open_key.key) == ("one", key.private.public_key())

    def test_no_algorithm_is_symmetric_or_none(self) -> None:
        assert {"ES256", "ES384", "ES512", "EdDSA"} | OF_RSA == ALGORITHMS

    @pytest.mark.parametrize(
        ("algorithm", "members", "reason"),
        [
            ("RS256", {"kty": "oct", "k": "c2VjcmV0"}, "type or curve"),
            ("RS256", {"kty": None}, "type or curve"),
            ("RS256", {"kty": ["RSA"]}, "type or curve"),
            ("ES256", {"crv": {"P": 256}}, "type or curve"),
            ("ES256", {"crv": "secp256k1"}, "type or curve"),
            ("RS256", {"use": "enc"}, "not for signatures"),
            ("RS256", {"key_ops": ["encrypt"]}, "not for signatures"),
            ("RS256", {"key_ops": "verify"}, "not for signatures"),
            ("RS256", {"alg": "RSA-OAEP"}, "algorithm"),
            ("RS256", {"alg": "HS256"}, "algorithm"),
            ("RS256", {"alg": "none"}, "algorithm"),
            ("RS256", {"alg": ["RS256"]}, "algorithm"),
            ("ES256", {"alg": "ES384"}, "algorithm"),
            ("RS256", {"d": "AQAB"}, "private"),
            ("RS256", {"kid": 1}, "kid"),
            ("RS256", {"n": 5}, "numbers"),
            ("RS256", {"n": None}, "numbers"),
            ("RS256", {"e": "AA"}, "numbers"),
            ("ES256", {"x": "A" * 43}, "numbers"),
            ("ES256", {"x": "AA"}, "numbers"),
            ("EdDSA", {"x": "AA"}, "numbers"),
        ],
    )
    def test_a_key_that_must_not_check_signatures_is_left_out(
        self, algorithm: str, members: dict[str, Any], reason: str
    ) -> None:
        assert_left_out(jwk_of(algorithm, **members), reason)

    def test_keys_that_are_secret_short_or_no_object_are_left_out(self) -> None:
        assert_left_out(HMACAlgorithm.to_jwk(b"s" * 64, as_dict=True), "type or curve")
        assert_left_out(signing_key("short", "RS256", 1024).jwk(), "1024 bits")
        assert_left_out("one", "type or curve")

    @pytest.mark.parametrize(
        "document",
        [
            b"",
            b"<html>",
            b"[]",
            b"{}",
            b'{"keys": {}}',
            b'{"keys": null}',
            b'{"keys": [',
            b"\xff\xfe{}",
            b'{"keys":' + b"[" * 100_000,
        ],
    )
    def test_what_is_no_key_set_is_refused_as_a_whole(self, document: bytes) -> None:
        with pytest.raises(ValueError, match=r"."):
            parse_keys(document)


class TestAddresses:
    @pytest.mark.parametrize(
        "address",
        [
            "https://issuer.example/jwks",
            "https://issuer.example:8443/a?b=c",
            "http://localhost/jwks",
            "http://127.0.0.1:8080/jwks",
            "http://127.9.9.9/jwks",
            "http://[::1]:8080/jwks",
            "file:///etc/offsetd/jwks.json",
        ],
    )
    def test_a_safe_address_is_accepted(self, address: str) -> None:
        check_address(address)
        assert KeySet(address, refresh_ms=REFRESH_MS).version == 0

    @pytest.mark.parametrize(
        "address",
        [
            "",
            "jwks.json",
            "http://issuer.example/jwks",
            "http://10.0.0.1/jwks",
            "http://127.0.0.1.issuer.example/jwks",
            "http://localhost@issuer.example/jwks",
            "http://localhost.issuer.example/jwks",
            "http:///jwks",
            "https:///jwks",
            "https://user:secret@issuer.example/jwks",
            "ftp://localhost/jwks",
            "data:application/json,{}",
            "file://server/share/jwks.json",
            "file:",
        ],
    )
    def test_any_other_address_is_refused_at_once(self, address: str) -> None:
        with pytest.raises(ValueError, match="address of the keys") as refusal:
            KeySet(address, refresh_ms=REFRESH_MS)
        assert "secret" not in str(refusal.value)


class TestFetching:
    def test_a_document_is_read_from_a_server_on_this_machine(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("http_proxy", "http://192.0.2.1:1")
        with served(b"{}") as server:
            assert fetch_document(server.address) == b"{}"

    def test_a_document_is_read_from_a_file(self, tmp_path: Path) -> None:
        file = tmp_path / "jw ks.json"
        file.write_bytes(b'{"keys": []}')
        assert fetch_document(file.as_uri()) == b'{"keys": []}'
        file.unlink()
        with pytest.raises(OSError, match="No such file"):
            fetch_document(file.as_uri())

    def test_over_tls_only_an_authority_of_the_system_is_trusted(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        authority, trusted = Authority("ca"), tmp_path / "trusted.pem"
        monkeypatch.setenv("SSL_CERT_FILE", str(trusted))
        with served(b"{}", issued=authority.issue("server", dns=())) as server:
            trusted.write_bytes(Authority("other").pem)
            with pytest.raises(OSError, match="CERTIFICATE_VERIFY_FAILED"):
                fetch_document(server.address)
            trusted.write_bytes(authority.pem)
            assert fetch_document(server.address) == b"{}"
            with pytest.raises(OSError, match="CERTIFICATE_VERIFY_FAILED"):
                fetch_document(server.address.replace("127.0.0.1", "localhost"))

    def test_a_document_has_at_most_a_mebibyte(self) -> None:
        with served(b"x" * DOCUMENT_BYTES_MAX) as server:
            assert len(fetch_document(server.address)) == DOCUMENT_BYTES_MAX
            server.response = Response(b"x" * (DOCUMENT_BYTES_MAX + 1))
            with pytest.raises(ValueError, match="more than 1048576 bytes"):
                fetch_document(server.address)

    @pytest.mark.parametrize("status", [404, 500, 503])
    def test_an_error_of_the_server_is_no_document(self, status: int) -> None:
        with served(b"") as server:
            server.response = Response(jwks(signing_key()), status)
            with pytest.raises(OSError, match=str(status)):
                fetch_document(server.address)

    def test_a_redirect_is_followed_on_the_same_scheme(self) -> None:
        with served(b"there") as target, served(b"") as server:
            server.response = Response(status=302, redirect=target.address)
            assert fetch_document(server.address) == b"there"

    @pytest.mark.parametrize(
        "target",
        [
            "file:///etc/passwd",
            "https://localhost/jwks",
            "ftp://localhost/jwks",
            "http://issuer.example/jwks",
            "http://user@localhost/jwks",
        ],
    )
    def test_a_redirect_to_another_scheme_or_a_worse_place_is_not_followed(
        self, target: str
    ) -> None:
        with served(b"") as server:
            server.response = Response(status=302, redirect=target)
            with pytest.raises((OSError, HTTPException, ValueError), match=r"(?i)redirect|address"):
                fetch_document(server.address)
            assert server.requests == 1

    def test_a_redirect_from_tls_to_plain_http_is_not_followed(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        authority, trusted = Authority("ca"), tmp_path / "trusted.pem"
        trusted.write_bytes(authority.pem)
        monkeypatch.setenv("SSL_CERT_FILE", str(trusted))
        issued = authority.issue("server")
        with served(b"plain") as plain, served(b"", issued=issued) as server:
            server.response = Response(status=302, redirect=plain.address)
            with pytest.raises(ValueError, match="another scheme"):
                fetch_document(server.address)
            assert plain.requests == 0


class TestKeySet:
    async def test_a_key_is_found_by_its_name_and_algorithm(self) -> None:
        one, two = signing_key("one"), signing_key("two", "ES256")
        publication = Publication(jwks(one, two))
        keys = key_set(publication)
        await keys.refresh(NOW_MS)
        found = await keys.find("two", "ES256", NOW_MS)
        assert found is not None
        assert found.key == two.private.public_key()
        # The name is known, so nothing is fetched.
        assert await keys.find("two", "RS256", NOW_MS + REFRESH_MS) is None
        assert publication.fetches == 1

    async def test_without_a_name_the_only_key_that_fits_is_found(self) -> None:
        one, two, three = signing_key("one"), signing_key("two", "ES256"), signing_key("three")
        publication = Publication(jwks(one, two))
        keys = key_set(publication)
        await keys.refresh(NOW_MS)
        found = await keys.find(None, "RS256", NOW_MS)
        assert found is not None
        assert found.kid == "one"
        publication.content = jwks(one, two, three)
        await keys.refresh(NOW_MS)
        assert await keys.find(None, "RS256", NOW_MS + REFRESH_MS) is None
        assert publication.fetches == 2

    async def test_two_keys_with_one_name_are_told_apart_by_the_algorithm(self) -> None:
        keys = key_set(Publication(jwks(signing_key("one"), signing_key("one", "ES256"))))
        found = await keys.find("one", "ES256", NOW_MS)
        assert found is not None
        assert found.algorithms == {"ES256"}
        same = key_set(Publication(jwks(signing_key("one"), signing_key("two").jwk(kid="one"))))
        assert await same.find("one", "RS256", NOW_MS) is None

    async def test_an_unknown_name_brings_one_fetch_in_ten_seconds(self) -> None:
        publication = Publication(jwks(signing_key("one")))
        keys = key_set(publication)
        await keys.refresh(NOW_MS)
        publication.content = jwks(signing_key("two"))
        for later_ms in (0, 1, ASK_AGAIN_MS - 1):
            assert await keys.find("two", "RS256", NOW_MS + later_ms) is None
        assert publication.fetches == 1
        assert await keys.find("two", "RS256", NOW_MS + ASK_AGAIN_MS) is not None
        assert publication.fetches == 2
        assert await keys.find("one", "RS256", NOW_MS + ASK_AGAIN_MS) is None
        assert publication.fetches == 2

    async def test_callers_at_the_same_time_share_a_fetch(self) -> None:
        with served(jwks(signing_key("one"))) as server:
            server.is_open.clear()
            keys = KeySet(server.address, refresh_ms=REFRESH_MS)
            finding = [
                asyncio.create_task(keys.find(f"unknown-{number}", "RS256", NOW_MS))
                for number in range(100)
            ]
            finding.append(asyncio.create_task(keys.find("one", "RS256", NOW_MS)))
            assert await asyncio.to_thread(server.was_asked.wait, PATIENCE_SECONDS)
            # One caller gives up; the others still get the keys.
            finding[0].cancel()
            server.is_open.set()
            found = await asyncio.gather(*finding, return_exceptions=True)
        assert isinstance(found[0], asyncio.CancelledError)
        assert found[1:-1] == [None] * 99
        assert not isinstance(found[-1], BaseException)
        assert found[-1] is not None
        assert server.requests == 1

    async def test_a_failed_fetch_keeps_the_keys_and_is_logged(self) -> None:
        publication = Publication(jwks(signing_key("one")))
        keys = key_set(publication)
        await keys.refresh(NOW_MS)
        version = keys.version
        for content in (None, b"<html>", b"{}"):
            publication.content = content
            with capture_logs() as events:
                await keys.refresh(NOW_MS)
            assert [event["log_level"] for event in events] == ["warning"]
            assert events[0]["keys_kept"] == 1
        assert await keys.find("one", "RS256", NOW_MS) is not None
        assert keys.version == version

    async def test_a_set_that_could_not_be_fetched_at_first_recovers_by_itself(self) -> None:
        publication = Publication(None)
        keys = key_set(publication)
        await keys.refresh(NOW_MS)
        assert await keys.find("one", "RS256", NOW_MS) is None
        assert await keys.find(None, "RS256", NOW_MS) is None
        publication.content = jwks(signing_key("one"))
        assert await keys.find(None, "RS256", NOW_MS + ASK_AGAIN_MS) is not None
        assert publication.fetches == 2

    async def test_keys_are_fetched_again_when_they_are_due(self) -> None:
        publication = Publication(jwks(signing_key("one")))
        keys = key_set(publication)
        for now_ms, fetches in (
            (NOW_MS, 1),
            (NOW_MS + REFRESH_MS - 1, 1),
            (NOW_MS + REFRESH_MS, 2),
            (NOW_MS + REFRESH_MS + 1, 2),
        ):
            await keys.refresh_if_due(now_ms)
            assert publication.fetches == fetches

    async def test_a_failed_fetch_is_tried_again_earlier(self) -> None:
        publication = Publication(None)
        keys = key_set(publication)
        await keys.refresh_if_due(NOW_MS)
        await keys.refresh_if_due(NOW_MS + ASK_AGAIN_MS - 1)
        assert publication.fetches == 1
        publication.content = jwks(signing_key("one"))
        await keys.refresh_if_due(NOW_MS + ASK_AGAIN_MS)
        await keys.refresh_if_due(NOW_MS + 2 * ASK_AGAIN_MS)
        assert publication.fetches == 2

    async def test_the_version_changes_with_the_keys_only(self) -> None:
        publication = Publication(jwks(signing_key("one")))
        keys = key_set(publication)
        versions = []
        for content in (
            jwks(signing_key("one")),
            jwks(signing_key("one")) + b"\n",
            jwks(signing_key("one"), signing_key("two")),
            jwks(signing_key("two")),
            jwks(signing_key("two").jwk(alg="RS512")),
            jwks(),
        ):
            publication.content = content
            await keys.refresh(NOW_MS)
            versions.append(keys.version)
        assert versions == [1, 1, 2, 3, 4, 5]

    async def test_a_document_without_keys_is_obeyed_and_warned_about(self) -> None:
        publication = Publication(jwks(signing_key("one")))
        keys = key_set(publication)
        await keys.refresh(NOW_MS)
        publication.content = jwks(signing_key("one").jwk(use="enc"))
        with capture_logs() as events:
            await keys.refresh(NOW_MS)
        assert await keys.find("one", "RS256", NOW_MS) is None
        assert [(event["log_level"], event["keys"]) for event in events] == [("warning", 0)]
        assert events[0]["left_out"] == ["keys[0]: it is not for signatures"]
