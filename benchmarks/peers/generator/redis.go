package main

import (
	"context"
	"strconv"

	"github.com/redis/go-redis/v9"
)

// redisClient keeps a hash a group: `offsets:GROUP`, with a field for each partition. One HSET of
// many fields is one command, which is all or nothing.
type redisClient struct {
	nothingToPrepare
	client   *redis.Client
	commands redis.Cmdable // The client's own, or its automatic pipelines.
}

const redisConnectionsMax = 64

func newRedis(address string, callers int) *redisClient {
	connected := redis.NewClient(&redis.Options{Addr: address, PoolSize: min(callers, redisConnectionsMax)})
	return &redisClient{client: connected, commands: connected}
}

// openRedis sends each command by itself, on a connection of the pool.
func openRedis(_ context.Context, address string, callers int) (client, error) {
	return newRedis(address, callers), nil
}

// openRedisPipelined sends together what many callers want at once, as our stream does.
func openRedisPipelined(_ context.Context, address string, callers int) (client, error) {
	made := newRedis(address, callers)
	pipelined, err := made.client.AutoPipeline()
	if err != nil {
		made.Close()
		return nil, err
	}
	made.commands = pipelined
	return made, nil
}

func redisKey(group string) string { return "offsets:" + group }

func redisField(partition int) string { return topic + ":" + strconv.Itoa(partition) }

func (r *redisClient) Commit(ctx context.Context, _ int, group string, partitions int, offset int64) error {
	fields := make([]any, 0, 2*partitions)
	for partition := range partitions {
		fields = append(fields, redisField(partition), offset)
	}
	return r.commands.HSet(ctx, redisKey(group), fields...).Err()
}

func (r *redisClient) Fetch(ctx context.Context, _ int, group string, partitions int) ([]int64, error) {
	stored, err := r.commands.HGetAll(ctx, redisKey(group)).Result()
	if err != nil {
		return nil, err
	}
	offsets := make([]int64, 0, partitions)
	for _, value := range stored {
		offset, err := strconv.ParseInt(value, 10, 64)
		if err != nil {
			return nil, err
		}
		offsets = append(offsets, offset)
	}
	return offsets, nil
}

func (r *redisClient) Close() { r.client.Close() }
