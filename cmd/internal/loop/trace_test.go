package loop

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-proxy/sluice/pkg/haproxy/model"
	"github.com/sluice-proxy/sluice/pkg/haproxy/process"
)

func TestTrace(t *testing.T) {
	of := func(kind, name string) model.Origin {
		return model.Origin{Kind: kind, Namespace: "ns", Name: name}
	}
	global := model.Origin{Kind: "ConfigMap", Namespace: "sluice-system", Name: "sluice"}
	shared := model.NewProfile(model.Shape{Redirect: 301})
	m := &model.Model{
		Userlists:    []*model.Userlist{{Name: "users_1", Origin: of("Secret", "users")}},
		Certificates: []*model.Certificate{{Name: "c0ffee.pem", Origin: of("Secret", "tls")}},
		Lists:        []*model.List{{Name: "allow_1", Origin: of("Ingress", "c")}},
	}
	m.Backends = m.Backends.With([]*model.Backend{
		(&model.Backend{Name: "ns_a_80", Profile: shared, Origins: []model.Origin{of("Service", "a"), of("Ingress", "a")}}).Seal(),
		(&model.Backend{Name: "ns_b_80", Profile: shared, Origins: []model.Origin{of("Service", "b"), of("Ingress", "a")}}).Seal(),
	}, nil)
	files := map[string]string{
		"conf.d/50-backends-000.cfg": "backend ns_a_80 from web\n    server x\n\nbackend ns_b_80 from web\n    server y\n",
		"conf.d/10-profiles.cfg":     "defaults base-backend\n    mode http\n\ndefaults " + shared.Name + " from base-backend\n    balance nonsense\n\ndefaults web from base-backend\n    x\n",
		"conf.d/15-userlists.cfg":    "userlist users_1\n    user a password b\n",
		"conf.d/20-frontends.cfg":    "frontend http from base-frontend\n    log-format %[\n",
	}
	cases := map[string]struct {
		refusal process.Refusal
		want    []model.Origin
	}{
		"a line of a backend is its Service's and its Ingress's":  {process.Refusal{File: "conf.d/50-backends-000.cfg", Line: 5}, []model.Origin{of("Ingress", "a"), of("Service", "b")}},
		"a header is the section's own":                           {process.Refusal{File: "conf.d/50-backends-000.cfg", Line: 4}, []model.Origin{of("Ingress", "a"), of("Service", "b")}},
		"a line of a profile is everybody's who uses it":          {process.Refusal{File: "conf.d/10-profiles.cfg", Line: 5}, []model.Origin{of("Ingress", "a"), of("Service", "a"), of("Service", "b")}},
		"the default profile is the global ConfigMap's":           {process.Refusal{File: "conf.d/10-profiles.cfg", Line: 8}, []model.Origin{global}},
		"so is a frontend":                                        {process.Refusal{File: "conf.d/20-frontends.cfg", Line: 2}, []model.Origin{global}},
		"a line of a list of users is the Secret's":               {process.Refusal{File: "conf.d/15-userlists.cfg", Line: 2}, []model.Origin{of("Secret", "users")}},
		"a section that is only named":                            {process.Refusal{Section: "backend ns_a_80"}, []model.Origin{of("Ingress", "a"), of("Service", "a")}},
		"a proxy is a backend":                                    {process.Refusal{Section: "proxy ns_a_80"}, []model.Origin{of("Ingress", "a"), of("Service", "a")}},
		"a certificate that is only named":                        {process.Refusal{Message: "unable to load 'certs/c0ffee.pem'"}, []model.Origin{of("Secret", "tls")}},
		"a list that is only named":                               {process.Refusal{Message: "in file lists/allow_1.lst line 3"}, []model.Origin{of("Ingress", "c")}},
		"an alert without a place is nobody's":                    {process.Refusal{Message: "out of memory"}, nil},
		"a file that is not known and a line that is not are not": {process.Refusal{File: "conf.d/99.cfg", Line: 7}, nil},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			content := func(path string) []byte {
				if text, ok := files[path]; ok {
					return []byte(text)
				}
				return nil
			}
			got := refused{&c.refusal, content, m, global}.trace()
			if diff := cmp.Diff(c.want, got); diff != "" && len(c.want)+len(got) > 0 {
				t.Error(diff)
			}
		})
	}
}
