package writer

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/client-go/util/workqueue"

	"github.com/sluice-proxy/sluice/pkg/converters/report"
	"github.com/sluice-proxy/sluice/pkg/converters/status"
)

// Events are sent slower than statuses are written: these matter more.
const (
	eventsPerSecond = 20
	eventsAtOnce    = 50
	sendTimeout     = 10 * time.Second
)

const kindEvent = "Event"

// component is who sends Events.
const component = "sluice"

// eventsForbidden is the complaint about a permission that is missing.
func eventsForbidden(namespace string) string {
	return "the role of the controller does not permit to send Events; findings stand in the log and on the admin address; it is tried again: " +
		"permit verb create on events in namespace " + namespace
}

// events sends an Event for each finding that appears while this replica leads, and for
// those it finds when it begins to lead.
type events struct {
	cluster *Cluster
	queue   workqueue.TypedRateLimitingInterface[status.Notice]

	mu    sync.Mutex
	leads bool
	told  map[status.Notice]bool // those in force, and whether their Event is there
}

func newEvents(c *Cluster) *events {
	retries := workqueue.NewTypedItemExponentialFailureRateLimiter[status.Notice](firstRetry, lastRetry)
	return &events{cluster: c, queue: workqueue.NewTypedRateLimitingQueue(retries), told: map[status.Notice]bool{}}
}

// notice takes over all findings in force. Those that are only worth knowing make no Event.
func (e *events) notice(notices []status.Notice) {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := make(map[status.Notice]bool, len(notices))
	for _, n := range notices {
		if n.Severity() == report.Info || n.APIVersion == "" {
			continue
		}
		told, known := e.told[n]
		now[n] = told
		if !known && e.leads {
			e.queue.Add(n)
		}
	}
	e.told = now
}

// lead begins or ends leadership.
func (e *events) lead(leads bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.leads = leads
	if !leads {
		return
	}
	for n, told := range e.told {
		if !told {
			e.queue.Add(n)
		}
	}
}

// due tells whether an Event is still to be sent.
func (e *events) due(n status.Notice) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	told, inForce := e.told[n]
	return inForce && !told && e.leads
}

// settle notes that an Event needs no sending any more.
func (e *events) settle(n status.Notice) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if _, inForce := e.told[n]; inForce {
		e.told[n] = true
	}
	e.queue.Forget(n)
}

// run sends Events until ctx ends.
func (e *events) run(ctx context.Context) error {
	context.AfterFunc(ctx, e.queue.ShutDown)
	limiter := flowcontrol.NewTokenBucketRateLimiter(eventsPerSecond, eventsAtOnce)
	for {
		n, shutDown := e.queue.Get()
		if shutDown {
			return nil
		}
		if !e.due(n) {
			e.queue.Forget(n)
		} else if limiter.Wait(ctx) == nil && e.due(n) {
			event := eventOf(n)
			e.sent(ctx, n, event, e.send(ctx, event))
		}
		e.queue.Done(n)
	}
}

// send creates an Event.
func (e *events) send(ctx context.Context, event *corev1.Event) error {
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	_, err := e.cluster.Client.CoreV1().Events(event.Namespace).Create(ctx, event, metav1.CreateOptions{FieldManager: component})
	if apierrors.IsAlreadyExists(err) {
		return nil // a former leader sent it
	}
	return err
}

// sent looks at what became of an Event: what may get better is tried again.
func (e *events) sent(ctx context.Context, n status.Notice, event *corev1.Event, err error) {
	c, forbidden := e.cluster, eventsForbidden(event.Namespace)
	switch {
	case err == nil:
		c.Metrics.wrote(kindEvent, resultOK)
		c.cured(forbidden)
		e.settle(n)
	case ctx.Err() != nil:
	case apierrors.IsNotFound(err), apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		c.Metrics.wrote(kindEvent, resultGone) // the namespace, and the object with it
		e.settle(n)
	case apierrors.IsInvalid(err):
		c.Metrics.wrote(kindEvent, resultError)
		c.Log.Error("the API server does not take an Event; it is not sent", "object", n.Object, "error", err)
		e.settle(n)
	case apierrors.IsForbidden(err):
		c.Metrics.wrote(kindEvent, resultForbidden)
		c.complain(forbidden, "error", err)
		e.queue.AddRateLimited(n)
	default:
		c.Metrics.wrote(kindEvent, resultError)
		c.Log.Warn("an Event was not sent; it is tried again", "object", n.Object, "error", err)
		e.queue.AddRateLimited(n)
	}
}

// eventOf is what is said of a finding.
func eventOf(n status.Notice) *corev1.Event {
	now := metav1.Now()
	event := &corev1.Event{
		// What is said of objects without a namespace stands in the default one.
		ObjectMeta: metav1.ObjectMeta{Namespace: cmp.Or(n.Object.Namespace, metav1.NamespaceDefault)},
		InvolvedObject: corev1.ObjectReference{
			APIVersion: n.APIVersion, Kind: n.Object.Kind, Namespace: n.Object.Namespace, Name: n.Object.Name, UID: n.UID, FieldPath: n.Object.Field,
		},
		Type: corev1.EventTypeWarning, Reason: string(n.Code), Message: truncated(n.Message),
		FirstTimestamp: now, LastTimestamp: now, Count: 1,
		Source: corev1.EventSource{Component: component}, ReportingController: component,
	}
	event.Name = eventName(event)
	return event
}

// truncated is a message as the API server takes it.
func truncated(message string) string {
	const limit = 1024
	if len(message) <= limit {
		return message
	}
	return strings.ToValidUTF8(message[:limit-3], "") + "..."
}

// eventName is the same for all replicas and restarts as long as the object is the same one.
func eventName(event *corev1.Event) string {
	o := event.InvolvedObject
	sum := sha256.Sum256([]byte(strings.Join([]string{o.Kind, string(o.UID), o.FieldPath, event.Reason, event.Message}, "\x00")))
	const limit = 253 - 1 - 16 // of a name, less the digest
	return strings.TrimRight(o.Name[:min(len(o.Name), limit)], "-.") + "." + hex.EncodeToString(sum[:8])
}
