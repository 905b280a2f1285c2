package main

// What becomes of a group, and the answer. `revision` is that of the last record that is written.
func decide(before state, call input, revision int64) (state, output) {
	switch call.Kind {
	case "Fetch":
		return before, output{Kind: "Fetched", Offsets: listed(before)}
	case "Commit":
		return commit(before, call, revision)
	case "Acquire":
		if before.IsHeld && !call.Force {
			return before, refused("LEASE_HELD", before)
		}
		after := before
		after.IsHeld, after.Holder, after.Epoch, after.Revision = true, call.Holder, revision, revision
		return after, written(revision)
	case "Release":
		if !before.IsHeld || call.Epoch == nil || *call.Epoch != before.Epoch {
			return before, refused("EPOCH_FENCED", before)
		}
		return state{Offsets: before.Offsets, Revision: revision}, written(revision)
	default:
		return remove(before, call, revision)
	}
}

func commit(before state, call input, revision int64) (state, output) {
	if call.Epoch == nil && before.IsHeld {
		return before, refused("LEASE_HELD", before)
	}
	if call.Epoch != nil && (!before.IsHeld || *call.Epoch != before.Epoch) {
		return before, refused("EPOCH_FENCED", before)
	}
	if wanted := call.Condition; wanted != nil {
		found := before.Offsets[wanted.Partition]
		if !holds(wanted, found) {
			answer := output{Kind: "Refused", Reason: "OFFSET_CONFLICT"}
			if found.IsThere {
				answer.Stored = &offset{int64(wanted.Partition), found.Value, found.Revision}
			}
			return before, answer
		}
	}
	after := before
	for index, each := range call.Values {
		if revision == never {
			after.Offsets[each.Partition] = stored{true, never, never}
		} else {
			own := revision - int64(len(call.Values)-1-index)
			after.Offsets[each.Partition] = stored{true, each.Value, own}
		}
	}
	after.Revision = max(revision, before.Revision)
	return after, written(revision)
}

func holds(wanted *condition, found stored) bool {
	switch {
	case wanted.Offset == nil && wanted.Revision == nil:
		return !found.IsThere
	case wanted.Offset != nil:
		return found.IsThere && found.Value == *wanted.Offset
	default:
		return found.IsThere && found.Revision == *wanted.Revision
	}
}

func remove(before state, call input, revision int64) (state, output) {
	if before.IsHeld {
		return before, refused("LEASE_HELD", before)
	}
	if there := len(listed(before)); there > 0 {
		return state{Revision: revision}, output{Kind: "Deleted", Revision: &revision, Count: there}
	}
	if call.Kind == "DeleteGroup" {
		return before, output{Kind: "Refused", Reason: "GROUP_ID_NOT_FOUND"}
	}
	return before, output{Kind: "Deleted"}
}

func written(revision int64) output {
	return output{Kind: "Written", Revision: &revision}
}

func refused(reason string, group state) output {
	answer := output{Kind: "Refused", Reason: reason, Holder: group.Holder}
	if group.IsHeld {
		epoch := group.Epoch
		answer.HolderEpoch = &epoch
	}
	return answer
}

func listed(group state) []offset {
	var offsets []offset
	for partition, each := range group.Offsets {
		if each.IsThere {
			offsets = append(offsets, offset{int64(partition), each.Value, each.Revision})
		}
	}
	return offsets
}

func same(one, other output) bool {
	if one.Kind != other.Kind || one.Count != other.Count || one.Reason != other.Reason ||
		one.Holder != other.Holder || !equal(one.Revision, other.Revision) ||
		!equal(one.HolderEpoch, other.HolderEpoch) || len(one.Offsets) != len(other.Offsets) {
		return false
	}
	for index := range one.Offsets {
		if one.Offsets[index] != other.Offsets[index] {
			return false
		}
	}
	if one.Stored == nil || other.Stored == nil {
		return one.Stored == nil && other.Stored == nil
	}
	return *one.Stored == *other.Stored
}

func equal(one, other *int64) bool {
	if one == nil || other == nil {
		return one == nil && other == nil
	}
	return *one == *other
}
