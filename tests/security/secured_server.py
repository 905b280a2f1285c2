"""What a secured server and its callers need: certificates, tokens, rules; and each method."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

import grpc
from google.protobuf.message_factory import GetMessageClass
from offsetd.v1 import (
    acl_service_pb2,
    admin_service_pb2,
    backup_service_pb2,
    group_service_pb2,
    offset_service_pb2,
)
from oidc_issuer import AUDIENCE, ISSUER, claims, jwks, signing_key

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from certificates import Authority, Issued
    from google.protobuf.descriptor import MethodDescriptor

CALL_SECONDS: Final = 20
SUPER_USER: Final = "User:root"
GROUP: Final = "billing"
TOPIC: Final = "orders"
ACLS: Final = """
[[acl]]
principal = "User:other-prefix"
allow = ["All"]
group_prefix = "other-"
[[acl]]
principal = "User:other-prefix"
allow = ["All"]
topic = "*"
[[acl]]
principals = ["User:reader"]
allow = ["Describe"]
group_prefix = "bill"
[[acl]]
principals = ["User:reader"]
allow = ["Describe"]
topic = "orders"
[[acl]]
principal = "User:denied"
allow = ["All"]
group = "*"
[[acl]]
principal = "User:denied"
allow = ["All"]
topic = "*"
[[acl]]
principal = "User:denied"
allow = ["All"]
cluster = true
[[acl]]
principal = "*"
deny = ["All"]
group = "nothing-of-this-name"
[[acl]]
principal = "User:denied"
deny = ["All"]
group = "billing"
[[acl]]
principal = "User:no-topic"
allow = ["All"]
group_prefix = "billing"
[[acl]]
principal = "User:owner"
allow = ["All"]
group_prefix = "billing"
[[acl]]
principal = "User:owner"
allow = ["All"]
topic = "*"
[[acl]]
principal = "User:of-one-topic"
allow = ["All"]
group_prefix = "billing"
[[acl]]
principal = "User:of-one-topic"
allow = ["All"]
topic = "orders"
[[acl]]
principal = "User:owner"
allow = ["All"]
cluster = true
""".replace('principal = "*"', 'principal = "User:*"')
ALL: Final = "All"
MAY: Final[dict[str, dict[str, frozenset[str]]]] = {
    "nobody": {},
    "other-prefix": {"Topic": frozenset({ALL})},
    "reader": {"Group": frozenset({"Describe"}), "Topic": frozenset({"Describe"})},
    "denied": {"Topic": frozenset({ALL}), "Cluster": frozenset({ALL})},
    "no-topic": {"Group": frozenset({ALL})},
    "owner": {"Group": frozenset({ALL}), "Topic": frozenset({ALL}), "Cluster": frozenset({ALL})},
    "root": {"Group": frozenset({ALL}), "Topic": frozenset({ALL}), "Cluster": frozenset({ALL})},
}


METHODS: Final[dict[str, MethodDescriptor]] = {
    method.name: method
    for file in (
        acl_service_pb2,
        admin_service_pb2,
        backup_service_pb2,
        group_service_pb2,
        offset_service_pb2,
    )
    for service in file.DESCRIPTOR.services_by_name.values()
    for method in service.methods
}
"""Every method of the contract, taken from the descriptors."""


class SecuredFiles:
    """The files of a server with TLS, and of its callers."""

    def __init__(self, folder: Path, authority: Authority) -> None:
        self.authority = authority
        self.folder = folder
        server = authority.issue("server")
        for name, content in (
            ("server.pem", server.certificate_pem),
            ("server.key", server.key_pem),
            ("ca.pem", authority.pem),
            ("jwks.json", jwks(signing_key("one", "ES256"))),
        ):
            (folder / name).write_bytes(content)
        self.truststore = folder / "ca.pem"
        self.tls_settings = {
            "ssl.certificate.file": folder / "server.pem",
            "ssl.key.file": folder / "server.key",
        }
        self.token_settings = {
            "sasl.oauthbearer.jwks.endpoint.url": (folder / "jwks.json").as_uri(),
            "sasl.oauthbearer.expected.issuer": ISSUER,
            "sasl.oauthbearer.expected.audience": AUDIENCE,
        }
        self._issued: dict[str, Issued] = {}

    def channel(self, address: str, name: str | None = None, issued: Any = None) -> grpc.Channel:
        """A channel that trusts the server, with the certificate of this name, or that one."""
        if issued is None and name is not None:
            issued = self._issued.setdefault(name, self.authority.issue(name))
        key, chain = (None, None) if issued is None else (issued.key_pem, issued.certificate_pem)
        credentials = grpc.ssl_channel_credentials(self.authority.pem, key, chain)
        return grpc.secure_channel(address, credentials)


def good_claims(**others: object) -> dict[str, Any]:
    """Claims that hold now, by the clock of this machine."""
    now = int(time.time())
    return claims(**({"iat": now - 5, "exp": now + 3600} | others))


def request_of(method: str, group: str = GROUP, topic: str = TOPIC) -> Any:
    """A request that names the group and the topic wherever it can, and changes little."""
    request = GetMessageClass(METHODS[method].input_type)()
    fields = request.DESCRIPTOR.fields_by_name
    for name in ("group_id", "target_group_id", "source_group_id"):
        if name in fields:
            setattr(request, name, group)
    fill = _FILLED.get(method)
    if fill is not None:
        fill(request, group, topic)
    if "validate_only" in fields:
        request.validate_only = True
    return request


def _commit(request: Any, group: str, topic: str) -> None:
    request.group_id = group
    request.offsets.add(topic=topic, partition=0, offset=7)


def _stream(request: Any, group: str, topic: str) -> None:
    _commit(request.commits.add(sequence=1).commit, group, topic)


def _import(request: Any, group: str, topic: str) -> None:
    request.options.format = admin_service_pb2.OFFSET_FORMAT_KAFKA_CSV
    request.options.group_id = group
    request.options.validate_only = True
    request.content = f"{topic},0,7\n".encode()


def _export(request: Any, group: str, topic: str) -> None:
    request.format = admin_service_pb2.OFFSET_FORMAT_JSONL
    request.group_ids.append(group)
    request.topics.append(topic)


def _clone(request: Any, group: str, _: str) -> None:
    request.source_group_id, request.target_group_id = group, f"{group}-copy"


def _watch(request: Any, group: str, topic: str) -> None:
    request.group_ids.append(group)
    request.topics.append(topic)


_FILLED: Final = {
    "CommitOffsets": _commit,
    "StreamCommits": _stream,
    "FetchOffsets": lambda request, group, _: request.groups.add(group_id=group),
    "DeleteOffsets": lambda request, _, topic: request.topics.append(topic),
    "FetchBounds": lambda request, _, topic: request.topics.append(topic),
    "WatchOffsets": _watch,
    "ExportOffsets": _export,
    "ImportOffsets": _import,
    "CloneGroup": _clone,
}


class Outcome:
    """How a call ended: the code, the reason's text, and the messages of the answer."""

    def __init__(
        self,
        code: grpc.StatusCode,
        details: str,
        answers: list[Any],
        error: grpc.RpcError | None = None,
    ) -> None:
        self.error = error
        self.code = code
        self.details = details
        self.answers = answers


def called(
    channel: grpc.Channel, method: str, request: Any, metadata: Any = None, answers_max: int = 1
) -> Outcome:
    """Makes one call of any kind, and reads at most so many answers of a stream."""
    descriptor = METHODS[method]
    path = f"/{descriptor.containing_service.full_name}/{method}"
    response_class = GetMessageClass(descriptor.output_type)
    kind = (
        f"{'stream' if descriptor.client_streaming else 'unary'}_"
        f"{'stream' if descriptor.server_streaming else 'unary'}"
    )
    call = getattr(channel, kind)(
        path,
        request_serializer=lambda message: message.SerializeToString(),
        response_deserializer=response_class.FromString,
    )
    sent: Any = iter([request]) if descriptor.client_streaming else request
    answers: list[Any] = []
    try:
        answer = call(sent, timeout=CALL_SECONDS, metadata=metadata)
        if descriptor.server_streaming:
            answers.extend(_first(answer, answers_max))
        else:
            answers.append(answer)
    except grpc.RpcError as error:
        status: Any = error
        return Outcome(status.code(), status.details() or "", answers, error)
    return Outcome(grpc.StatusCode.OK, "", answers)


def _first(stream: Any, answers_max: int) -> Iterator[Any]:
    for number, answer in enumerate(stream, 1):
        yield answer
        if number >= answers_max:
            stream.cancel()
            return


def refusals_in(outcome: Outcome) -> list[int]:
    """The codes of the refusals inside of answers: those of single commits, or of groups."""
    return [
        item.error.code
        for answer in outcome.answers
        for items in ("results", "groups")
        if items in answer.DESCRIPTOR.fields_by_name
        for item in getattr(answer, items)
        if "error" in item.DESCRIPTOR.fields_by_name and item.HasField("error")
    ]
