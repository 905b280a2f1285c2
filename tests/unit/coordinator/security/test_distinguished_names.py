"""Names in certificates, in the form that Java and so Kafka give them."""

from __future__ import annotations

import ssl
from typing import Final

import pytest
from certificates import Authority
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import given
from hypothesis import strategies as st
from offsetd_coordinator.security.certificates import distinguished_name

AUTHORITY: Final = Authority("test authority")
CN: Final = "2.5.4.3"
EMAIL: Final = "1.2.840.113549.1.9.1"
UTF8, PRINTABLE, T61, IA5, VISIBLE, GENERAL, BMP = 0x0C, 0x13, 0x14, 0x16, 0x1A, 0x1B, 0x1E

Attribute = tuple[str, int, bytes]


def der(tag: int, *contents: bytes) -> bytes:
    content = b"".join(contents)
    size = len(content)
    if size < 128:
        return bytes((tag, size)) + content
    length = size.to_bytes((size.bit_length() + 7) // 8)
    return bytes((tag, 0x80 | len(length))) + length + content


def der_oid(dotted: str) -> bytes:
    first, second, *others = map(int, dotted.split("."))
    content = b""
    for number in (first * 40 + second, *others):
        digits = [number & 0x7F]
        while number := number >> 7:
            digits.insert(0, number & 0x7F | 0x80)
        content += bytes(digits)
    return der(0x06, content)


def certificate_of(*parts: tuple[Attribute, ...]) -> bytes:
    """A certificate whose subject has any bytes; its signature is of another one."""
    model = x509.load_pem_x509_certificate(AUTHORITY.pem)
    subject = der(
        0x30,
        *(
            der(0x31, *(der(0x30, der_oid(oid), der(tag, value)) for oid, tag, value in part))
            for part in parts
        ),
    )
    algorithm = der(0x30, der_oid("1.2.840.10045.4.3.2"))
    fields = der(
        0x30,
        der(0xA0, der(0x02, b"\2")),
        der(0x02, b"\1"),
        algorithm,
        model.issuer.public_bytes(),
        der(0x30, der(0x17, b"260101000000Z"), der(0x17, b"360101000000Z")),
        subject,
        model.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo),
    )
    whole = der(0x30, fields, algorithm, der(0x03, b"\0", model.signature))
    return ssl.DER_cert_to_PEM_cert(whole).encode()


# What `new X500Principal(der).getName()` of Java 17.0.15 answered.
JAVA_VALUES: Final = (
    ('a,b+c"d\\e<f>g;h=i#j/k', r"a\,b\+c\"d\\e\<f\>g\;h\=i\#j/k"),
    ("  a b  ", r"\ \ a b\ \ "),
    ("   ", r"\ \ \ "),
    (" ", r"\ "),
    ("#a#", r"\#a\#"),
    (" #a", r"\ \#a"),
    ("", ""),
    ("a,", r"a\,"),
    ("\\ ", r"\\\ "),
    ('"a"', r"\"a\""),
    ("=a", r"\=a"),
    ("a     b", "a     b"),
    ("a\nb\r\tc", "a\nb\r\tc"),
    ("\na\n", "\na\n"),
    ("\ra\r", "\\\ra\\\r"),
    ("\ta\t", "\ta\t"),
    ("a\0b", r"a\00b"),
    ("\0", r"\00"),
    ("\x01\x7f\x1b", "\x01\x7f\x1b"),
    ("Ölж本\U0001f600", "Ölж本\U0001f600"),
    ("\u00a0a\u2028", "\u00a0a\u2028"),
    ("AlIcE", "AlIcE"),
    ("n" * 200, "n" * 200),
)
JAVA_TAGS: Final = (
    (IA5, b"i", "i"),
    (GENERAL, b"gen", "gen"),
    (UTF8, b"\xff\xc3", "\ufffd\ufffd"),
    (T61, "Ä".encode("latin-1"), "\ufffd"),
    (T61, "Ä".encode(), "Ä"),
    (BMP, "Äb".encode("utf-16-be"), "\\00\ufffd\\00b"),
    (VISIBLE, b"vis", "#1a03766973"),
    (0x12, b"12", "#12023132"),
    (0x1C, "u".encode("utf-32-be"), "#1c0400000075"),
    (0x04, b"\1\2", "#04020102"),
    (0x02, b"\5", "#020105"),
    (0x03, b"\0\xff", "#030200ff"),
    (0x30, b"\x0c\x01a", "#30030c0161"),
)
JAVA_TYPES: Final = (
    ((EMAIL, IA5, b"alice@example.org"), f"{EMAIL}=#1611616c696365406578616d706c652e6f7267"),
    ((EMAIL, IA5, b""), f"{EMAIL}=#1600"),
    ((EMAIL, IA5, b"e" * 200), f"{EMAIL}=#1681c8{'65' * 200}"),
    (("2.5.4.5", PRINTABLE, b"42"), "2.5.4.5=#13023432"),
    (("2.5.4.12", UTF8, b"Dr"), "2.5.4.12=#0c024472"),
    (("2.5.4.42", UTF8, b"A"), "2.5.4.42=#0c0141"),
    (("2.5.4.45", 0x03, b"\0\1"), "2.5.4.45=#03020001"),
    (("1.3.6.1.4.1.99999.1", UTF8, "ü".encode()), "1.3.6.1.4.1.99999.1=#0c02c3bc"),
    (("2.999.1234567890123456789", UTF8, b"x"), "2.999.1234567890123456789=#0c0178"),
    (("1.2.3.4", 0x01, b"\xff"), "1.2.3.4=#0101ff"),
    (("2.5.4.6", UTF8, b"Germany"), "C=Germany"),
    (("2.5.4.7", UTF8, "München".encode()), "L=München"),
    (("2.5.4.8", PRINTABLE, b"Bavaria"), "ST=Bavaria"),
    (("2.5.4.9", UTF8, b"Road 1"), "STREET=Road 1"),
    (("0.9.2342.19200300.100.1.25", IA5, b"org"), "DC=org"),
    (("0.9.2342.19200300.100.1.1", UTF8, b"u17"), "UID=u17"),
)


class TestNames:
    @pytest.mark.parametrize(("value", "written"), JAVA_VALUES)
    def test_values_are_escaped_as_in_java(self, value: str, written: str) -> None:
        assert distinguished_name(certificate_of(((CN, UTF8, value.encode()),))) == f"CN={written}"

    @pytest.mark.parametrize(("tag", "value", "written"), JAVA_TAGS)
    def test_kinds_of_text_are_read_as_in_java(self, tag: int, value: bytes, written: str) -> None:
        assert distinguished_name(certificate_of(((CN, tag, value),))) == f"CN={written}"

    @pytest.mark.parametrize(("attribute", "written"), JAVA_TYPES)
    def test_types_are_named_as_in_java(self, attribute: Attribute, written: str) -> None:
        assert distinguished_name(certificate_of((attribute,))) == written

    def test_the_last_part_comes_first(self) -> None:
        issued = AUTHORITY.issue("CN=alice,OU=apps,O=Example,C=DE")
        assert distinguished_name(issued.certificate_pem) == "CN=alice,OU=apps,O=Example,C=DE"

    def test_values_of_one_part_keep_their_order(self) -> None:
        unit, name = ("2.5.4.11", UTF8, b"b"), (CN, UTF8, b"a")
        last = (("2.5.4.10", UTF8, b"o"),)
        assert distinguished_name(certificate_of(last, (name, unit))) == "CN=a+OU=b,O=o"

    def test_a_certificate_may_have_no_name(self) -> None:
        assert distinguished_name(certificate_of()) == ""

    @pytest.mark.parametrize(
        "pem", [b"", b"x", AUTHORITY.pem[:100]], ids=["empty", "a letter", "the first half"]
    )
    def test_what_is_no_certificate_is_refused(self, pem: bytes) -> None:
        with pytest.raises(ValueError, match=r"PEM|asn1"):
            distinguished_name(pem)

    @given(
        st.sampled_from([CN, EMAIL, "2.5.4.10"]), st.sampled_from([UTF8, T61, 0x04]), st.binary()
    )
    def test_any_value_gives_a_name(self, oid: str, tag: int, value: bytes) -> None:
        assert distinguished_name(certificate_of(((oid, tag, value),))).startswith(
            {CN: "CN=", EMAIL: f"{EMAIL}=#", "2.5.4.10": "O="}[oid]
        )

    @given(st.text(), st.text())
    def test_two_values_have_two_names(self, one: str, other: str) -> None:
        names = {
            distinguished_name(certificate_of(((CN, UTF8, each.encode()),)))
            for each in (one, other)
        }
        assert len(names) == len({one, other})
