// One load generator for all systems: callers that commit offsets in a closed loop, by the client
// library that a Go program would use. It prints what it found as JSON.
//
//	peers-load -client redis -address 127.0.0.1:6379 -callers 64 -partitions 50 -seconds 3
//	peers-load -client zookeeper -address 127.0.0.1:2181 -groups 1024 -partitions 50 -prepare
//	peers-load -client kafka -address 127.0.0.1:9092 -groups 20000 -partitions 50 -await
//	peers-load -client kafka -address 127.0.0.1:9092 -callers 256 -fleet
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"time"
)

func main() {
	if err := command(); err != nil {
		fmt.Fprintln(os.Stderr, "peers-load:", err)
		os.Exit(1)
	}
}

func command() error {
	var (
		name       = flag.String("client", "", "the system, and how it is talked to")
		address    = flag.String("address", "", "HOST:PORT of its server")
		callers    = flag.Int("callers", 1, "closed loops beside each other")
		partitions = flag.Int("partitions", 1, "of a commit")
		groups     = flag.Int("groups", 0, "that take turns; as many as callers unless said")
		fetch      = flag.Bool("fetch", false, "fetch what was committed after each commit")
		first      = flag.Int64("first", 1, "the offset that is committed first")
		warm       = flag.Float64("warm", 0.5, "seconds that are not measured")
		seconds    = flag.Float64("seconds", 3, "seconds that are")
		commits    = flag.Int64("commits", 0, "so many commits instead of a time")
		prepare    = flag.Bool("prepare", false, "only make what commits of the groups need")
		await      = flag.Bool("await", false, "only wait until offsets of each group can be fetched")
		fleet      = flag.Bool("fleet", false, "a client for each caller; says when all are connected, see halt")
		limit      = flag.Float64("limit", 3600, "seconds after which it gives up")
	)
	flag.Parse()
	if *groups == 0 {
		*groups = *callers
	}
	if *fetch && *groups%*callers != 0 {
		return errors.New("to fetch what was committed, callers must not share a group")
	}
	ctx, cancel := context.WithTimeout(context.Background(), duration(*limit))
	defer cancel()
	if *await || *prepare {
		if err := awaitPort(ctx, *address); err != nil {
			return err
		}
	}
	if *await {
		return awaitOffsets(ctx, *name, *address, groupNames(*groups, *partitions), *partitions)
	}
	if *prepare {
		return prepareGroups(ctx, *name, *address, groupNames(*groups, *partitions), *partitions)
	}
	opened, err := clientOf(*name)
	if err != nil {
		return err
	}
	var connected func() error
	if *fleet {
		opened, connected = fleetOf(opened), halt
	}
	system, err := opened(ctx, *address, *callers)
	if err != nil {
		return err
	}
	defer system.Close()
	result, err := run(ctx, system, work{
		callers: *callers, partitions: *partitions, groups: *groups, fetch: *fetch, first: *first,
		connected: connected,
		warm:      duration(*warm), measured: duration(*seconds), commits: *commits,
	})
	if err != nil {
		return err
	}
	if err := json.NewEncoder(os.Stdout).Encode(result); err != nil || !*fleet {
		return err
	}
	_, err = io.Copy(io.Discard, os.Stdin) // Connections close when the server's time was read.
	return err
}

// halt says that all callers are connected, and waits for a line: whoever reads the server's CPU time
// does it here, and again when the result is there, so that connecting and closing are not in it.
func halt() error {
	fmt.Println("connected")
	_, err := os.Stdin.Read(make([]byte, 1))
	return err
}

func duration(seconds float64) time.Duration { return time.Duration(seconds * float64(time.Second)) }
