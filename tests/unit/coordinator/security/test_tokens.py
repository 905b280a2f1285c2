"""Static tokens: which are an identity, until when, and that nothing tells what was guessed."""

from __future__ import annotations

import hmac

import pytest
from offsetd_coordinator.security import tokens
from offsetd_coordinator.security.identity import Identity
from offsetd_coordinator.security.tokens import (
    StoredToken,
    TokenTable,
    new_token,
    salted_hash,
)

NOW_MS = 1_795_208_775_341
ALICE, ALICES = new_token("User:alice", now_ms=NOW_MS, expires_ms=NOW_MS + 1000)
BOB, BOBS = new_token("User:bob", now_ms=NOW_MS, note="the billing job")
MALLORY, MALLORYS = new_token("User:mallory", now_ms=NOW_MS)
TABLE = TokenTable([ALICES, BOBS])


def parts_of(token: str) -> tuple[str, str]:
    """The id and the secret."""
    _, token_id, secret = token.split("_", 2)
    return token_id, secret


def test_a_token_is_its_principals() -> None:
    assert TABLE.identify(BOB, NOW_MS) == Identity("User:bob", BOBS.token_id, None)
    alice = Identity("User:alice", ALICES.token_id, NOW_MS + 1000)
    assert TABLE.identify(ALICE, NOW_MS) == alice


@pytest.mark.parametrize(("since_ms", "is_valid"), [(-1, True), (0, False), (1, False)])
def test_a_token_is_not_valid_from_the_moment_of_its_expiry(since_ms: int, is_valid: bool) -> None:
    assert ALICES.expires_ms is not None
    now_ms = ALICES.expires_ms + since_ms
    assert (TABLE.identify(ALICE, now_ms) is not None) == is_valid
    assert ALICES.is_expired(now_ms) != is_valid
    assert TABLE.identify(BOB, now_ms) is not None
    # A revoked token and an expired one are different things.
    assert TABLE.holds(ALICES.token_id)


def test_a_revoked_token_is_not_valid() -> None:
    left = TokenTable([ALICES])
    assert left.identify(BOB, NOW_MS) is None
    assert (left.holds(BOBS.token_id), left.holds(ALICES.token_id)) == (False, True)


# By name: the tokens are drawn anew in each process.
WRONG = {
    "another table's": MALLORY,
    "another token's secret": f"offsetd_{BOBS.token_id}_{parts_of(ALICE)[1]}",
    "an unknown id": f"offsetd_{MALLORYS.token_id}_{parts_of(BOB)[1]}",
    "a wrong secret": f"offsetd_{BOBS.token_id}_{parts_of(MALLORY)[1]}",
    "the hash": f"offsetd_{BOBS.token_id}_{BOBS.secret_hash.hex()}",
    "the salt": f"offsetd_{BOBS.token_id}_{BOBS.salt.hex() * 2}",
    "no id": f"offsetd__{parts_of(BOB)[1]}",
    "no secret": f"offsetd_{BOBS.token_id}_",
    "a new line": f"{BOB}\n",
    "a space": f" {BOB}",
    "padding": f"{BOB}=",
    "one character less": BOB[:-1],
    "one character more": f"{BOB}a",
    "capitals": BOB.upper(),
    "no prefix": BOB.removeprefix("offsetd_"),
    "the scheme": f"Bearer {BOB}",
    "the prefix": "offsetd_",
    "nothing": "",
    "a surrogate": f"{BOB}\ud800",
    "wide letters": BOB.replace("_", "\uff3f"),
    "very long": BOB * 1000,
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_no_token_of_the_table_is_nobodys(name: str) -> None:
    assert TABLE.identify(WRONG[name], NOW_MS) is None
    assert TokenTable().identify(WRONG[name], NOW_MS) is None


@pytest.mark.parametrize(
    ("token", "now_ms", "is_right"),
    [
        (BOB, NOW_MS, True),
        (f"offsetd_{BOBS.token_id}_{parts_of(ALICE)[1]}", NOW_MS, False),
        (MALLORY, NOW_MS, False),
        (ALICE, NOW_MS + 2000, True),
    ],
    ids=["right", "wrong secret", "unknown id", "expired"],
)
def test_each_guess_costs_one_comparison_of_hashes_that_takes_the_same_time(
    monkeypatch: pytest.MonkeyPatch, token: str, now_ms: int, is_right: bool
) -> None:
    compared: list[tuple[bytes, bytes]] = []

    def compare(one: bytes, other: bytes) -> bool:
        compared.append((one, other))
        return hmac.compare_digest(one, other)

    class Hmac:
        compare_digest = staticmethod(compare)
        digest = staticmethod(hmac.digest)

    monkeypatch.setattr(tokens, "hmac", Hmac)
    TABLE.identify(token, now_ms)
    [(given, stored)] = compared
    assert (len(given), len(stored)) == (32, 32)
    assert parts_of(token)[1].encode() not in (given, stored)
    assert (given == stored) == is_right


def test_an_id_in_capitals_is_another_one() -> None:
    secret, salt = "a" * 43, bytes(16)
    stored = StoredToken(
        token_id="8a52d13c5ee80f17",
        principal="User:alice",
        salt=salt,
        secret_hash=salted_hash(salt, secret),
        created_ms=0,
    )
    table = TokenTable([stored])
    assert table.identify(f"offsetd_8a52d13c5ee80f17_{secret}", NOW_MS) is not None
    assert table.identify(f"offsetd_8A52D13C5EE80F17_{secret}", NOW_MS) is None
    assert table.identify(f"offsetd_8a52d13c5ee80f17_{secret[:-1]}A", NOW_MS) is None


def test_the_secret_is_nowhere_in_what_is_kept() -> None:
    _, secret = parts_of(BOB)
    assert len(secret) >= 43  # 256 bits, 6 in a character.
    for text in (repr(BOBS), repr(TABLE.tokens), str(TABLE.identify(BOB, NOW_MS))):
        assert secret not in text
        assert BOBS.secret_hash.hex() not in text
        assert repr(BOBS.secret_hash) not in text
    assert BOBS.secret_hash == hmac.new(BOBS.salt, secret.encode(), "sha256").digest()


def test_no_two_tokens_have_anything_in_common() -> None:
    made = [new_token("User:bob", now_ms=NOW_MS) for _ in range(50)]
    for values in (
        {token for token, _ in made},
        {parts_of(token)[1] for token, _ in made},
        {stored.token_id for _, stored in made},
        {stored.salt for _, stored in made},
        {stored.secret_hash for _, stored in made},
    ):
        assert len(values) == len(made)


def test_an_id_belongs_to_one_token() -> None:
    with pytest.raises(ValueError, match="same id"):
        TokenTable([BOBS, ALICES, BOBS])


@pytest.mark.parametrize("wrong", ["", "alice", "User:", "user:alice", "Group:g", "User:*"])
def test_a_token_needs_a_principal_who_is_one_caller(wrong: str) -> None:
    with pytest.raises(ValueError, match=r"principal|not one caller"):
        new_token(wrong, now_ms=NOW_MS)


@pytest.mark.parametrize("wrong", ["User:" + "x" * 1020, "User:a\nb", "User:\x1b[2J"])
def test_a_new_token_needs_a_principal_that_rules_can_name(wrong: str) -> None:
    with pytest.raises(ValueError, match="at most 1024 bytes, and no line breaks"):
        new_token(wrong, now_ms=NOW_MS)
    assert new_token("User:" + "x" * 1019, now_ms=NOW_MS)


def test_nobody_has_a_token_as_the_anonymous_caller() -> None:
    with pytest.raises(ValueError, match="not one caller"):
        new_token("User:ANONYMOUS", now_ms=NOW_MS)
