package example;

import com.google.rpc.ErrorInfo;
import io.grpc.ManagedChannel;
import io.grpc.ManagedChannelBuilder;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import io.grpc.protobuf.StatusProto;
import io.grpc.stub.StreamObserver;
import java.util.Iterator;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import offsetd.v1.History.WatchOffsetsRequest;
import offsetd.v1.History.WatchOffsetsResponse;
import offsetd.v1.OffsetServiceGrpc.OffsetServiceBlockingStub;
import offsetd.v1.OffsetServiceGrpc;
import offsetd.v1.OffsetServiceOuterClass.CommitOffsetsRequest;
import offsetd.v1.OffsetServiceOuterClass.FetchOffsetsRequest;
import offsetd.v1.OffsetServiceOuterClass.GroupSelection;
import offsetd.v1.OffsetServiceOuterClass.OffsetCommit;
import offsetd.v1.OffsetServiceOuterClass.SequencedCommit;
import offsetd.v1.OffsetServiceOuterClass.StreamCommitsRequest;
import offsetd.v1.OffsetServiceOuterClass.StreamCommitsResponse;

/** Commits offsets, fetches them, and watches them, with nothing of offsetd but its .proto files. */
public final class Main {
  private static final int STREAMED = 3;

  private final OffsetServiceGrpc.OffsetServiceStub calls;
  private final OffsetServiceBlockingStub waiting;
  private final String group;

  private Main(ManagedChannel channel, String group) {
    this.calls = OffsetServiceGrpc.newStub(channel);
    // A deadline counts from the moment at which it is set, so each call gets its own.
    this.waiting = OffsetServiceGrpc.newBlockingStub(channel);
    this.group = group;
  }

  public static void main(String[] arguments) throws Exception {
    ManagedChannel channel = ManagedChannelBuilder.forTarget(arguments[0]).usePlaintext().build();
    try {
      new Main(channel, arguments[1]).run();
    } finally {
      channel.shutdownNow();
    }
  }

  private void run() throws Exception {
    // A watch begins where its first answer says: that is awaited before anything is committed.
    WatchOffsetsRequest watched = WatchOffsetsRequest.newBuilder().addGroupIds(group).build();
    Iterator<WatchOffsetsResponse> watch = within(30_000).watchOffsets(watched);
    watch.next();
    commit(commitOf(0, 42));
    try {
      // Compare-and-set: only if 41 is stored, which it is not.
      commit(commitOf(0, 43).setExpectedOffset(41));
      throw new IllegalStateException("a lost race was answered OK");
    } catch (StatusRuntimeException refused) {
      System.out.println("43 refused: " + reason(refused));
    }
    stream();
    fetch();
    while (true) {
      WatchOffsetsResponse answer = watch.next();
      if (answer.getEventsCount() > 0) {
        var event = answer.getEvents(0);
        System.out.printf(
            "watched %s:%d = %d%n",
            event.getTopic(), event.getPartition(), event.getCommitted().getOffset());
        break;
      }
    }
    try {
      within(300).watchOffsets(watched).forEachRemaining(answer -> {});
    } catch (StatusRuntimeException ended) {
      System.out.println("a watch of 0.3 s ended: " + ended.getStatus().getCode());
    }
  }

  private OffsetServiceBlockingStub within(long milliseconds) {
    return waiting.withDeadlineAfter(milliseconds, TimeUnit.MILLISECONDS);
  }

  private static OffsetCommit.Builder commitOf(int partition, long offset) {
    return OffsetCommit.newBuilder().setTopic("orders").setPartition(partition).setOffset(offset);
  }

  private void commit(OffsetCommit.Builder offset) {
    var answer =
        within(30_000)
            .withCompression("gzip")
            .commitOffsets(
                CommitOffsetsRequest.newBuilder()
                    .setGroupId(group)
                    .addOffsets(offset)
                    // The same id again is answered, not applied again.
                    .setRequestId(UUID.randomUUID().toString())
                    .build());
    System.out.printf(
        "committed orders:%d = %d, on disk at revision %d%n",
        offset.getPartition(), offset.getOffset(), answer.getRevision().getLogOffset());
  }

  /** Several commits over one stream: the fastest way. Results come in any order. */
  private void stream() throws Exception {
    var done = new CompletableFuture<Integer>();
    StreamObserver<StreamCommitsRequest> commits =
        calls.withDeadlineAfter(30, TimeUnit.SECONDS).streamCommits(
            new StreamObserver<StreamCommitsResponse>() {
              private int committed;

              @Override
              public void onNext(StreamCommitsResponse response) {
                committed +=
                    response.getResultsList().stream().mapToInt(r -> r.hasCommitted() ? 1 : 0).sum();
              }

              @Override
              public void onError(Throwable error) {
                done.completeExceptionally(error);
              }

              @Override
              public void onCompleted() {
                done.complete(committed);
              }
            });
    for (int number = 1; number <= STREAMED; number++) {
      var commit =
          CommitOffsetsRequest.newBuilder().setGroupId(group).addOffsets(commitOf(number, number));
      var sequenced = SequencedCommit.newBuilder().setSequence(number).setCommit(commit);
      commits.onNext(StreamCommitsRequest.newBuilder().addCommits(sequenced).build());
    }
    commits.onCompleted(); // The server answers what it has, and ends the stream.
    System.out.println("streamed " + done.get() + " commits");
  }

  private void fetch() {
    var selection = GroupSelection.newBuilder().setGroupId(group);
    var request = FetchOffsetsRequest.newBuilder().addGroups(selection).build();
    for (var stored : within(30_000).fetchOffsets(request).getGroups(0).getOffsetsList()) {
      System.out.printf(
          "fetched %s:%d = %d%n", stored.getTopic(), stored.getPartition(), stored.getOffset());
    }
  }

  /** Which of the contract's reasons an error has: they are stable, its text is not. */
  private static String reason(StatusRuntimeException error) throws Exception {
    for (var detail : StatusProto.fromThrowable(error).getDetailsList()) {
      if (detail.is(ErrorInfo.class)) {
        return detail.unpack(ErrorInfo.class).getReason();
      }
    }
    return Status.Code.UNKNOWN.name();
  }
}
