package main

import (
	"fmt"
	"net"
	"strconv"

	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/sluice-proxy/sluice/pkg/converters/source/files"
)

// podsOf are the addresses of all EndpointSlices in the manifests, each as NAME=ADDRESS
// with the name of its Service.
func podsOf(manifests []string) ([]string, error) {
	if len(manifests) == 0 {
		return nil, nil
	}
	content, err := files.Read(manifests, nil)
	if err != nil {
		return nil, fmt.Errorf("--pods-of: %w", err)
	}
	var pods []string
	seen := map[string]bool{}
	for _, change := range content.Changes {
		slice, ok := change.Object.(*discoveryv1.EndpointSlice)
		if !ok {
			continue
		}
		for _, address := range addresses(slice) {
			if !seen[address] {
				pods = append(pods, slice.Labels[discoveryv1.LabelServiceName]+"="+address)
			}
			seen[address] = true
		}
	}
	return pods, nil
}

func addresses(slice *discoveryv1.EndpointSlice) []string {
	var list []string
	for _, endpoint := range slice.Endpoints {
		for _, port := range slice.Ports {
			if len(endpoint.Addresses) > 0 && port.Port != nil {
				list = append(list, net.JoinHostPort(endpoint.Addresses[0], strconv.Itoa(int(*port.Port))))
			}
		}
	}
	return list
}
