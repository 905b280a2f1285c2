package main

import (
	"context"
	"fmt"
	"sort"
	"strings"
)

// topic is the one that all groups commit for.
const topic = "orders"

// client keeps offsets in one system, for callers 0, 1, ... that each have at most one call open.
type client interface {
	// Prepare makes what commits of these groups need: a table, a topic, parent nodes.
	Prepare(ctx context.Context, groups []string, partitions int) error
	// Commit stores the offset for partitions 0 to partitions-1: all, or on an error none.
	Commit(ctx context.Context, caller int, group string, partitions int, offset int64) error
	// Fetch reads the offsets of those partitions, in any order.
	Fetch(ctx context.Context, caller int, group string, partitions int) ([]int64, error)
	Close()
}

type opener func(ctx context.Context, address string, callers int) (client, error)

var openers = map[string]opener{
	"offsetd":         openStreams(gatheringStream),
	"offsetd-naive":   openStreams(naiveStream),
	"offsetd-stream":  openStreams(plainStreams),
	"offsetd-unary":   openUnary,
	"bare-stream":     openStreams(plainStreams),
	"bare-unary":      openUnary,
	"kafka":           openKafka,
	"redis":           openRedis,
	"redis-pipelined": openRedisPipelined,
	"etcd":            openEtcd,
	"zookeeper":       openZooKeeper,
	"postgresql":      openPostgreSQL,
}

func open(ctx context.Context, name, address string, callers int) (client, error) {
	opened, err := clientOf(name)
	if err != nil {
		return nil, err
	}
	return opened(ctx, address, callers)
}

func clientOf(name string) (opener, error) {
	opened, ok := openers[name]
	if !ok {
		names := make([]string, 0, len(openers))
		for known := range openers {
			names = append(names, known)
		}
		sort.Strings(names)
		return nil, fmt.Errorf("no client %q; there are %s", name, strings.Join(names, ", "))
	}
	return opened, nil
}

// nothingToPrepare is for systems that take a commit as it comes.
type nothingToPrepare struct{}

func (nothingToPrepare) Prepare(context.Context, []string, int) error { return nil }
