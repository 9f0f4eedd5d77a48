package writer

import (
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"
)

// How long a lease holds, how long its holder tries to renew it before it gives up, and the
// pause between two tries: those of Kubernetes' own controllers.
const (
	leaseDuration = 15 * time.Second
	renewDeadline = 10 * time.Second
	retryPeriod   = 2 * time.Second
)

// stand takes part in elections until ctx ends. Who loses the lease takes part in the next.
func (c *Cluster) stand(ctx context.Context) error {
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: lease{
			Interface: &resourcelock.LeaseLock{
				LeaseMeta:  metav1.ObjectMeta{Namespace: c.Namespace, Name: c.Name},
				Client:     c.Client.CoordinationV1(),
				LockConfig: resourcelock.ResourceLockConfig{Identity: c.Identity},
			},
			cluster: c,
		},
		Name:            c.Name,
		LeaseDuration:   leaseDuration,
		RenewDeadline:   renewDeadline,
		RetryPeriod:     retryPeriod,
		ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(ctx context.Context) {
				c.Log.Info("this replica leads: it writes statuses and Events")
				c.lead(ctx)
			},
			OnStoppedLeading: func() {
				if c.Leads() {
					c.Log.Info("this replica does not lead any more")
				}
				c.follow()
			},
			OnNewLeader: func(identity string) {
				if identity != c.Identity {
					c.Log.Info("another replica leads", "leader", identity)
				}
			},
		},
	})
	if err != nil {
		return fmt.Errorf("leader election: %w", err)
	}
	// What there is to say is said above and by the lease, once.
	ctx = klog.NewContext(ctx, logr.Discard())
	for ctx.Err() == nil {
		elector.Run(ctx)
	}
	return nil
}

// lease says in the log, once, why the lease can't be had or kept.
type lease struct {
	resourcelock.Interface
	cluster *Cluster
}

// Get implements resourcelock.Interface, as the other methods do.
func (l lease) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record, raw, err := l.Interface.Get(ctx)
	return record, raw, l.watch(ctx, "get", err)
}

// Create makes the lease; another replica may be faster.
func (l lease) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.watch(ctx, "create", l.Interface.Create(ctx, record))
}

// Update takes or renews the lease; another replica may be faster.
func (l lease) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.watch(ctx, "update", l.Interface.Update(ctx, record))
}

func (l lease) watch(ctx context.Context, verb string, err error) error {
	forbidden := "the role of the controller does not permit to take part in the election of a leader; it is tried again: permit verb " + verb + " on leases of coordination.k8s.io"
	failing := "the lease of the leader can't be had; it is tried again: verb " + verb
	switch {
	case err == nil:
		l.cluster.cured(forbidden)
		l.cluster.cured(failing)
	case ctx.Err() != nil, apierrors.IsNotFound(err), apierrors.IsAlreadyExists(err), apierrors.IsConflict(err):
	case apierrors.IsForbidden(err):
		l.cluster.complain(forbidden, "lease", l.Describe(), "error", err)
	default:
		l.cluster.complain(failing, "lease", l.Describe(), "error", err)
	}
	return err
}
