package writer

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"sync"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"

	"github.com/sluice-proxy/sluice/pkg/converters/report"
	"github.com/sluice-proxy/sluice/pkg/converters/status"
)

// Events are sent slower than statuses are written: the recorder drops what it can't hold.
const (
	eventsPerSecond = 20
	eventsAtOnce    = 50
)

const kindEvent = "Event"

const eventsForbidden = "the role of the controller does not permit to send Events; findings stand in the log and on the admin address: permit verbs create and patch on events"

// events sends an Event for each finding that appears while this replica leads, and for
// those it finds when it begins to lead.
type events struct {
	cluster *Cluster
	queue   workqueue.TypedInterface[status.Notice]

	mu    sync.Mutex
	leads bool
	told  map[status.Notice]bool // those in force, and whether this replica sent their Event
}

func newEvents(c *Cluster) *events {
	return &events{cluster: c, queue: workqueue.NewTyped[status.Notice](), told: map[status.Notice]bool{}}
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

// due tells whether an Event is still to be sent, and takes it for sent.
func (e *events) due(n status.Notice) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	told, inForce := e.told[n]
	if !inForce || told || !e.leads {
		return false
	}
	e.told[n] = true
	return true
}

// run sends Events until ctx ends.
func (e *events) run(ctx context.Context) error {
	context.AfterFunc(ctx, e.queue.ShutDown)
	// What there is to say is said by the sink, once.
	broadcaster := record.NewBroadcaster(record.WithContext(klog.NewContext(ctx, logr.Discard())))
	defer broadcaster.Shutdown()
	broadcaster.StartRecordingToSink(sink{cluster: e.cluster, to: &typedcorev1.EventSinkImpl{Interface: e.cluster.Client.CoreV1().Events("")}})
	recorder := broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: fieldManager})
	limiter := flowcontrol.NewTokenBucketRateLimiter(eventsPerSecond, eventsAtOnce)
	for {
		n, shutDown := e.queue.Get()
		if shutDown {
			return nil
		}
		if limiter.Wait(ctx) == nil && e.due(n) {
			object := &corev1.ObjectReference{
				APIVersion: n.APIVersion, Kind: n.Object.Kind, Namespace: n.Object.Namespace, Name: n.Object.Name, UID: n.UID, FieldPath: n.Object.Field,
			}
			recorder.Event(object, corev1.EventTypeWarning, string(n.Code), truncated(n.Message))
		}
		e.queue.Done(n)
	}
}

// truncated is a message as the API server takes it.
func truncated(message string) string {
	const limit = 1024
	if len(message) <= limit {
		return message
	}
	return strings.ToValidUTF8(message[:limit-3], "") + "..."
}

// sink names Events after what they say and says once what the API server refuses.
type sink struct {
	cluster *Cluster
	to      record.EventSink
}

// Create sends an Event. That it is there already is fine: a former leader sent it.
func (s sink) Create(event *corev1.Event) (*corev1.Event, error) {
	event.Name = eventName(event)
	created, err := s.to.Create(event)
	if apierrors.IsAlreadyExists(err) {
		s.count(nil)
		return event, nil
	}
	return s.checked(created, err, event)
}

// Update is not used by the recorder.
func (s sink) Update(event *corev1.Event) (*corev1.Event, error) { return s.to.Update(event) }

// Patch counts an Event that was sent before.
func (s sink) Patch(event *corev1.Event, data []byte) (*corev1.Event, error) {
	patched, err := s.to.Patch(event, data)
	if apierrors.IsNotFound(err) {
		return patched, err // the recorder creates it anew
	}
	return s.checked(patched, err, event)
}

// checked counts and logs a refusal, after which the recorder drops the Event.
func (s sink) checked(sent *corev1.Event, err error, event *corev1.Event) (*corev1.Event, error) {
	s.count(err)
	switch {
	case err == nil:
		s.cluster.cured(eventsForbidden)
		return sent, nil
	case apierrors.IsForbidden(err):
		s.cluster.complain(eventsForbidden, "error", err)
	default:
		s.cluster.Log.Warn("an Event was not sent", "object", event.InvolvedObject.Kind+"/"+event.InvolvedObject.Namespace+"/"+event.InvolvedObject.Name, "error", err)
	}
	return sent, err
}

func (s sink) count(err error) {
	switch {
	case err == nil:
		s.cluster.Metrics.wrote(kindEvent, resultOK)
	case apierrors.IsForbidden(err):
		s.cluster.Metrics.wrote(kindEvent, resultForbidden)
	default:
		s.cluster.Metrics.wrote(kindEvent, resultError)
	}
}

// eventName is the same for all replicas and restarts as long as the object is the same one.
func eventName(event *corev1.Event) string {
	o := event.InvolvedObject
	sum := sha256.Sum256([]byte(strings.Join([]string{o.Kind, string(o.UID), o.FieldPath, event.Reason, event.Message}, "\x00")))
	const limit = 253 - 1 - 16 // of a name, less the digest
	return strings.TrimRight(o.Name[:min(len(o.Name), limit)], "-.") + "." + hex.EncodeToString(sum[:8])
}
