package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"strconv"
	"strings"
	"sync"
)

var (
	sentAt  = []byte(`"sent_at":`)
	length  = []byte("content-length")
	hookID  = []byte("x-hook-id")
	answer  = []byte("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
	refusal = []byte("HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n")
)

// hole is the beginning of the paths whose requests are read and never answered.
const hole = "/hole"

// sink notes what comes. Latencies are in milliseconds, arrivals in monotonic nanoseconds.
type sink struct {
	mutex      sync.Mutex
	broken     bool
	latencies  []float64
	arrivals   []int64
	byPath     map[string]*[]float64
	seen       map[string]struct{}
	duplicates int
	swallowed  int
}

func (s *sink) reset() {
	s.latencies, s.arrivals = []float64{}, []int64{}
	s.byPath, s.seen = map[string]*[]float64{}, map[string]struct{}{}
	s.duplicates, s.swallowed = 0, 0
}

func serve() error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	s := &sink{}
	s.reset()
	fmt.Println(listener.Addr().(*net.TCPAddr).Port)
	for {
		connection, err := listener.Accept()
		if err != nil {
			return err
		}
		go s.serve(connection)
	}
}

func (s *sink) serve(connection net.Conn) {
	defer connection.Close()
	reader := bufio.NewReaderSize(connection, 16<<10)
	var request request
	for request.read(reader) == nil {
		var err error
		if request.method != "POST" {
			err = s.report(connection, request.path)
		} else if strings.HasPrefix(request.path, hole) {
			s.swallow()
			_, _ = io.Copy(io.Discard, connection) // until the sender gives up
			return
		} else {
			_, err = connection.Write(s.note(&request))
		}
		if err != nil {
			return
		}
	}
}

func (s *sink) swallow() {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.swallowed++
}

func (s *sink) note(r *request) []byte {
	now := monotonic()
	latency := 0.0
	if found := bytes.Index(r.body, sentAt); found >= 0 {
		if sent := leadingNumber(bytes.TrimLeft(r.body[found+len(sentAt):], " ")); sent > 0 {
			latency = rounded(float64(now-sent) / 1e6)
		}
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.broken {
		return refusal
	}
	s.latencies = append(s.latencies, latency)
	s.arrivals = append(s.arrivals, now)
	ofPath, known := s.byPath[r.path]
	if !known {
		ofPath = &[]float64{}
		s.byPath[r.path] = ofPath
	}
	*ofPath = append(*ofPath, latency)
	if _, again := s.seen[r.id]; again && r.id != "" {
		s.duplicates++
	}
	s.seen[r.id] = struct{}{}
	return answer
}

func (s *sink) report(connection net.Conn, path string) error {
	s.mutex.Lock()
	asked, err := json.Marshal(s.asked(path))
	s.mutex.Unlock()
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(connection, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(asked), asked)
	return err
}

func (s *sink) asked(path string) any {
	switch path {
	case "/reset":
		s.reset()
	case "/break", "/repair":
		s.broken = path == "/break"
	case "/report":
		return s.latencies
	case "/arrivals":
		return s.arrivals
	case "/paths":
		return s.byPath
	case "/duplicates":
		return s.duplicates
	case "/swallowed":
		return s.swallowed
	}
	if of, found := strings.CutPrefix(path, "/report/"); found {
		if latencies, known := s.byPath["/"+of]; known {
			return latencies
		}
		return []float64{}
	}
	return len(s.latencies)
}

// request is as much of an HTTP request as the sink wants to know.
type request struct {
	method, path, id string
	body             []byte
}

var errNotHTTP = errors.New("not HTTP")

func (r *request) read(reader *bufio.Reader) error {
	line, err := reader.ReadSlice('\n')
	if err != nil {
		return err
	}
	words := bytes.Fields(line)
	if len(words) != 3 {
		return errNotHTTP
	}
	r.method, r.path, r.id = string(words[0]), string(words[1]), ""
	size := int64(0)
	for {
		if line, err = reader.ReadSlice('\n'); err != nil {
			return err
		}
		line = bytes.TrimSpace(line)
		if len(line) == 0 {
			break
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		if bytes.EqualFold(name, length) {
			size = leadingNumber(bytes.TrimSpace(value))
		} else if bytes.EqualFold(name, hookID) {
			r.id = string(bytes.TrimSpace(value))
		}
	}
	if int64(cap(r.body)) < size {
		r.body = make([]byte, size)
	}
	r.body = r.body[:size]
	_, err = io.ReadFull(reader, r.body)
	return err
}

// leadingNumber returns the digits that the text begins with; 0 if there are none.
func leadingNumber(text []byte) int64 {
	end := 0
	for end < len(text) && text[end] >= '0' && text[end] <= '9' {
		end++
	}
	number, _ := strconv.ParseInt(string(text[:end]), 10, 64)
	return number
}

// rounded keeps the microseconds, so that a report of many latencies stays small.
func rounded(milliseconds float64) float64 { return math.Round(milliseconds*1000) / 1000 }
