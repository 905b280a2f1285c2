package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	kafkaPartitions = 50
	// A broker answers a connection's requests one after the other, so callers have their own, as
	// consumers do; beyond so many, more connections were no faster.
	kafkaConnectionsMax = 256
	kafkaTry            = 100 * time.Millisecond
)

// kafkaClient sends OffsetCommit for groups without members, as a consumer with assigned partitions does.
type kafkaClient struct {
	clients []*kgo.Client
	topicID [16]byte
}

func openKafka(ctx context.Context, address string, callers int) (client, error) {
	made := &kafkaClient{}
	for range min(callers, kafkaConnectionsMax) {
		connected, err := kgo.NewClient(kgo.SeedBrokers(address))
		if err != nil {
			return nil, err
		}
		made.clients = append(made.clients, connected)
	}
	ctx, cancel := context.WithTimeout(ctx, answerTry)
	defer cancel()
	topics, err := kadm.NewClient(made.clients[0]).ListTopics(ctx, topic)
	if err != nil {
		made.Close()
		return nil, err
	}
	made.topicID = [16]byte(topics[topic].ID)
	return made, nil
}

// Prepare makes the topic, and waits until a group can commit: the first commit makes the offsets topic.
func (k *kafkaClient) Prepare(ctx context.Context, groups []string, _ int) error {
	admin := kadm.NewClient(k.clients[0])
	made, err := admin.CreateTopic(ctx, kafkaPartitions, 1, nil, topic)
	if err != nil && !errors.Is(made.Err, kerr.TopicAlreadyExists) && !errors.Is(err, kerr.TopicAlreadyExists) {
		return err
	}
	for err = errors.New("not tried"); err != nil; time.Sleep(kafkaTry) {
		if ctx.Err() != nil {
			return fmt.Errorf("no group can commit: %w", err)
		}
		var topics kadm.TopicDetails
		if topics, err = admin.ListTopics(ctx, topic); err == nil {
			k.topicID = [16]byte(topics[topic].ID)
			err = k.Commit(ctx, 0, groups[0], 1, 0)
		}
	}
	return nil
}

func (k *kafkaClient) client(caller int) *kgo.Client { return k.clients[caller%len(k.clients)] }

func (k *kafkaClient) Commit(ctx context.Context, caller int, group string, partitions int, offset int64) error {
	request := kmsg.NewPtrOffsetCommitRequest()
	request.Group = group
	wanted := kmsg.NewOffsetCommitRequestTopic()
	wanted.Topic, wanted.TopicID = topic, k.topicID
	for partition := range partitions {
		each := kmsg.NewOffsetCommitRequestTopicPartition()
		each.Partition, each.Offset = int32(partition), offset
		wanted.Partitions = append(wanted.Partitions, each)
	}
	request.Topics = append(request.Topics, wanted)
	answer, err := request.RequestWith(ctx, k.client(caller))
	if err != nil {
		return err
	}
	for _, answered := range answer.Topics {
		for _, each := range answered.Partitions {
			if err := kerr.ErrorForCode(each.ErrorCode); err != nil {
				return fmt.Errorf("partition %d: %w", each.Partition, err)
			}
		}
	}
	return nil
}

func (k *kafkaClient) Fetch(ctx context.Context, caller int, group string, partitions int) ([]int64, error) {
	request := kmsg.NewPtrOffsetFetchRequest()
	wanted := kmsg.NewOffsetFetchRequestGroup()
	wanted.Group = group
	request.Group = group
	request.Groups = append(request.Groups, wanted)
	answer, err := request.RequestWith(ctx, k.client(caller))
	if err != nil {
		return nil, err
	}
	offsets := make([]int64, 0, partitions)
	for _, told := range answer.Groups {
		if err := kerr.ErrorForCode(told.ErrorCode); err != nil {
			return nil, err
		}
		for _, answered := range told.Topics {
			for _, each := range answered.Partitions {
				offsets = append(offsets, each.Offset)
			}
		}
	}
	return offsets, nil
}

func (k *kafkaClient) Close() {
	for _, connected := range k.clients {
		connected.Close()
	}
}
