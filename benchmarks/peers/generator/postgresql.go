package main

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Below the 100 connections that a server takes as it comes.
const postgreSQLConnectionsMax = 64

const (
	makeTable = `CREATE TABLE IF NOT EXISTS committed_offsets (
	group_id text, topic text, partition integer, "offset" bigint NOT NULL,
	PRIMARY KEY (group_id, topic, partition))`
	upsert = `INSERT INTO committed_offsets (group_id, topic, partition, "offset")
	SELECT $1, $2, * FROM unnest($3::integer[], $4::bigint[])
	ON CONFLICT (group_id, topic, partition) DO UPDATE SET "offset" = excluded."offset"`
	selection = `SELECT "offset" FROM committed_offsets WHERE group_id = $1`
)

// postgreSQLClient keeps a row a partition, and writes those of a commit in one statement.
type postgreSQLClient struct {
	pool *pgxpool.Pool
}

func openPostgreSQL(ctx context.Context, address string, callers int) (client, error) {
	settings, err := pgxpool.ParseConfig("postgres://postgres@" + address + "/postgres?sslmode=disable")
	if err != nil {
		return nil, err
	}
	settings.MaxConns = int32(min(callers, postgreSQLConnectionsMax))
	pool, err := pgxpool.NewWithConfig(ctx, settings)
	if err != nil {
		return nil, err
	}
	return &postgreSQLClient{pool: pool}, nil
}

func (p *postgreSQLClient) Prepare(ctx context.Context, _ []string, _ int) error {
	_, err := p.pool.Exec(ctx, makeTable)
	return err
}

func (p *postgreSQLClient) Commit(ctx context.Context, _ int, group string, partitions int, offset int64) error {
	numbers, offsets := make([]int32, partitions), make([]int64, partitions)
	for partition := range numbers {
		numbers[partition], offsets[partition] = int32(partition), offset
	}
	_, err := p.pool.Exec(ctx, upsert, group, topic, numbers, offsets)
	return err
}

func (p *postgreSQLClient) Fetch(ctx context.Context, _ int, group string, _ int) ([]int64, error) {
	rows, err := p.pool.Query(ctx, selection, group)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[int64])
}

func (p *postgreSQLClient) Close() { p.pool.Close() }
