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
	client *redis.Client
	// Takes what many callers send together, as our stream does. Large commands are faster without.
	pipelined *redis.AutoPipeliner
}

const redisConnectionsMax = 64

func openRedis(_ context.Context, address string, callers int) (client, error) {
	connected := redis.NewClient(&redis.Options{Addr: address, PoolSize: min(callers, redisConnectionsMax)})
	pipelined, err := connected.AutoPipeline()
	if err != nil {
		return nil, err
	}
	return &redisClient{client: connected, pipelined: pipelined}, nil
}

func redisKey(group string) string { return "offsets:" + group }

func redisField(partition int) string { return topic + ":" + strconv.Itoa(partition) }

func (r *redisClient) commands(partitions int) redis.Cmdable {
	if partitions == 1 {
		return r.pipelined
	}
	return r.client
}

func (r *redisClient) Commit(ctx context.Context, _ int, group string, partitions int, offset int64) error {
	fields := make([]any, 0, 2*partitions)
	for partition := range partitions {
		fields = append(fields, redisField(partition), offset)
	}
	return r.commands(partitions).HSet(ctx, redisKey(group), fields...).Err()
}

func (r *redisClient) Fetch(ctx context.Context, _ int, group string, partitions int) ([]int64, error) {
	stored, err := r.commands(partitions).HGetAll(ctx, redisKey(group)).Result()
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
