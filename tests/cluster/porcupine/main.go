// Judges histories of one group with Porcupine, as a second opinion on tests/history_checker.py.
//
// It reads a JSON list of histories from standard input and prints a JSON list of verdicts: "Ok",
// "Illegal", or "Unknown" if one took too long. The rules of a group are written here once more.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/anishathalye/porcupine"
)

const (
	never      = -1 // No time, no revision, no epoch, no offset: of what nobody has seen.
	partitions = 4
	timeLimit  = 20 * time.Second
)

type offset struct{ Partition, Value, Revision int64 }

type condition struct {
	Partition        int
	Offset, Revision *int64
}

type input struct {
	Kind      string
	Values    []offset // Without revisions.
	Condition *condition
	Epoch     *int64
	Holder    string
	Force     bool
}

type output struct {
	Kind        string
	Revision    *int64 // Of a deletion of nothing: nil.
	Count       int
	Offsets     []offset
	Reason      string
	Holder      string
	HolderEpoch *int64 `json:"holder_epoch"`
	Stored      *offset
}

type operation struct {
	Client   int
	Called   int64
	Answered int64 // never: it was not answered.
	Call     input
	Outcome  *output
}

// What is stored for a partition. The zero value: nothing.
type stored struct {
	IsThere         bool
	Value, Revision int64
}

type state struct {
	Offsets  [partitions]stored
	IsHeld   bool
	Holder   string
	Epoch    int64
	Revision int64 // The newest one that is known.
}

// What is known of writes that were not answered, from those who have seen their effects.
type seen struct {
	revisions map[int64]int64  // By value.
	epochs    map[string]int64 // By holder.
}

func main() {
	var histories [][]operation
	if err := json.NewDecoder(os.Stdin).Decode(&histories); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	verdicts := make([]porcupine.CheckResult, len(histories))
	for number, history := range histories {
		verdicts[number] = porcupine.CheckOperationsTimeout(model(), converted(history), timeLimit)
	}
	if err := json.NewEncoder(os.Stdout).Encode(verdicts); err != nil {
		os.Exit(1)
	}
}

func model() porcupine.Model {
	return porcupine.Model{
		Init: func() interface{} { return state{Revision: never} },
		Step: func(before, in, out interface{}) (bool, interface{}) {
			return step(before.(state), in.(input), out.(output))
		},
	}
}

// An unanswered operation may take place at any time, so its return is behind all others. There it
// has no effect that anybody sees.
func converted(history []operation) []porcupine.Operation {
	var last int64
	for _, each := range history {
		last = max(last, each.Called, each.Answered)
	}
	known := whatWasSeen(history)
	var operations []porcupine.Operation
	for _, each := range history {
		if each.Outcome == nil && each.Call.Kind == "Fetch" {
			continue
		}
		returned, outcome := each.Answered, each.Outcome
		if outcome == nil {
			returned, outcome = last+1, known.outcome(each.Call)
		}
		operations = append(operations, porcupine.Operation{
			ClientId: each.Client, Input: each.Call, Call: each.Called, Output: *outcome, Return: returned,
		})
	}
	return operations
}

func whatWasSeen(history []operation) seen {
	known := seen{map[int64]int64{}, map[string]int64{}}
	for _, each := range history {
		if each.Outcome == nil {
			continue
		}
		for _, one := range each.Outcome.Offsets {
			known.revisions[one.Value] = one.Revision
		}
		if one := each.Outcome.Stored; one != nil {
			known.revisions[one.Value] = one.Revision
		}
		if each.Outcome.HolderEpoch != nil {
			known.epochs[each.Outcome.Holder] = *each.Outcome.HolderEpoch
		}
	}
	return known
}

// The outcome of an unanswered write whose effect was seen; else one of the kind "Unseen".
func (known seen) outcome(call input) *output {
	if epoch, ok := known.epochs[call.Holder]; ok && call.Kind == "Acquire" {
		return &output{Kind: "Written", Revision: &epoch}
	}
	if call.Kind == "Commit" {
		for index, each := range call.Values {
			if revision, ok := known.revisions[each.Value]; ok {
				last := revision + int64(len(call.Values)-1-index)
				return &output{Kind: "Written", Revision: &last}
			}
		}
	}
	return &output{Kind: "Unseen"}
}

// Whether the call can have this outcome in a state, and the state after it.
func step(before state, call input, outcome output) (bool, state) {
	revision := int64(never)
	if outcome.Revision != nil {
		revision = *outcome.Revision
		if revision-count(call) < before.Revision {
			return false, before
		}
	}
	after, expected := decide(before, call, revision)
	if outcome.Kind == "Unseen" {
		after.Revision = before.Revision
		return true, after
	}
	return same(expected, outcome), after
}

func count(call input) int64 {
	if call.Kind == "Commit" {
		return int64(len(call.Values))
	}
	return 1
}
