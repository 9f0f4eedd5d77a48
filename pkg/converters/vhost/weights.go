package vhost

import (
	"strconv"

	"github.com/sluice-proxy/sluice/pkg/haproxy/model"
)

// maxSlots bounds a weighted set: shares are exact to a thousandth.
const maxSlots = 1000

// action is what stands for a rule's backends: the name of the only one, or a weighted set.
func (c *compiler) action(targets []Target) string {
	action, entries := Weighted(c.id, targets)
	for key, value := range entries {
		c.out.Weights[key] = value
	}
	return action
}

// Weighted is what stands in a map for backends with weights: the name of the only one, or the
// id of a weighted set, with the entries of the table of weights that it needs. The scope
// makes the id one of its own.
func Weighted(scope string, targets []Target) (action string, entries map[string]string) {
	var used []Target
	for _, t := range targets {
		if t.Weight > 0 {
			used = append(used, t)
		}
	}
	switch len(used) {
	case 0:
		return targets[0].action(), nil // all weights are 0: the converter left one that refuses
	case 1:
		return used[0].action(), nil
	}
	h := model.NewHasher().Str(scope)
	for _, t := range used {
		h.Str(t.action()).Int(int64(t.Weight))
	}
	id := "=" + h.Digest().String()[:digits]
	entries = map[string]string{}
	n := 0
	for i, slots := range shares(used) {
		for range slots {
			entries[id+"/"+strconv.Itoa(n)] = used[i].action()
			n++
		}
	}
	entries[id] = strconv.Itoa(n)
	return id, entries
}

// shares are the numbers of slots of each target.
func shares(targets []Target) []int {
	sum, divisor := 0, 0
	for _, t := range targets {
		sum += t.Weight
		divisor = gcd(divisor, t.Weight)
	}
	slots := make([]int, len(targets))
	if sum/divisor <= maxSlots {
		for i, t := range targets {
			slots[i] = t.Weight / divisor
		}
		return slots
	}
	// Each gets its share rounded up to at least one. The largest one makes up for what is
	// too much or too little: it notices least.
	left, largest := maxSlots, 0
	for i, t := range targets {
		slots[i] = max(1, (t.Weight*maxSlots+sum/2)/sum)
		left -= slots[i]
		if t.Weight > targets[largest].Weight {
			largest = i
		}
	}
	slots[largest] += left
	return slots
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
