package gateway

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// maxMessage bounds the message of a condition; the API allows 32 768 bytes.
const maxMessage = 1024

// condition is a condition without its time, which the writer sets.
func condition[K, R ~string](kind K, status metav1.ConditionStatus, reason R, message string) metav1.Condition {
	if len(message) > maxMessage {
		message = strings.ToValidUTF8(message[:maxMessage-3], "") + "..."
	}
	return metav1.Condition{Type: string(kind), Status: status, Reason: string(reason), Message: message}
}

// put adds a condition, in place of one of its type.
func put(list []metav1.Condition, c metav1.Condition) []metav1.Condition {
	for i := range list {
		if list[i].Type == c.Type {
			list[i] = c
			return list
		}
	}
	return append(list, c)
}

// holds tells whether a condition of the type is True.
func holds[K ~string](list []metav1.Condition, kind K) bool {
	for i := range list {
		if list[i].Type == string(kind) {
			return list[i].Status == metav1.ConditionTrue
		}
	}
	return false
}

// observed puts the generation that was read into all conditions.
func observed(list []metav1.Condition, generation int64) {
	for i := range list {
		list[i].ObservedGeneration = generation
	}
}

// problem is why something is not as its author asked for: what a condition says of it.
type problem struct {
	reason  string
	message string
}

func problemOf[R ~string](reason R, format string, args ...any) *problem {
	return &problem{reason: string(reason), message: fmt.Sprintf(format, args...)}
}
