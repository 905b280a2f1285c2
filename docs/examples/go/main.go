// Commits offsets, fetches them, and watches what happens to them, with nothing of offsetd but its
// .proto files. ./generate has made the package offsetdv1 of them.
//
//	go run . -address 127.0.0.1:7171 -group billing
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	offsetdv1 "offsetd-example/offsetdv1"
)

var (
	address = flag.String("address", "127.0.0.1:7171", "the server")
	group   = flag.String("group", "go-example", "the consumer group")
)

func main() {
	flag.Parse()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := run(ctx); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	connection, err := grpc.NewClient(*address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer connection.Close()
	offsets := offsetdv1.NewOffsetServiceClient(connection)

	// A watch begins where its first answer says: that is awaited before anything is committed.
	watch, err := offsets.WatchOffsets(ctx, &offsetdv1.WatchOffsetsRequest{GroupIds: []string{*group}})
	if err != nil {
		return err
	}
	if _, err := watch.Recv(); err != nil {
		return err
	}
	if err := commit(ctx, offsets, 0, 42, nil); err != nil {
		return err
	}
	// Compare-and-set: only if 41 is stored, which it is not.
	expected := &offsetdv1.OffsetCommit_ExpectedOffset{ExpectedOffset: 41}
	if err := commit(ctx, offsets, 0, 43, expected); reason(err) != "OFFSET_CONFLICT" {
		return fmt.Errorf("a lost race was answered %v", err)
	}
	fmt.Println("43 refused: OFFSET_CONFLICT")
	if err := fetch(ctx, offsets); err != nil {
		return err
	}
	return printFirstEvent(watch)
}

func commit(ctx context.Context, offsets offsetdv1.OffsetServiceClient, partition int32, offset int64,
	expected *offsetdv1.OffsetCommit_ExpectedOffset) error {
	position := &offsetdv1.OffsetCommit{Topic: "orders", Partition: partition, Offset: offset}
	if expected != nil {
		position.Precondition = expected
	}
	answer, err := offsets.CommitOffsets(ctx, &offsetdv1.CommitOffsetsRequest{
		GroupId: *group,
		Offsets: []*offsetdv1.OffsetCommit{position},
		// The same id again is answered, not applied again: so a lost answer can be asked for.
		RequestId: fmt.Sprintf("%d-%d-%d", partition, offset, time.Now().UnixNano()),
	})
	if err == nil {
		fmt.Printf("committed orders:%d = %d, on disk at revision %d\n",
			partition, offset, answer.GetRevision().GetLogOffset())
	}
	return err
}

func fetch(ctx context.Context, offsets offsetdv1.OffsetServiceClient) error {
	answer, err := offsets.FetchOffsets(ctx, &offsetdv1.FetchOffsetsRequest{
		Groups: []*offsetdv1.GroupSelection{{GroupId: *group}},
	})
	if err != nil {
		return err
	}
	for _, stored := range answer.GetGroups()[0].GetOffsets() {
		fmt.Printf("fetched %s:%d = %d\n", stored.GetTopic(), stored.GetPartition(), stored.GetOffset())
	}
	return nil
}

func printFirstEvent(watch grpc.ServerStreamingClient[offsetdv1.WatchOffsetsResponse]) error {
	for {
		answer, err := watch.Recv()
		if err != nil {
			return err
		}
		for _, event := range answer.GetEvents() {
			fmt.Printf("watched %s:%d = %d\n",
				event.GetTopic(), event.GetPartition(), event.GetCommitted().GetOffset())
			return nil
		}
	}
}

// reason says which of the contract's reasons an error has: they are stable, its text is not.
func reason(err error) string {
	var grpcError interface{ GRPCStatus() *status.Status }
	if !errors.As(err, &grpcError) {
		return ""
	}
	for _, detail := range grpcError.GRPCStatus().Details() {
		if told, ok := detail.(*errdetails.ErrorInfo); ok {
			return told.GetReason()
		}
	}
	return ""
}
