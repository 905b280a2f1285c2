package main

import (
	"context"
	"fmt"
	"net"
	"time"
)

const (
	portTry   = 5 * time.Millisecond
	answerTry = 2 * time.Second
	// So many groups are fetched: they lie in all parts of a server's log.
	awaitedGroups = 128
	preparers     = 4
)

func awaitPort(ctx context.Context, address string) error {
	for {
		connection, err := net.DialTimeout("tcp", address, answerTry)
		if err == nil {
			return connection.Close()
		}
		if err := pause(ctx, err); err != nil {
			return err
		}
	}
}

// awaitOffsets returns when all offsets of a sample of the groups were fetched.
func awaitOffsets(ctx context.Context, name, address string, groups []string, partitions int) error {
	step := max(1, len(groups)/awaitedGroups)
	for at := 0; at < len(groups); {
		// A client of its own each time: those that were refused rest before they try again.
		system, err := open(ctx, name, address, 1)
		for ; err == nil && at < len(groups); at += step {
			err = fetchAll(ctx, system, groups[at], partitions)
			if err != nil {
				break
			}
		}
		if system != nil {
			system.Close()
		}
		if err == nil {
			continue
		}
		if err := pause(ctx, err); err != nil {
			return err
		}
	}
	return nil
}

// prepareGroups tries until a server that has just been started takes it.
func prepareGroups(ctx context.Context, name, address string, groups []string, partitions int) error {
	for {
		system, err := open(ctx, name, address, preparers)
		if err == nil {
			err = system.Prepare(ctx, groups, partitions)
			system.Close()
		}
		if err == nil {
			return nil
		}
		if err := pause(ctx, err); err != nil {
			return err
		}
	}
}

func fetchAll(ctx context.Context, system client, group string, partitions int) error {
	ctx, cancel := context.WithTimeout(ctx, answerTry)
	defer cancel()
	offsets, err := system.Fetch(ctx, 0, group, partitions)
	if err == nil && len(offsets) != partitions {
		err = fmt.Errorf("%d offsets of %d are fetched of %s", len(offsets), partitions, group)
	}
	return err
}

// pause waits for the next try; when time is up, it returns what was wrong with the last one.
func pause(ctx context.Context, last error) error {
	select {
	case <-ctx.Done():
		return last
	case <-time.After(portTry):
		return nil
	}
}
