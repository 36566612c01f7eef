package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"
)

// plan says what to send. The bodies are taken in turns; {sent_at} in them becomes the monotonic
// time at which the request was planned.
type plan struct {
	URL    string   `json:"url"`
	Token  string   `json:"token"`
	Bodies []string `json:"bodies"`
	// Count is how many requests are sent.
	Count int `json:"count"`
	// Connections is how many are kept busy in a closed loop: each sends when it has its answer.
	Connections int `json:"connections"`
	// Rate, if not 0, makes it an open loop: so many requests a second, each at a time that is
	// fixed beforehand, on a connection that is idle or else a new one.
	Rate float64 `json:"rate"`
	// Expect has to be in every answer.
	Expect string `json:"expect"`
}

// outcome says what came of a plan. A latency is the time from when the request was planned to
// the end of its answer, in milliseconds, in the order of the requests; times are monotonic.
type outcome struct {
	Begun      int64          `json:"begun"`
	Ended      int64          `json:"ended"`
	Latencies  []float64      `json:"latencies"`
	Statuses   map[string]int `json:"statuses"`
	Faults     []string       `json:"faults"`
	CPUSeconds float64        `json:"cpu_seconds"`
}

const mostFaults = 5

type sender struct {
	plan
	host    string
	path    string
	parts   [][][]byte // each body, cut where the time belongs
	mutex   sync.Mutex
	idle    []*connection
	outcome outcome
}

type connection struct {
	net.Conn
	reader *bufio.Reader
	buffer bytes.Buffer
}

func send(in io.Reader, out io.Writer) error {
	s := &sender{}
	if err := json.NewDecoder(in).Decode(&s.plan); err != nil {
		return err
	}
	target, err := url.Parse(s.URL)
	if err != nil {
		return err
	}
	s.host, s.path = target.Host, target.RequestURI()
	for _, body := range s.Bodies {
		s.parts = append(s.parts, bytes.Split([]byte(body), []byte("{sent_at}")))
	}
	s.outcome = outcome{
		Latencies: make([]float64, s.Count), Statuses: map[string]int{}, Faults: []string{}}
	cpu := cpuSeconds()
	s.outcome.Begun = monotonic()
	if s.Rate > 0 {
		s.openLoop()
	} else {
		s.closedLoop()
	}
	s.outcome.Ended = monotonic()
	s.outcome.CPUSeconds = cpuSeconds() - cpu
	return json.NewEncoder(out).Encode(s.outcome)
}

func (s *sender) closedLoop() {
	numbers := make(chan int, s.Count)
	for number := range s.Count {
		numbers <- number
	}
	close(numbers)
	var group sync.WaitGroup
	for range min(s.Connections, s.Count) {
		group.Add(1)
		go func() {
			defer group.Done()
			for number := range numbers {
				s.one(number, monotonic())
			}
		}()
	}
	group.Wait()
}

func (s *sender) openLoop() {
	var group sync.WaitGroup
	for number := range s.Count {
		planned := s.outcome.Begun + int64(float64(number)/s.Rate*1e9)
		time.Sleep(time.Duration(planned - monotonic()))
		group.Add(1)
		go func() {
			defer group.Done()
			s.one(number, planned)
		}()
	}
	group.Wait()
}

// one sends a request, and notes what came of it.
func (s *sender) one(number int, planned int64) {
	status, fault := s.exchange(number, planned)
	took := float64(monotonic()-planned) / 1e6
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.outcome.Latencies[number] = rounded(took)
	s.outcome.Statuses[strconv.Itoa(status)]++
	if fault != nil && len(s.outcome.Faults) < mostFaults {
		s.outcome.Faults = append(s.outcome.Faults, fault.Error())
	}
}

func (s *sender) exchange(number int, planned int64) (int, error) {
	c, err := s.connection()
	if err != nil {
		return 0, err
	}
	parts := s.parts[number%len(s.parts)]
	when := strconv.AppendInt(nil, planned, 10)
	size := len(when) * (len(parts) - 1)
	for _, part := range parts {
		size += len(part)
	}
	c.buffer.Reset()
	fmt.Fprintf(&c.buffer, "POST %s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\n"+
		"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n", s.path, s.host, s.Token, size)
	for index, part := range parts {
		if index > 0 {
			c.buffer.Write(when)
		}
		c.buffer.Write(part)
	}
	if _, err = c.Write(c.buffer.Bytes()); err != nil {
		c.Close()
		return 0, err
	}
	response, err := http.ReadResponse(c.reader, nil)
	if err != nil {
		c.Close()
		return 0, err
	}
	content, err := io.ReadAll(response.Body)
	response.Body.Close()
	if err != nil || response.Close {
		c.Close()
	} else {
		s.mutex.Lock()
		s.idle = append(s.idle, c)
		s.mutex.Unlock()
	}
	if err == nil && (response.StatusCode/100 != 2 || !bytes.Contains(content, []byte(s.Expect))) {
		err = fmt.Errorf("%d: %.300s", response.StatusCode, content)
	}
	return response.StatusCode, err
}

func (s *sender) connection() (*connection, error) {
	s.mutex.Lock()
	if last := len(s.idle) - 1; last >= 0 {
		c := s.idle[last]
		s.idle = s.idle[:last]
		s.mutex.Unlock()
		return c, nil
	}
	s.mutex.Unlock()
	dialed, err := net.Dial("tcp", s.host)
	if err != nil {
		return nil, err
	}
	return &connection{Conn: dialed, reader: bufio.NewReaderSize(dialed, 16<<10)}, nil
}
