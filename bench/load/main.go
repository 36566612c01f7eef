// Load generates the requests of a measurement and receives what is delivered, so that neither
// takes the CPU that is measured. Standard library only; bench/loading.py builds and runs it.
//
//	load sink    the receiver; prints its port (the contract is that of bench/sink.py)
//	load send    reads a plan as JSON from stdin, sends it, prints what came of it as JSON
package main

import (
	"fmt"
	"os"
	"runtime"
)

func main() {
	// Both wait more than they work; one thread at a time leaves the other cores to the service.
	runtime.GOMAXPROCS(1)
	var err error
	switch {
	case len(os.Args) == 2 && os.Args[1] == "sink":
		err = serve()
	case len(os.Args) == 2 && os.Args[1] == "send":
		err = send(os.Stdin, os.Stdout)
	default:
		err = fmt.Errorf("usage: load sink | load send")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
