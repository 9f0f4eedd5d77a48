package admin

import (
	"net/http/httptest"
	"strings"
	"testing"
)

func TestStateHasNoNull(t *testing.T) {
	s := &Server{Metrics: NewMetrics()}
	for sentence, publish := range map[string]func(){
		"before anything was published": func() {},
		"without findings":              func() { s.Publish(&Status{Ready: true}) },
	} {
		publish()
		recorder := httptest.NewRecorder()
		s.Handler().ServeHTTP(recorder, httptest.NewRequest("GET", "/api/v1/state", nil))
		if body := recorder.Body.String(); recorder.Code != 200 || strings.Contains(body, "null") || !strings.Contains(body, `"findings": []`) {
			t.Errorf("%s: %d %s", sentence, recorder.Code, body)
		}
	}
}
