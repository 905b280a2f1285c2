package main

import (
	"context"
	"fmt"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"offsetd-peers/offsetdv1"
)

const unaryConnectionsMax = 64

// streamCount is of coalescing or single streams, each on a connection of its own.
const streamCount = 4

// bareSequence stands in the answers of the bare server.
const bareSequence = 1<<20 - 1

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
	return grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
}

// unaryClient makes a CommitOffsets call of each commit, over as many connections as callers.
type unaryClient struct {
	connections []*grpc.ClientConn
	services    []offsetdv1.OffsetServiceClient
	requests    requests
}

func openUnary(_ context.Context, address string, callers int) (client, error) {
	return newUnary(address, callers, min(callers, unaryConnectionsMax))
}

func newUnary(address string, callers, connections int) (*unaryClient, error) {
	made := &unaryClient{requests: make(requests, callers)}
	for range connections {
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
	service := u.services[caller%len(u.services)]
	answer, err := service.FetchOffsets(ctx, &offsetdv1.FetchOffsetsRequest{
		Groups: []*offsetdv1.GroupSelection{{GroupId: group}},
	})
	if err != nil {
		return nil, err
	}
	var offsets []int64
	for _, stored := range answer.GetGroups()[0].GetOffsets() {
		offsets = append(offsets, stored.GetOffset())
	}
	return offsets, nil
}

func (u *unaryClient) Close() {
	for _, connection := range u.connections {
		connection.Close()
	}
}

// streamsClient commits over streams, and fetches by calls beside them.
type streamsClient struct {
	*unaryClient
	streams []*stream
	results []chan error // Of the callers.
}

func openStreams(coalescing bool) opener {
	return func(ctx context.Context, address string, callers int) (client, error) {
		calls, err := newUnary(address, callers, min(callers, streamCount))
		if err != nil {
			return nil, err
		}
		made := &streamsClient{unaryClient: calls, results: make([]chan error, callers)}
		for caller := range made.results {
			made.results[caller] = make(chan error, 1)
		}
		for _, service := range calls.services {
			call, err := service.StreamCommits(ctx)
			if err != nil {
				return nil, err
			}
			opened := &stream{call: call, results: made.results, coalescing: coalescing, wake: make(chan struct{}, 1)}
			made.streams = append(made.streams, opened)
			go opened.send(ctx)
			go opened.receive()
		}
		return made, nil
	}
}

func (s *streamsClient) Commit(ctx context.Context, caller int, group string, partitions int, offset int64) error {
	commit := s.requests.next(caller, group, partitions, offset)
	s.streams[caller%len(s.streams)].hand(&offsetdv1.SequencedCommit{Sequence: uint64(caller), Commit: commit})
	select {
	case err := <-s.results[caller]:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// stream sends what callers hand in: with coalescing all that waits in one message, else each alone.
type stream struct {
	call       grpc.BidiStreamingClient[offsetdv1.StreamCommitsRequest, offsetdv1.StreamCommitsResponse]
	results    []chan error
	coalescing bool
	wake       chan struct{}

	lock    sync.Mutex
	waiting []*offsetdv1.SequencedCommit // To be sent.
	sent    []*offsetdv1.SequencedCommit // Without an answer, of a stream that is not coalescing.
}

func (s *stream) hand(commit *offsetdv1.SequencedCommit) {
	s.lock.Lock()
	s.waiting = append(s.waiting, commit)
	s.lock.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

func (s *stream) send(ctx context.Context) {
	for {
		select {
		case <-s.wake:
		case <-ctx.Done():
			return
		}
		s.lock.Lock()
		commits := s.waiting
		s.waiting = nil
		s.lock.Unlock()
		if s.coalescing {
			s.sendMessage(commits)
			continue
		}
		for at := range commits {
			s.sendMessage(commits[at : at+1])
		}
	}
}

// sendMessage leaves an error to receive, which is told what the stream ended with.
func (s *stream) sendMessage(commits []*offsetdv1.SequencedCommit) {
	if len(commits) == 0 {
		return
	}
	if !s.coalescing {
		s.lock.Lock()
		s.sent = append(s.sent, commits...)
		s.lock.Unlock()
	}
	_ = s.call.Send(&offsetdv1.StreamCommitsRequest{Commits: commits})
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
	if !s.coalescing {
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
