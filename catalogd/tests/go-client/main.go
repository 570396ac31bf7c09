// Fetches an address as Go programs do, without a word about compression, and prints what came.
package main

import (
	"io"
	"log"
	"net/http"
	"os"
)

func main() {
	answer, err := http.Get(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK || !answer.Uncompressed {
		log.Fatalf("status %s, uncompressed on the way: %t", answer.Status, answer.Uncompressed)
	}
	if _, err := io.Copy(os.Stdout, answer.Body); err != nil {
		log.Fatal(err)
	}
}
