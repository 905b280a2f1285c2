package main

import (
	"context"
	"fmt"
	"strconv"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// etcdClient keeps a key a partition, `/offsets/GROUP/TOPIC/PARTITION`: one Put, or many in a Txn.
type etcdClient struct {
	nothingToPrepare
	client *clientv3.Client
}

func openEtcd(ctx context.Context, address string, _ int) (client, error) {
	connected, err := clientv3.New(clientv3.Config{
		Context: ctx, Endpoints: []string{"http://" + address}, Logger: zap.NewNop(),
	})
	if err != nil {
		return nil, err
	}
	return &etcdClient{client: connected}, nil
}

func etcdFolder(group string) string { return fmt.Sprintf("/offsets/%s/%s/", group, topic) }

func (e *etcdClient) Commit(ctx context.Context, _ int, group string, partitions int, offset int64) error {
	folder, value := etcdFolder(group), strconv.FormatInt(offset, 10)
	if partitions == 1 {
		_, err := e.client.Put(ctx, folder+"0", value)
		return err
	}
	puts := make([]clientv3.Op, partitions)
	for partition := range puts {
		puts[partition] = clientv3.OpPut(folder+strconv.Itoa(partition), value)
	}
	_, err := e.client.Txn(ctx).Then(puts...).Commit()
	return err
}

func (e *etcdClient) Fetch(ctx context.Context, _ int, group string, partitions int) ([]int64, error) {
	answer, err := e.client.Get(ctx, etcdFolder(group), clientv3.WithPrefix())
	if err != nil {
		return nil, err
	}
	offsets := make([]int64, 0, partitions)
	for _, pair := range answer.Kvs {
		offset, err := strconv.ParseInt(string(pair.Value), 10, 64)
		if err != nil {
			return nil, err
		}
		offsets = append(offsets, offset)
	}
	return offsets, nil
}

func (e *etcdClient) Close() { e.client.Close() }
