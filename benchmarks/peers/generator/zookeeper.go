package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"
)

const (
	zooKeeperSession = 30 * time.Second
	zooKeeperMakers  = 64
	// Each sends and reads in a goroutine of its own.
	zooKeeperConnectionsMax = 4
)

// zooKeeperClient keeps a node a partition, where Kafka 0.8's consumers had them:
// `/consumers/GROUP/offsets/TOPIC/PARTITION`. One Set, or many in a Multi. Nodes are made before.
type zooKeeperClient struct {
	connections []*zk.Conn
}

type silent struct{}

func (silent) Printf(string, ...any) {}

func openZooKeeper(ctx context.Context, address string, callers int) (client, error) {
	made := &zooKeeperClient{}
	// A server that has just opened its port may leave the first one without an answer.
	ctx, cancel := context.WithTimeout(ctx, answerTry)
	defer cancel()
	for range min(callers, zooKeeperConnectionsMax) {
		connection, events, err := zk.Connect([]string{address}, zooKeeperSession, zk.WithLogger(silent{}))
		if err != nil {
			return nil, err
		}
		made.connections = append(made.connections, connection)
		for connection.State() != zk.StateHasSession {
			select {
			case <-events:
			case <-ctx.Done():
				made.Close()
				return nil, ctx.Err()
			}
		}
	}
	return made, nil
}

func zooKeeperPath(group string, partition int) string {
	return fmt.Sprintf("/consumers/%s/offsets/%s/%d", group, topic, partition)
}

func (z *zooKeeperClient) Prepare(_ context.Context, groups []string, partitions int) error {
	if _, err := z.connections[0].Create("/consumers", nil, 0, zk.WorldACL(zk.PermAll)); err != nil && !errors.Is(err, zk.ErrNodeExists) {
		return err
	}
	waiting := make(chan string)
	failed := make(chan error, zooKeeperMakers)
	var makers sync.WaitGroup
	for number := range zooKeeperMakers {
		makers.Go(func() {
			for group := range waiting {
				if err := z.make(z.connection(number), group, partitions); err != nil {
					select {
					case failed <- err:
					default:
					}
				}
			}
		})
	}
	for _, group := range groups {
		waiting <- group
	}
	close(waiting)
	makers.Wait()
	select {
	case err := <-failed:
		return err
	default:
		return nil
	}
}

func (z *zooKeeperClient) make(connection *zk.Conn, group string, partitions int) error {
	node := func(path string, value []byte) *zk.CreateRequest {
		return &zk.CreateRequest{Path: path, Data: value, Acl: zk.WorldACL(zk.PermAll)}
	}
	folder := "/consumers/" + group
	creations := []any{
		node(folder, nil), node(folder+"/offsets", nil), node(folder+"/offsets/"+topic, nil),
	}
	for partition := range partitions {
		creations = append(creations, node(zooKeeperPath(group, partition), []byte("0")))
	}
	_, err := connection.Multi(creations...)
	if errors.Is(err, zk.ErrNodeExists) {
		return nil
	}
	return err
}

func (z *zooKeeperClient) connection(caller int) *zk.Conn {
	return z.connections[caller%len(z.connections)]
}

func (z *zooKeeperClient) Commit(_ context.Context, caller int, group string, partitions int, offset int64) error {
	value := strconv.AppendInt(nil, offset, 10)
	if partitions == 1 {
		_, err := z.connection(caller).Set(zooKeeperPath(group, 0), value, -1)
		return err
	}
	sets := make([]any, partitions)
	for partition := range sets {
		sets[partition] = &zk.SetDataRequest{Path: zooKeeperPath(group, partition), Data: value, Version: -1}
	}
	_, err := z.connection(caller).Multi(sets...)
	return err
}

// Fetch asks for all at once: the library has no multi of reads.
func (z *zooKeeperClient) Fetch(_ context.Context, caller int, group string, partitions int) ([]int64, error) {
	offsets, failures := make([]int64, partitions), make([]error, partitions)
	var asked sync.WaitGroup
	for partition := range offsets {
		asked.Go(func() {
			value, _, err := z.connection(caller).Get(zooKeeperPath(group, partition))
			if err == nil {
				offsets[partition], err = strconv.ParseInt(string(value), 10, 64)
			}
			failures[partition] = err
		})
	}
	asked.Wait()
	return offsets, errors.Join(failures...)
}

func (z *zooKeeperClient) Close() {
	for _, connection := range z.connections {
		connection.Close()
	}
}
