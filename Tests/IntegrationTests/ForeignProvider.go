// A service for the HTTP/2 provider API on Go's standard library, for tests: it shares no code with
// Carillon. Usage, record and verdicts are those of ForeignProvider.py.
//
// Behaviour (all optional):
//
//	informational   one answer in so many has a 103 in front of it
//	trailers        one refusal in so many ends with trailers
//	goaway          one answer in so many is the last one of its connection
package main

import (
	"bufio"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
)

type counts struct{ accepted, refused int }

var (
	mutex     sync.Mutex
	tokens    = map[string]*counts{}
	sums      = map[string]int{"accepted": 0, "refused": 0, "connections": 0, "violations": 0}
	behaviour map[string]int
	number    int
)

func isTurn(name string, number int) bool { return behaviour[name] > 0 && number%behaviour[name] == 0 }

func answer(writer http.ResponseWriter, request *http.Request) {
	body, failure := io.ReadAll(request.Body)
	var payload map[string]any
	isValid := failure == nil && json.Unmarshal(body, &payload) == nil && payload["aps"] != nil &&
		request.Method == "POST" && request.ProtoMajor == 2 && len(request.Header.Get("apns-id")) == 36 &&
		request.Header.Get("apns-topic") == "com.example.news"
	token := strings.TrimPrefix(request.URL.Path, "/3/device/")
	status, reason := 200, ""
	mutex.Lock()
	number++
	mine := number
	known := tokens[token]
	if known == nil {
		known = &counts{}
		tokens[token] = known
	}
	switch token[len(token)-1] {
	case '0':
		status, reason = 410, `{"reason":"Unregistered","timestamp":1700000000000}`
	case '1':
		status, reason = 400, `{"reason":"BadDeviceToken"}`
	case '2':
		if known.refused == 0 {
			status, reason = 500, `{"reason":"InternalServerError"}`
		}
	}
	if status == 200 {
		known.accepted++
		sums["accepted"]++
	} else {
		known.refused++
		sums["refused"]++
	}
	if !isValid {
		sums["violations"]++
	}
	mutex.Unlock()
	header := writer.Header()
	header.Set("apns-id", request.Header.Get("apns-id"))
	if isTurn("informational", mine) {
		writer.WriteHeader(103)
	}
	hasTrailer := reason != "" && isTurn("trailers", mine)
	if hasTrailer {
		header.Set("Trailer", "X-Trailer")
	}
	if isTurn("goaway", mine) {
		// HTTP/2 has no such field: Go sends GOAWAY.
		header.Set("Connection", "close")
	}
	writer.WriteHeader(status)
	io.WriteString(writer, reason)
	if hasTrailer {
		header.Set("X-Trailer", "1")
	}
}

func main() {
	certificate, key, recordPath := os.Args[1], os.Args[2], os.Args[4]
	if failure := json.Unmarshal([]byte(os.Args[5]), &behaviour); failure != nil {
		panic(failure)
	}
	listener, failure := net.Listen("tcp", "127.0.0.1:0")
	if failure != nil {
		panic(failure)
	}
	server := &http.Server{
		Handler:   http.HandlerFunc(answer),
		TLSConfig: &tls.Config{NextProtos: []string{"h2"}},
		ConnState: func(_ net.Conn, state http.ConnState) {
			if state == http.StateNew {
				mutex.Lock()
				sums["connections"]++
				mutex.Unlock()
			}
		},
	}
	fmt.Printf("{\"port\": %d}\n", listener.Addr().(*net.TCPAddr).Port)
	go server.ServeTLS(listener, certificate, key)
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGTERM)
	<-ended
	mutex.Lock()
	file, failure := os.Create(recordPath)
	if failure != nil {
		panic(failure)
	}
	record := bufio.NewWriter(file)
	for token, counts := range tokens {
		fmt.Fprintln(record, token, counts.accepted, counts.refused)
	}
	record.Flush()
	file.Close()
	text, _ := json.Marshal(sums)
	fmt.Println(string(text))
}
