package main

import (
	"context"

	"offsetd-peers/offsetdv1"
)

// fetchGroupsMax is how many groups our own clients ask for in a call.
const fetchGroupsMax = 64

// sharedFetches makes a call of what several callers ask for, as our own client does: a call costs
// client and server the same, however many groups it names.
type sharedFetches struct {
	service offsetdv1.OffsetServiceClient
	asked   *gathering[*groupFetch]
}

type groupFetch struct {
	group string
	done  chan struct{}
	found []int64
	err   error
}

func shareFetches(ctx context.Context, service offsetdv1.OffsetServiceClient) *sharedFetches {
	made := &sharedFetches{service: service, asked: newGathering[*groupFetch](true)}
	go made.send(ctx)
	return made
}

func (s *sharedFetches) fetch(ctx context.Context, group string) ([]int64, error) {
	asked := &groupFetch{group: group, done: make(chan struct{})}
	s.asked.hand(asked)
	select {
	case <-asked.done:
		return asked.found, asked.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (s *sharedFetches) send(ctx context.Context) {
	for asked := s.asked.next(ctx); asked != nil; asked = s.asked.next(ctx) {
		for len(asked) > 0 {
			count := distinctGroups(asked)
			go s.call(ctx, asked[:count])
			asked = asked[count:]
		}
	}
}

// distinctGroups is how many of the first ones go into a call, which names no group twice.
func distinctGroups(asked []*groupFetch) int {
	named := make(map[string]bool, fetchGroupsMax)
	for at, each := range asked {
		if at == fetchGroupsMax || named[each.group] {
			return at
		}
		named[each.group] = true
	}
	return len(asked)
}

func (s *sharedFetches) call(ctx context.Context, asked []*groupFetch) {
	fetchGroups(ctx, s.service, asked)
	for _, each := range asked {
		close(each.done)
	}
	s.asked.answered(len(asked))
}

// fetchGroups asks for all in one call.
func fetchGroups(ctx context.Context, service offsetdv1.OffsetServiceClient, asked []*groupFetch) {
	request := &offsetdv1.FetchOffsetsRequest{Groups: make([]*offsetdv1.GroupSelection, len(asked))}
	for at, each := range asked {
		request.Groups[at] = &offsetdv1.GroupSelection{GroupId: each.group}
	}
	answer, err := service.FetchOffsets(ctx, request)
	for at, each := range asked {
		if each.err = err; err != nil {
			continue
		}
		for _, stored := range answer.GetGroups()[at].GetOffsets() { // In the order asked.
			each.found = append(each.found, stored.GetOffset())
		}
	}
}
