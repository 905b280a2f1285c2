"""Traces through clients and a real server, as a collector of OpenTelemetry receives them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import grpc
import pytest
from offsetd.v1 import group_service_pb2, offset_service_pb2
from offsetd_clients import AsyncOffsetClient, GroupNotFound, OffsetClient, TopicPartition
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from otlp_receiver import OtlpReceiver
from server_process import ServerProcess, Stubs, poll

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opentelemetry.sdk.trace import ReadableSpan

SECONDS_MAX = 60
GROUP = "messaging.consumer.group.name"
AT = TopicPartition("orders", 0)
TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture(scope="module")
def exporter() -> InMemorySpanExporter:
    """The application's spans. A process has one provider."""
    found = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(found))
    trace.set_tracer_provider(provider)
    return found


@pytest.fixture(scope="module")
def receiver() -> Iterator[OtlpReceiver]:
    with OtlpReceiver() as receiver:
        yield receiver


@pytest.fixture(scope="module")
def server(
    receiver: OtlpReceiver, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ServerProcess]:
    settings = {"tracing.enable": "true", "tracing.sample.ratio": 1}
    folder = tmp_path_factory.mktemp("traced")
    with ServerProcess(folder, settings=settings, environment=receiver.environment) as server:
        yield server.wait_until_serving()


def ids(span: ReadableSpan) -> tuple[str, str]:
    context = span.get_span_context()
    return trace.format_trace_id(context.trace_id), trace.format_span_id(context.span_id)


def only(exporter: InMemorySpanExporter, name: str) -> ReadableSpan:
    (span,) = (each for each in exporter.get_finished_spans() if each.name.endswith(f"/{name}"))
    return span


@pytest.mark.parametrize("stream_commits", [True, False], ids=["stream", "calls"])
def test_a_commit_is_one_trace_through_client_and_server(
    server: ServerProcess,
    receiver: OtlpReceiver,
    exporter: InMemorySpanExporter,
    stream_commits: bool,
) -> None:
    exporter.clear()
    group, name = f"g-{stream_commits}", "StreamCommits" if stream_commits else "CommitOffsets"
    with OffsetClient(server.address, tracing=True, stream_commits=stream_commits) as client:
        client.commit(group, {AT: 7})
    span = only(exporter, name)
    assert span.attributes is not None
    assert span.attributes[GROUP] == group
    poll(lambda: group in [each.attributes.get(GROUP) for each in receiver.of(name)], SECONDS_MAX)
    (servers,) = (each for each in receiver.of(name) if each.attributes.get(GROUP) == group)
    assert (servers.trace_id, servers.parent_id) == ids(span)
    assert servers.resource["service.name"] == "offsetd"


def test_a_commit_of_asyncio_and_one_that_nobody_waits_for_are_traced(
    server: ServerProcess, receiver: OtlpReceiver, exporter: InMemorySpanExporter
) -> None:
    exporter.clear()

    async def commit() -> None:
        async with AsyncOffsetClient(server.address, tracing=True) as client:
            await client.commit("awaited", {AT: 7})
            await (await client.commit_soon("soon", {AT: 7}))
            await client.fetch("awaited")

    asyncio.run(commit())
    for group in ("awaited", "soon"):
        (span,) = (
            each
            for each in exporter.get_finished_spans()
            if (each.attributes or {}).get(GROUP) == group and each.name.endswith("StreamCommits")
        )
        trace_id, span_id = ids(span)
        poll(
            lambda: any(
                (each.trace_id, each.parent_id) == (trace_id, span_id)  # noqa: B023
                for each in receiver.of("StreamCommits")
            ),
            SECONDS_MAX,
        )
    assert only(exporter, "FetchOffsets")


def test_a_refusal_is_the_outcome_on_both_sides(
    server: ServerProcess, receiver: OtlpReceiver, exporter: InMemorySpanExporter
) -> None:
    exporter.clear()
    with OffsetClient(server.address, tracing=True) as client, pytest.raises(GroupNotFound):
        client.get_group("nobody")
    span = only(exporter, "GetGroup")
    assert span.attributes is not None
    assert span.attributes["offsetd.outcome"] == "GROUP_ID_NOT_FOUND"
    trace_id, span_id = ids(span)
    poll(lambda: any(each.parent_id == span_id for each in receiver.spans), SECONDS_MAX)
    (servers,) = (each for each in receiver.spans if each.parent_id == span_id)
    assert servers.trace_id == trace_id
    assert servers.is_error
    assert servers.attributes["offsetd.outcome"] == "GROUP_ID_NOT_FOUND"
    assert servers.attributes["rpc.grpc.status_code"] == grpc.StatusCode.NOT_FOUND.value[0]
    assert servers.attributes[GROUP] == "nobody"


def test_a_caller_without_a_trace_begins_one_at_the_server(
    server: ServerProcess, receiver: OtlpReceiver
) -> None:
    with server.channel() as channel:
        Stubs(channel).groups.ListGroups(group_service_pb2.ListGroupsRequest())
    poll(lambda: receiver.of("ListGroups"), SECONDS_MAX)
    assert receiver.of("ListGroups")[0].parent_id == ""


def test_lines_of_the_log_have_the_ids_of_their_call(
    server: ServerProcess, receiver: OtlpReceiver
) -> None:
    with server.channel() as channel:
        request = group_service_pb2.AcquireGroupRequest(group_id="leased", holder="h")
        request.ttl.FromSeconds(60)
        Stubs(channel).groups.AcquireGroup(request, metadata=[("traceparent", TRACEPARENT)])
    line = server.wait_for_event("lease acquired")
    poll(lambda: receiver.of("AcquireGroup"), SECONDS_MAX)
    (span,) = receiver.of("AcquireGroup")
    assert line["trace_id"] == span.trace_id == TRACEPARENT.split("-")[1]
    assert line["span_id"] == span.span_id
    assert span.parent_id == TRACEPARENT.split("-")[2]


def test_a_malformed_traceparent_is_passed_over(
    server: ServerProcess, receiver: OtlpReceiver
) -> None:
    with server.channel() as channel:
        stubs = Stubs(channel)
        request = offset_service_pb2.CommitOffsetsRequest(group_id="malformed")
        request.offsets.add(topic="orders", partition=0, offset=7)
        for malformed in ("", "x", "00-" + "0" * 32 + "-b7ad6b7169203331-01", "ff-1-1-1" * 100):
            stubs.offsets.CommitOffsets(request, metadata=[("traceparent", malformed)])
        message = offset_service_pb2.StreamCommitsRequest(traceparent="not one")
        message.commits.add(sequence=1).commit.CopyFrom(request)
        (answer,) = stubs.offsets.StreamCommits(iter([message]))
        assert answer.results[0].HasField("committed")
    poll(
        lambda: (
            [each.parent_id for each in receiver.spans if each.attributes.get(GROUP) == "malformed"]
            == [""] * 5
        ),
        SECONDS_MAX,
    )


def test_an_unsampled_caller_has_no_spans(server: ServerProcess, receiver: OtlpReceiver) -> None:
    with server.channel() as channel:
        stubs = Stubs(channel)
        for end, group in (("00", "unsampled"), ("01", "sampled")):
            request = group_service_pb2.GetGroupRequest(group_id=group)
            with pytest.raises(grpc.RpcError):
                stubs.groups.GetGroup(request, metadata=[("traceparent", TRACEPARENT[:-2] + end)])
    found = [each.attributes.get(GROUP) for each in receiver.spans]
    poll(
        lambda: "sampled" in [each.attributes.get(GROUP) for each in receiver.spans],
        SECONDS_MAX,
        found,
    )
    assert "unsampled" not in [each.attributes.get(GROUP) for each in receiver.spans]
