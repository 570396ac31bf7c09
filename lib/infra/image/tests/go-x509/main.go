// Prints what crypto/x509 says of certificate chains: one line each, "ok" or the error.
package main

import (
	"crypto/x509"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"
)

// A chain as a server sends it, and who is to believe it.
type question struct {
	Name  string   `json:"name"`
	Host  string   `json:"host"`
	Now   int64    `json:"now"`
	Roots [][]byte `json:"roots"`
	Chain [][]byte `json:"chain"`
}

func (q question) verdict() error {
	pool := func(certificates [][]byte) (*x509.CertPool, error) {
		pool := x509.NewCertPool()
		for _, der := range certificates {
			certificate, err := x509.ParseCertificate(der)
			if err != nil {
				return nil, err
			}
			pool.AddCert(certificate)
		}
		return pool, nil
	}
	leaf, err := x509.ParseCertificate(q.Chain[0])
	if err != nil {
		return err
	}
	roots, err := pool(q.Roots)
	if err != nil {
		return err
	}
	intermediates, err := pool(q.Chain[1:])
	if err != nil {
		return err
	}
	// As crypto/tls does it for a client.
	_, err = leaf.Verify(x509.VerifyOptions{
		DNSName:       q.Host,
		Roots:         roots,
		Intermediates: intermediates,
		CurrentTime:   time.Unix(q.Now, 0),
	})
	return err
}

func main() {
	var questions []question
	if err := json.NewDecoder(os.Stdin).Decode(&questions); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	for _, q := range questions {
		if err := q.verdict(); err != nil {
			fmt.Println(strings.ReplaceAll(err.Error(), "\n", " "))
		} else {
			fmt.Println("ok")
		}
	}
}
