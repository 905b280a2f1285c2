package main

import (
	"context"
	"runtime"
	"sync"
)

// gathering hands on what callers bring: all that waits, together, as soon as no fewer wait than have
// no answer. So what was answered together goes together. Without patience it goes at once.
type gathering[T any] struct {
	patient bool
	hasty   bool // Goes at the first one, though others would hand theirs in at the same moment.
	wake    chan struct{}

	lock       sync.Mutex
	waiting    []T
	unanswered int
}

func newGathering[T any](patient bool) *gathering[T] {
	return &gathering[T]{patient: patient, wake: make(chan struct{}, 1)}
}

func (g *gathering[T]) hand(item T) {
	g.lock.Lock()
	g.waiting = append(g.waiting, item)
	g.lock.Unlock()
	g.wakeUp()
}

func (g *gathering[T]) answered(count int) {
	g.lock.Lock()
	g.unanswered -= count
	g.lock.Unlock()
	g.wakeUp()
}

func (g *gathering[T]) wakeUp() {
	select {
	case g.wake <- struct{}{}:
	default:
	}
}

// next waits for what is to go now; nil once the context is done.
func (g *gathering[T]) next(ctx context.Context) []T {
	for {
		select {
		case <-g.wake:
		case <-ctx.Done():
			return nil
		}
		if !g.hasty {
			runtime.Gosched() // Who was answered just now hands in the next one first.
		}
		if items := g.taken(); items != nil {
			return items
		}
	}
}

func (g *gathering[T]) taken() []T {
	g.lock.Lock()
	defer g.lock.Unlock()
	if g.patient && len(g.waiting) < g.unanswered {
		return nil
	}
	items := g.waiting
	g.waiting = nil
	g.unanswered += len(items)
	return items
}
