package cluster

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/discovery"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/sluice-proxy/sluice/pkg/converters/report"
	"github.com/sluice-proxy/sluice/pkg/converters/snapshot"
)

// confirmations is how often in a row an API group must be missing before its kinds are
// given up: an API server that starts doesn't know its CRDs yet.
const confirmations = 3

// found is what is known of the kinds that a cluster may lack.
type found struct {
	done    bool  // it is known what there is at start
	failure error // of the last question

	answered bool // a question was
	refusals int  // since then, in a row
}

// discover looks again and again for the kinds that a cluster may lack, and has them
// followed as long as they are served, until ctx ends.
func (s *Source) discover(ctx context.Context) {
	pace := time.NewTimer(0)
	defer pace.Stop()
	pause := s.pace.discoveries()
	for {
		select {
		case <-ctx.Done():
			return
		case <-pace.C:
		}
		served, err := s.askServed(ctx)
		if ctx.Err() != nil {
			return
		}
		for _, w := range s.compare(served, err) {
			w.forget()
		}
		pace.Reset(pause(err))
	}
}

// discoveries are the pauses between the questions what is served, each by what became of the
// last one. What fails is asked again soon, then ever later; a role does not change so soon.
func (p pace) discoveries() func(err error) time.Duration {
	backoff := p.backoff
	return func(err error) time.Duration {
		if err == nil || apierrors.IsForbidden(err) {
			backoff = p.backoff
			return p.discover
		}
		return backoff.Step()
	}
}

// askServed are the resources of the Gateway API's version that sluice reads.
func (s *Source) askServed(ctx context.Context) (map[string]bool, error) {
	ctx, cancel := context.WithTimeout(ctx, s.pace.get)
	defer cancel()
	served := map[string]bool{}
	client := discovery.ToDiscoveryInterfaceWithContext(s.config.Kubernetes.Discovery())
	list, err := client.ServerResourcesForGroupVersionWithContext(ctx, gatewayv1.GroupVersion.String())
	if apierrors.IsNotFound(err) {
		return served, nil
	}
	if err != nil {
		return nil, err
	}
	for i := range list.APIResources {
		served[list.APIResources[i].Name] = true
	}
	return served, nil
}

// compare has what is served followed from now on, and returns what is no more.
func (s *Source) compare(served map[string]bool, err error) (gone []*watched) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.found.failure = err
	defer s.restate()
	if err != nil {
		if apierrors.IsForbidden(err) {
			s.found.refusals++
		}
		// Without the right to ask there is no Gateway API; a finding says so.
		s.found.done = s.found.done || apierrors.IsForbidden(err)
		return nil
	}
	s.found.done, s.found.answered, s.found.refusals = true, true, 0
	for _, w := range s.watches {
		switch {
		case w.kind.needs == "":
		case served[w.kind.needs]:
			w.missing = 0
			w.wake()
		case w.awake():
			if w.missing++; w.missing >= confirmations {
				gone = append(gone, w)
			}
		}
	}
	s.poke()
	return gone
}

// deniedDiscovery is the finding about the missing right to ask what is served.
func deniedDiscovery() report.Finding {
	return denied(snapshot.GatewayClass, "", "sluice may not ask the API server which resources of "+gatewayv1.GroupName+
		" it serves; bind its service account to the ClusterRole system:discovery; meanwhile there are none")
}
