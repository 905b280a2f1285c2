package main

import (
	"context"
	"fmt"
	"sync"

	vtproto "github.com/planetscale/vtprotobuf/codec/grpc"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"offsetd-peers/offsetdv1"
)

const (
	callConnectionsMax = 64
	// bareSequence stands in the answers of the bare server.
	bareSequence = 1<<20 - 1
)

// streamKind says how commits become messages. Streams have a connection each.
type streamKind struct {
	count   int
	patient bool // See gathering. Half of the commits are on their way while the others are answered.
	hasty   bool // See gathering.
	apart   bool // Each commit is a message, instead of all that wait.
}

var (
	gatheringStream = streamKind{count: 1, patient: true}
	naiveStream     = streamKind{count: 1, hasty: true}
	plainStreams    = streamKind{count: 4, apart: true}
)

// requests are what callers commit, made once: only offsets change, while nobody sends them.
type requests []*offsetdv1.CommitOffsetsRequest

func (r requests) next(caller int, group string, partitions int, offset int64) *offsetdv1.CommitOffsetsRequest {
	if r[caller] == nil {
		r[caller] = &offsetdv1.CommitOffsetsRequest{Offsets: make([]*offsetdv1.OffsetCommit, partitions)}
		for partition := range r[caller].Offsets {
			r[caller].Offsets[partition] = &offsetdv1.OffsetCommit{Topic: topic, Partition: int32(partition)}
		}
	}
	request := r[caller]
	request.GroupId = group
	for _, each := range request.Offsets {
		each.Offset = offset
	}
	return request
}

func dial(address string) (*grpc.ClientConn, error) {
	return grpc.NewClient(
		address,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.ForceCodec(vtproto.Codec{})),
	)
}

// unaryClient makes a CommitOffsets call of each commit, over as many connections as callers, up to 64.
type unaryClient struct {
	connections []*grpc.ClientConn
	services    []offsetdv1.OffsetServiceClient
	requests    requests
}

func openUnary(_ context.Context, address string, callers int) (client, error) {
	return newUnary(address, callers)
}

func newUnary(address string, callers int) (*unaryClient, error) {
	made := &unaryClient{requests: make(requests, callers)}
	for range min(callers, callConnectionsMax) {
		connection, err := dial(address)
		if err != nil {
			return nil, err
		}
		made.connections = append(made.connections, connection)
		made.services = append(made.services, offsetdv1.NewOffsetServiceClient(connection))
	}
	return made, nil
}

// Prepare only finds out whether the server has loaded its log.
func (u *unaryClient) Prepare(ctx context.Context, groups []string, partitions int) error {
	return u.Commit(ctx, 0, groups[0], partitions, 0)
}

func (u *unaryClient) Commit(ctx context.Context, caller int, group string, partitions int, offset int64) error {
	service := u.services[caller%len(u.services)]
	_, err := service.CommitOffsets(ctx, u.requests.next(caller, group, partitions, offset))
	return err
}

func (u *unaryClient) Fetch(ctx context.Context, caller int, group string, partitions int) ([]int64, error) {
	asked := &groupFetch{group: group}
	fetchGroups(ctx, u.services[caller%len(u.services)], []*groupFetch{asked})
	return asked.found, asked.err
}

func (u *unaryClient) Close() {
	for _, connection := range u.connections {
		connection.Close()
	}
}

// streamsClient commits over streams, and fetches by calls beside them; fetches share calls where
// commits share messages.
type streamsClient struct {
	*unaryClient
	streams []*stream
	results []chan error // Of the callers.
	fetches *sharedFetches
}

func openStreams(kind streamKind) opener {
	return func(ctx context.Context, address string, callers int) (client, error) {
		calls, err := newUnary(address, callers)
		if err != nil {
			return nil, err
		}
		made := &streamsClient{unaryClient: calls, results: make([]chan error, callers)}
		if kind.patient {
			made.fetches = shareFetches(ctx, calls.services[0])
		}
		for caller := range made.results {
			made.results[caller] = make(chan error, 1)
		}
		for range min(callers, kind.count) {
			opened := &stream{
				results: made.results, apart: kind.apart,
				commits: newGathering[*offsetdv1.SequencedCommit](kind.patient),
			}
			opened.commits.hasty = kind.hasty
			if err := opened.open(ctx, address); err != nil {
				return nil, err
			}
			made.streams = append(made.streams, opened)
		}
		return made, nil
	}
}

func (s *streamsClient) Commit(ctx context.Context, caller int, group string, partitions int, offset int64) error {
	commit := s.requests.next(caller, group, partitions, offset)
	s.streams[caller%len(s.streams)].commits.hand(&offsetdv1.SequencedCommit{Sequence: uint64(caller), Commit: commit})
	select {
	case err := <-s.results[caller]:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *streamsClient) Fetch(ctx context.Context, caller int, group string, partitions int) ([]int64, error) {
	if s.fetches == nil {
		return s.unaryClient.Fetch(ctx, caller, group, partitions)
	}
	return s.fetches.fetch(ctx, group)
}

func (s *streamsClient) Close() {
	for _, each := range s.streams {
		each.connection.Close()
	}
	s.unaryClient.Close()
}

// stream sends what callers hand in: all that the gathering gives in a message, or each commit apart.
type stream struct {
	connection *grpc.ClientConn
	call       grpc.BidiStreamingClient[offsetdv1.StreamCommitsRequest, offsetdv1.StreamCommitsResponse]
	results    []chan error
	commits    *gathering[*offsetdv1.SequencedCommit]
	apart      bool

	lock sync.Mutex
	sent []*offsetdv1.SequencedCommit // Unanswered, if each is a message.
}

func (s *stream) open(ctx context.Context, address string) error {
	var err error
	if s.connection, err = dial(address); err != nil {
		return err
	}
	if s.call, err = offsetdv1.NewOffsetServiceClient(s.connection).StreamCommits(ctx); err != nil {
		return err
	}
	go s.send(ctx)
	go s.receive()
	return nil
}

// send leaves errors to receive, which is told what the stream ended with.
func (s *stream) send(ctx context.Context) {
	for commits := s.commits.next(ctx); commits != nil; commits = s.commits.next(ctx) {
		if !s.apart {
			_ = s.call.Send(&offsetdv1.StreamCommitsRequest{Commits: commits})
			continue
		}
		s.lock.Lock()
		s.sent = append(s.sent, commits...)
		s.lock.Unlock()
		for at := range commits {
			_ = s.call.Send(&offsetdv1.StreamCommitsRequest{Commits: commits[at : at+1]})
		}
	}
}

func (s *stream) receive() {
	for {
		answer, err := s.call.Recv()
		if err != nil {
			for _, result := range s.results {
				select {
				case result <- fmt.Errorf("the stream ended: %w", err):
				default:
				}
			}
			return
		}
		for _, result := range answer.GetResults() {
			s.settle(result)
		}
		s.commits.answered(len(answer.GetResults()))
	}
}

// settle finds the caller by the sequence. The bare server does not know any: its answers are all
// alike, and come in the order of the messages.
func (s *stream) settle(result *offsetdv1.CommitResult) {
	caller := result.GetSequence()
	if caller == bareSequence {
		s.lock.Lock()
		caller = s.sent[0].GetSequence()
		s.lock.Unlock()
	}
	if s.apart {
		s.forget(caller)
	}
	var err error
	if refused := result.GetError(); refused != nil {
		err = fmt.Errorf("the commit is refused: %s", refused.GetMessage())
	}
	s.results[caller] <- err
}

func (s *stream) forget(caller uint64) {
	s.lock.Lock()
	defer s.lock.Unlock()
	for at, each := range s.sent {
		if each.GetSequence() == caller {
			s.sent = append(s.sent[:at], s.sent[at+1:]...)
			return
		}
	}
}
