package main

import (
	"context"
	"fmt"
	"sort"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// work is what callers do in a closed loop: each makes its next commit when the last was answered.
type work struct {
	callers    int
	partitions int // A commit.
	groups     int // Caller c's k-th commit is for group (c + k * callers) % groups; see commits.
	fetch      bool
	first      int64         // The offset that is committed first.
	warm       time.Duration // Not measured.
	measured   time.Duration
	connected  func() error // If there is one: called when all are connected; counts begin behind it.
	commits    int64        // Unless 0: so many in all, the n-th for group n % groups, instead of a time.
}

// found is what came of it. Latencies are microseconds.
type found struct {
	Commits       int64   `json:"commits"`     // Answered within the measured time.
	AllCommits    int64   `json:"all_commits"` // The warm-up's too.
	Seconds       float64 `json:"seconds"`
	P50           float64 `json:"p50_us"` // Of a commit.
	P99           float64 `json:"p99_us"`
	FetchP50      float64 `json:"fetch_p50_us"`
	GeneratorCPUs float64 `json:"generator_cpu_s"` // Over the whole run.
}

// caller is one closed loop's notes.
type caller struct {
	all              int64
	commits, fetches []time.Duration
	// The commit that was answered behind the end, if any, and the fetch behind it.
	late, lateFetches []time.Duration
}

// groupNames are of groups that commit for so many partitions each.
func groupNames(count, partitions int) []string {
	names := make([]string, count)
	for number := range names {
		names[number] = fmt.Sprintf("group-%d-%06d", partitions, number)
	}
	return names
}

// run drives the work; the first error of any caller ends it.
func run(ctx context.Context, system client, wanted work) (found, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	names := groupNames(wanted.groups, wanted.partitions)
	callers := make([]caller, wanted.callers)
	eachCaller := func(does func(number int) error) {
		var running sync.WaitGroup
		for number := range callers {
			running.Go(func() {
				if err := does(number); err != nil {
					cancel(fmt.Errorf("caller %d: %w", number, err))
				}
			})
		}
		running.Wait()
	}
	// Connections are made with the first call.
	eachCaller(func(number int) error {
		callers[number].all++
		return system.Commit(ctx, number, names[number%len(names)], wanted.partitions, wanted.first)
	})
	if err := context.Cause(ctx); err != nil {
		return found{}, err
	}
	used := 0.0
	if wanted.connected != nil {
		if err := wanted.connected(); err != nil {
			return found{}, err
		}
		for number := range callers {
			callers[number].all = 0
		}
		used = generatorCPUs()
	}
	begun := time.Now()
	turn := loop{
		system: system, wanted: wanted, names: names, taken: new(atomic.Int64),
		from: begun.Add(wanted.warm), until: begun.Add(wanted.warm + wanted.measured),
	}
	if wanted.commits > 0 {
		turn.from, turn.until = begun, begun.Add(24*time.Hour)
	}
	eachCaller(func(number int) error { return turn.run(ctx, number, &callers[number]) })
	if err := context.Cause(ctx); err != nil {
		return found{}, err
	}
	seconds := wanted.measured.Seconds()
	if wanted.commits > 0 {
		seconds = time.Since(begun).Seconds()
	}
	result := summary(callers, seconds)
	if result.Commits == 0 { // The system is so slow: then what came late is all there is.
		for number := range callers {
			callers[number].commits = callers[number].late
			callers[number].fetches = callers[number].lateFetches
		}
		result = summary(callers, time.Since(begun.Add(wanted.warm)).Seconds())
	}
	result.GeneratorCPUs -= used
	return result, nil
}

type loop struct {
	system      client
	wanted      work
	names       []string
	from, until time.Time
	taken       *atomic.Int64 // Of wanted.commits.
}

func (l *loop) run(ctx context.Context, number int, notes *caller) error {
	for round := 0; ctx.Err() == nil; round++ {
		turn := number + round*l.wanted.callers
		if l.wanted.commits > 0 {
			turn = int(l.taken.Add(1)) - 1
			if turn >= int(l.wanted.commits) {
				return nil
			}
		}
		group := l.names[turn%len(l.names)]
		offset := l.wanted.first + 1 + int64(turn)
		start := time.Now()
		if err := l.system.Commit(ctx, number, group, l.wanted.partitions, offset); err != nil {
			return err
		}
		answered := time.Now()
		notes.all++
		var fetched time.Time
		if l.wanted.fetch {
			if err := l.check(ctx, number, group, offset); err != nil {
				return err
			}
			fetched = time.Now()
		}
		if answered.After(l.until) {
			notes.late = append(notes.late, answered.Sub(start))
			if l.wanted.fetch {
				notes.lateFetches = append(notes.lateFetches, fetched.Sub(answered))
			}
			return nil
		}
		if answered.After(l.from) {
			notes.commits = append(notes.commits, answered.Sub(start))
			if l.wanted.fetch {
				notes.fetches = append(notes.fetches, fetched.Sub(answered))
			}
		}
	}
	return nil
}

// check fetches what was just committed. As long as a group has one caller, nobody else commits for it.
func (l *loop) check(ctx context.Context, number int, group string, offset int64) error {
	offsets, err := l.system.Fetch(ctx, number, group, l.wanted.partitions)
	if err != nil {
		return err
	}
	if len(offsets) != l.wanted.partitions {
		return fmt.Errorf("%d offsets of %d are fetched", len(offsets), l.wanted.partitions)
	}
	for _, stored := range offsets {
		if stored != offset {
			return fmt.Errorf("offset %d is fetched, %d was committed", stored, offset)
		}
	}
	return nil
}

func summary(callers []caller, seconds float64) found {
	var result found
	var commits, fetches []time.Duration
	for number := range callers {
		result.AllCommits += callers[number].all
		commits = append(commits, callers[number].commits...)
		fetches = append(fetches, callers[number].fetches...)
	}
	result.Commits, result.Seconds = int64(len(commits)), seconds
	result.P50, result.P99 = percentile(commits, 0.5), percentile(commits, 0.99)
	result.FetchP50 = percentile(fetches, 0.5)
	result.GeneratorCPUs = generatorCPUs()
	return result
}

// generatorCPUs is what this program has used until now, in seconds.
func generatorCPUs() float64 {
	var usage syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &usage) != nil {
		return 0
	}
	return seconds64(usage.Utime) + seconds64(usage.Stime)
}

func seconds64(spent syscall.Timeval) float64 {
	return float64(spent.Sec) + float64(spent.Usec)/1e6
}

// percentile is in microseconds; 0 of none. It sorts what it is given.
func percentile(latencies []time.Duration, share float64) float64 {
	if len(latencies) == 0 {
		return 0
	}
	sort.Slice(latencies, func(i, j int) bool { return latencies[i] < latencies[j] })
	return float64(latencies[int(share*float64(len(latencies)-1))].Nanoseconds()) / 1e3
}
