// A receiver on Go's net/http. `receiver [SECONDS]` prints its port; the seconds are for
// IdleTimeout.
package main

import (
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"strconv"
	"time"
)

func main() {
	server := &http.Server{Handler: http.HandlerFunc(answer)}
	if len(os.Args) > 1 {
		seconds, err := strconv.ParseFloat(os.Args[1], 64)
		if err != nil {
			log.Fatal(err)
		}
		server.IdleTimeout = time.Duration(seconds * float64(time.Second))
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(listener.Addr().(*net.TCPAddr).Port)
	log.Fatal(server.Serve(listener))
}

func answer(writer http.ResponseWriter, request *http.Request) {
	if _, err := io.Copy(io.Discard, request.Body); err == nil {
		io.WriteString(writer, "ok")
	}
}
