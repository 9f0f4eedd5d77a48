package main

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"strconv"
	"time"
)

// answer is the body of every response.
type answer struct {
	Service string      `json:"service"`
	Pod     string      `json:"pod"` // its address
	Method  string      `json:"method"`
	Path    string      `json:"path"` // as it arrived, with the query
	Host    string      `json:"host"`
	Proto   string      `json:"proto"`
	TLS     bool        `json:"tls"`
	SNI     string      `json:"sni,omitempty"`
	Body    int64       `json:"body"` // bytes
	Headers http.Header `json:"headers"`
}

// echo is the handler of one pod.
func echo(service, pod string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		size, err := io.Copy(io.Discard, r.Body)
		if err != nil {
			return // the client went away
		}
		a := answer{Service: service, Pod: pod, Method: r.Method, Path: r.RequestURI, Host: r.Host, Proto: r.Proto, Body: size, Headers: r.Header}
		if r.TLS != nil {
			a.TLS, a.SNI = true, r.TLS.ServerName
		}
		query := r.URL.Query()
		if delay, err := time.ParseDuration(query.Get("delay")); err == nil {
			select {
			case <-time.After(delay):
			case <-r.Context().Done():
				return
			}
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("X-Echo-Service", service)
		if status, err := strconv.Atoi(query.Get("status")); err == nil && status >= 200 && status <= 599 {
			w.WriteHeader(status)
		}
		if n, err := strconv.Atoi(query.Get("size")); err == nil && n >= 0 && n <= 1<<30 {
			_, _ = io.CopyN(w, zeros{}, int64(n))
			return
		}
		text, err := json.MarshalIndent(a, "", "  ")
		if err != nil {
			panic(err) // strings and numbers only
		}
		_, _ = io.Copy(w, bytes.NewReader(append(text, '\n')))
	})
}

// zeros is an endless source of the digit 0.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = '0'
	}
	return len(p), nil
}

// selfSigned is a TLS configuration with a certificate that nobody trusts.
func selfSigned() (*tls.Config, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("making a key: %w", err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		DNSNames:     []string{"echo.invalid"},
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(24 * time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("signing a certificate: %w", err)
	}
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}, NextProtos: []string{"h2", "http/1.1"}}, nil
}
