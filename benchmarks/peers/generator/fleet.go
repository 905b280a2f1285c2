package main

import (
	"context"
	"errors"
	"sync"
)

// fleetMakers is how many members of a fleet connect, or close, at a time.
const fleetMakers = 32

// fleet is what as many programs as there are callers would be: each caller has a client of its own,
// as that client's library makes it for one caller. So nothing of two callers shares a connection.
type fleet struct {
	members []client
}

func fleetOf(opened opener) opener {
	return func(ctx context.Context, address string, callers int) (client, error) {
		made := &fleet{members: make([]client, callers)}
		failures := make([]error, callers)
		someAtATime(callers, func(caller int) {
			made.members[caller], failures[caller] = opened(ctx, address, 1)
		})
		if err := errors.Join(failures...); err != nil {
			made.Close()
			return nil, err
		}
		return made, nil
	}
}

func someAtATime(count int, does func(number int)) {
	turns := make(chan int)
	var running sync.WaitGroup
	for range min(count, fleetMakers) {
		running.Go(func() {
			for number := range turns {
				does(number)
			}
		})
	}
	for number := range count {
		turns <- number
	}
	close(turns)
	running.Wait()
}

func (f *fleet) Prepare(ctx context.Context, groups []string, partitions int) error {
	return f.members[0].Prepare(ctx, groups, partitions)
}

func (f *fleet) Commit(ctx context.Context, caller int, group string, partitions int, offset int64) error {
	return f.members[caller].Commit(ctx, 0, group, partitions, offset)
}

func (f *fleet) Fetch(ctx context.Context, caller int, group string, partitions int) ([]int64, error) {
	return f.members[caller].Fetch(ctx, 0, group, partitions)
}

func (f *fleet) Close() {
	someAtATime(len(f.members), func(number int) {
		if f.members[number] != nil {
			f.members[number].Close()
		}
	})
}
