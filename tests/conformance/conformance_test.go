package conformance_test

import (
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	gatewayv1alpha2 "sigs.k8s.io/gateway-api/apis/v1alpha2"
	gatewayv1alpha3 "sigs.k8s.io/gateway-api/apis/v1alpha3"
	apisxv1alpha1 "sigs.k8s.io/gateway-api/apisx/v1alpha1"
	"sigs.k8s.io/gateway-api/conformance"
	confv1 "sigs.k8s.io/gateway-api/conformance/apis/v1"
	"sigs.k8s.io/gateway-api/conformance/utils/config"
	"sigs.k8s.io/gateway-api/conformance/utils/flags"
	"sigs.k8s.io/gateway-api/conformance/utils/suite"
	gatewayclient "sigs.k8s.io/gateway-api/pkg/client/clientset/versioned"

	"github.com/sluice-proxy/sluice/tests/kube"
)

var (
	shortTimeouts = flag.Bool("short-timeouts", false, "tell after seconds what fails, not after minutes")
	reportFile    = flag.String("report", "", "write the suite's report to this `file`; relative to the repository")
	version       = flag.String("sluice-version", "devel", "the version of sluice in the report")
)

// Programs of pods.
const (
	echoBasic = "sigs.k8s.io/gateway-api/conformance/echo-basic"
	whoami    = "./whoami"
)

func TestMain(m *testing.M) { kube.Main(m, "sluice", echoBasic, whoami) }

// Addresses of the router: what Gateways may be given, one of them that a Gateway may ask
// for, and one that nobody can have.
const (
	gatewayAddresses = "10.200.1.0/24"
	usableAddress    = "10.200.1.250"
	unusableAddress  = "192.0.2.1"
)

// TestConformance is the suite.
func TestConformance(t *testing.T) {
	c := kube.Start(t, kube.Options{Images: map[string]kube.Image{
		"gateway-api/echo-basic": {Files: map[string]string{"/echo-basic": kube.Program(t, echoBasic)}, Entrypoint: []string{"/echo-basic"}, Listens: true},
		"coredns/coredns":        {Files: map[string]string{"/coredns": kube.Program(t, whoami)}, Entrypoint: []string{"/coredns"}, Listens: true},
	}})
	installCRDs(t, c)
	if err := c.Apply(t.Context(), "{apiVersion: v1, kind: Namespace, metadata: {name: "+ownNamespace+"}}"); err != nil {
		t.Fatal(err)
	}
	applyFile(t, c, filepath.Join(kube.Root(), "tests/deploy/testdata/gateway/golden.yaml"), "Deployment")
	startSluice(t, c)
	awaitClass(t, c)
	conformance.RunConformanceWithOptions(t, options(t, c))
}

// installCRDs installs the CRDs of the module that the suite comes from.
func installCRDs(t *testing.T, c *kube.Cluster) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(moduleFolder(t, "sigs.k8s.io/gateway-api"), "config/crd/experimental/gateway.*.yaml"))
	if err != nil || len(names) == 0 {
		t.Fatalf("no CRDs: %v, %v", names, err)
	}
	for _, name := range names {
		applyFile(t, c, name)
	}
	kube.Eventually(t, "the Gateway API is served", func() error {
		list, err := c.Client.Discovery().ServerResourcesForGroupVersion(gatewayv1.GroupVersion.String())
		if err == nil && !slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Name == "listenersets" }) {
			err = fmt.Errorf("resources: %v", list.APIResources)
		}
		return err
	})
}

// applyFile applies the objects of a file, without those of some kinds.
func applyFile(t *testing.T, c *kube.Cluster, file string, without ...string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var kept []string
	for _, object := range strings.Split("\n"+string(text), "\n---\n") {
		if !slices.ContainsFunc(without, func(kind string) bool { return strings.Contains("\n"+object, "\nkind: "+kind+"\n") }) {
			kept = append(kept, object)
		}
	}
	if err := c.Apply(t.Context(), strings.Join(kept, "\n---\n")); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
}

// className is that of the chart.
const className = "sluice"

// awaitClass waits for the features that the class claims: the suite asks for no others.
func awaitClass(t *testing.T, c *kube.Cluster) {
	t.Helper()
	api, err := gatewayclient.NewForConfig(c.Admin)
	if err != nil {
		t.Fatal(err)
	}
	kube.Eventually(t, "the GatewayClass says which features there are", func() error {
		class, err := api.GatewayV1().GatewayClasses().Get(t.Context(), className, metav1.GetOptions{})
		if err == nil && len(class.Status.SupportedFeatures) == 0 {
			err = fmt.Errorf("status: %+v", class.Status)
		}
		return err
	})
}

// profiles are all that concern gateways.
func profiles() []suite.ConformanceProfileName {
	return []suite.ConformanceProfileName{
		suite.GatewayHTTPConformanceProfileName, suite.GatewayGRPCConformanceProfileName, suite.GatewayTLSConformanceProfileName,
		suite.GatewayTCPConformanceProfileName, suite.GatewayUDPConformanceProfileName,
	}
}

// options are those of the suite, with what its flags say.
func options(t *testing.T, c *kube.Cluster) suite.ConformanceOptions {
	t.Helper()
	log.SetLogger(logr.Discard())
	api, err := client.New(c.Admin, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, install := range installers() {
		if err := install(api.Scheme()); err != nil {
			t.Fatal(err)
		}
	}
	configurable := suite.ConfigurableOptions{
		GatewayClassName: className, ConformanceProfiles: profiles(), TimeoutConfig: config.DefaultTimeoutConfig(),
		CleanupTestResources:     true, // the base resources end with the cluster
		UsableNetworkAddresses:   addresses(usableAddress),
		UnusableNetworkAddresses: addresses(unusableAddress),
		Implementation: confv1.Implementation{
			Organization: "sluice-proxy", Project: "sluice", URL: "https://github.com/sluice-proxy/sluice",
			Version: *version, Contact: []string{"https://github.com/sluice-proxy/sluice/issues"},
		},
	}
	if *shortTimeouts {
		shorten(&configurable.TimeoutConfig)
	}
	if *reportFile != "" {
		configurable.ReportOutputPath = filepath.Join(kube.Root(), *reportFile)
		if err := os.MkdirAll(filepath.Dir(configurable.ReportOutputPath), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	flags.ApplyAll(&configurable)
	return suite.ConformanceOptions{
		ConfigurableOptions: configurable, Client: api, Clientset: c.Client, RestConfig: c.Admin, ManifestFS: []fs.FS{&conformance.Manifests},
	}
}

// installers add to the scheme of the suite's client what its own DefaultOptions adds.
func installers() []func(*runtime.Scheme) error {
	return []func(*runtime.Scheme) error{
		gatewayv1alpha3.Install, gatewayv1alpha2.Install, apisxv1alpha1.Install, gatewayv1.Install, apiextensionsv1.AddToScheme,
	}
}

func addresses(ip string) []gatewayv1.GatewaySpecAddress {
	kind := gatewayv1.IPAddressType
	return []gatewayv1.GatewaySpecAddress{{Type: &kind, Value: ip}}
}

// shorten bounds what a test that fails waits for.
func shorten(c *config.TimeoutConfig) {
	const wait = 20 * time.Second // tests that run together share namespaces, and wait for grants of others to go
	for _, d := range []*time.Duration{
		&c.GatewayMustHaveAddress, &c.GatewayMustHaveCondition, &c.GatewayStatusMustHaveListeners, &c.GatewayListenersMustHaveConditions,
		&c.ListenerSetMustHaveCondition, &c.ListenerSetListenersMustHaveConditions, &c.GWCMustBeAccepted,
		&c.HTTPRouteMustNotHaveParents, &c.HTTPRouteMustHaveCondition, &c.TLSRouteMustHaveCondition, &c.TCPRouteMustHaveCondition,
		&c.UDPRouteMustHaveCondition, &c.RouteMustHaveParents, &c.MaxTimeToConsistency, &c.LatestObservedGenerationSet, &c.DefaultTestTimeout,
	} {
		*d = wait
	}
	c.NamespacesMustBeReady = time.Minute
}
